"""Interactive jobs: what they print is taken piece by piece, what is typed reaches them, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from run_host import PATIENCE_S, Host

from gsched.agent.output.removed_outputs import OutputRemoved
from gsched.agent.output.terminal_questions import ask, hang_up, has_terminal, show
from gsched.run.supervisor.terminal import LIMIT, Terminal
from gsched.wire.v1 import agent_pb2


def on_a_host(scenario: Callable[[Host], Awaitable[None]]) -> Callable[..., None]:
    def test(on_host: Callable[[Callable[[Host], Awaitable[None]]], None]) -> None:
        on_host(scenario)

    return test


class Person:
    """Somebody at the terminal of job 1."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.seen = {"stdout": b"", "stderr": b""}
        self.typed = 0
        self.is_over = False

    async def look(self, most: int = 1 << 20) -> None:
        """Take what there is, waiting for it a while."""
        answer = await ask(
            self.host.folder(),
            stdout=len(self.seen["stdout"]),
            stderr=len(self.seen["stderr"]),
            most=most,
            wait_ms=2000,
        )
        assert answer is not None
        header, data = answer
        for stream in self.seen:
            count = header.get(stream, 0)
            self.seen[stream] += data[:count]
            data = data[count:]
        self.is_over = bool(header["over"])

    async def until(self, text: bytes, stream: str = "stdout") -> None:
        async with asyncio.timeout(PATIENCE_S):
            while text not in self.seen[stream]:
                await self.look()

    async def to_the_end(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not self.is_over:
                await self.look()

    async def type(self, text: bytes, **more: int) -> None:
        answer = await ask(self.host.folder(), text, **{"from": self.typed, **more})
        assert answer is not None
        self.typed = answer[0]["taken"]


async def begin(host: Host, command: str, kind: str) -> Person:
    await host.executor.start(host.order(command, interactive=kind))
    await host.start_of(1)
    assert has_terminal(host.folder())
    return Person(host)


@on_a_host
async def test_a_pseudo_terminal(host: Host) -> None:
    person = await begin(host, "tty && stty size && read line && echo got $line", "pty")
    await person.until(b"24 80\r\n")
    assert person.seen["stdout"].startswith(b"/dev/pts/")
    await person.type(b"hello\n")
    await person.to_the_end()
    assert person.seen["stdout"].endswith(b"hello\r\ngot hello\r\n")
    assert (await host.end_of(1)).exit_code == 0


@on_a_host
async def test_its_window_changes_and_ctrl_c_reaches_the_job(host: Host) -> None:
    person = await begin(host, "trap 'stty size; exit 7' INT; echo up; while :; do sleep 0.05; done", "pty")
    await person.until(b"up")
    await person.type(b"\x03", rows=50, columns=132)
    await person.to_the_end()
    assert b"50 132" in person.seen["stdout"]
    assert (await host.end_of(1)).exit_code == 7


@on_a_host
async def test_pipes_keep_the_streams_apart_and_end_with_the_input(host: Host) -> None:
    person = await begin(host, "cat; echo done >&2; exit 3", "pipe")
    await person.type(b"one\n")
    await person.until(b"one\n")
    await person.type(b"two\n", end=1)
    await person.to_the_end()
    assert person.seen == {"stdout": b"one\ntwo\n", "stderr": b"done\n"}
    assert (await host.end_of(1)).exit_code == 3


@on_a_host
async def test_what_is_typed_again_is_taken_once(host: Host) -> None:
    """As when an answer was lost on its way back."""
    person = await begin(host, "cat", "pipe")
    await person.type(b"abc")
    person.typed = 0
    await person.type(b"abcdef\n", end=1)
    await person.to_the_end()
    assert person.seen["stdout"] == b"abcdef\n"


@on_a_host
async def test_nothing_is_lost_and_little_is_kept_of_a_job_that_prints_much(host: Host) -> None:
    size = 5 * LIMIT
    person = await begin(host, f"head -c {size} /dev/zero; echo end", "pipe")
    await person.look(most=1000)
    assert len(person.seen["stdout"]) <= 1000
    await person.to_the_end()
    assert person.seen["stdout"] == bytes(size) + b"end\n"


@on_a_host
async def test_the_end_of_input_is_ctrl_d_at_a_pseudo_terminal(host: Host) -> None:
    person = await begin(host, "cat; echo rest", "pty")
    await person.type(b"x\n", end=1)
    await person.to_the_end()
    assert person.seen["stdout"] == b"x\r\nx\r\nrest\r\n"


@on_a_host
async def test_a_job_that_cannot_be_executed_says_so_there(host: Host) -> None:
    person = await begin(host, "nosuchprogram", "pty")
    await person.to_the_end()
    assert b"nosuchprogram" in person.seen["stdout"]
    assert (await host.end_of(1)).exit_code == 127


@on_a_host
async def test_after_a_hangup_nothing_waits_for_a_reader(host: Host) -> None:
    """More is printed than is kept for somebody to read, and all that is kept is there: the job would wait for ever."""
    await begin(host, f"head -c {3 * LIMIT} /dev/zero; exit 3", "pty")
    kept = b""
    async with asyncio.timeout(PATIENCE_S):
        while len(kept) < LIMIT:
            answer = await ask(host.folder(), most=LIMIT, wait_ms=100)
            kept = answer[1] if answer else b""
    await hang_up(host.folder())
    assert (await host.end_of(1)).exit_code == 3


def a_job_that_nobody_watched(folder: Path, taken: int) -> None:
    """It has printed and ended; `taken` bytes of standard output were taken before nobody asked any more."""
    terminal = Terminal(str(folder), is_pty=False)
    stdin, stdout, stderr = terminal.streams
    os.write(stdout, b"first last")
    os.write(stderr, b"warning")
    for fd in (stdin, stdout, stderr):
        os.close(fd)
    terminal._outputs["stdout"].read(1 << 16)
    terminal._outputs["stdout"].taken(taken)
    terminal.start()
    terminal.finish(0.0)
    terminal.leave(str(folder))
    terminal.close(is_started=False)


def test_what_nobody_has_taken_when_a_job_has_ended_is_kept(tmp_path: Path) -> None:
    a_job_that_nobody_watched(tmp_path, 6)
    assert (tmp_path / "stdout").read_bytes()[6:] == b"last"
    assert (tmp_path / "stderr").read_bytes() == b"warning"


def test_it_is_shown_to_who_comes_late(tmp_path: Path) -> None:
    a_job_that_nobody_watched(tmp_path, 0)
    sent: list[agent_pb2.OutputReply] = []

    async def send(reply: agent_pb2.OutputReply) -> bool:
        sent.append(reply)
        return True

    async def read(_key: tuple[int, int], stream: str, offset: int, most: int) -> bytes:
        return (tmp_path / stream).read_bytes()[offset : offset + most]

    request = agent_pb2.ReadOutput(job_id=1, attempt=1, stdout_from=2, most=100, terminal=True)
    asyncio.run(show(request, tmp_path, lambda: True, read, send))
    assert [(each.stream, each.data) for each in sent[:-1]] == [("stdout", b"rst last"), ("stderr", b"warning")]
    assert (sent[-1].last, sent[-1].over) == (True, True)


def test_who_reads_the_last_output_when_it_goes_is_told(tmp_path: Path) -> None:
    sent: list[agent_pb2.OutputReply] = []

    async def send(reply: agent_pb2.OutputReply) -> bool:
        sent.append(reply)
        return True

    async def read(_key: tuple[int, int], _stream: str, _offset: int, _most: int) -> bytes:
        raise OutputRemoved("the output of this job was removed")

    request = agent_pb2.ReadOutput(request=3, job_id=1, attempt=1, stdout_from=2, most=100, terminal=True)
    asyncio.run(show(request, tmp_path, lambda: True, read, send))
    assert [(each.request, each.last, each.over, each.error) for each in sent] == [
        (3, True, False, "the output of this job was removed")
    ]


def test_nothing_is_kept_for_a_terminal_that_was_closed(tmp_path: Path) -> None:
    terminal = Terminal(str(tmp_path), is_pty=False)
    os.write(terminal.streams[1], b"secret")
    terminal._is_hung_up = True
    terminal.start()
    terminal.finish(0.0)
    terminal.leave(str(tmp_path))
    assert not (tmp_path / "stdout").exists()
    for fd in terminal.streams:
        os.close(fd)
    terminal.close(is_started=False)
