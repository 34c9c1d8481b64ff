"""glaunch, from its command line to the task on another host and back, and all in between that is not a daemon."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_host import Host, appears

from gsched.agent.tasks.host_tasks import HostTasks
from gsched.agent.tasks.launch_environment import GIVEN, SOCKET, launch_variables
from gsched.agent.tasks.launch_server import LaunchServer, known_as, targets
from gsched.agent.tasks.launch_socket import listen, socket_path
from gsched.agent.tasks.step_desk import StepDesk
from gsched.agent.tasks.step_records import StepRecords
from gsched.agent.tasks.task_questions import TaskQuestions
from gsched.app import glaunch
from gsched.master.agents.task_relay import TaskRelay
from gsched.model.jobs.job import JobState
from gsched.wire.calls.client import DEFAULT_WAIT_S
from gsched.wire.messages import frames, launch_protocol
from gsched.wire.messages.frames import ProtocolError
from gsched.wire.messages.launch_protocol import LaunchRequest
from gsched.wire.v1 import agent_pb2

ROOT = Path(__file__).resolve().parents[3]
CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); from gsched.app.launch import start; "
    "start('glaunch', sys.argv[2:], '')"
)


class Agent:
    """What an agent has of this: tasks, relay and door of one host."""

    def __init__(self, net: Net, name: str) -> None:
        self.net = net
        self.tasks = HostTasks(name, net.host.executor, lambda key: net.host.folder(*key), lambda: 0.3)
        self.relay = TaskQuestions(name, self.tasks.answer, lambda message: net.from_agent(name, message))
        self.steps = StepRecords(lambda key: net.host.folder(*key))
        desk = StepDesk(self.steps, lambda key: dict.fromkeys(net.slots, (1, 0)))
        self.door = LaunchServer(name, self.relay, self.prove, lambda key: net.slots, desk)

    def prove(self, pid: int, uid: int) -> tuple[int, int] | None:
        """It looks at many processes: never where all others wait for it."""
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return (1, 1) if self.net.is_proven else None


class Net:
    """Two hosts "here" and "there" with one executor, and the master's part in between."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.is_proven = True
        self.slots = ["here", "there", "there"]
        self.path = socket_path(str(host.root), "here")
        self.agents = {name: Agent(self, name) for name in ("here", "there")}
        self.works: set[asyncio.Task[None]] = set()
        self.cut = False
        self.questions = 0
        parts = [SimpleNamespace(host=name) for name in self.agents]
        job = SimpleNamespace(attempt=1, state=JobState.RUN, allocation=SimpleNamespace(hosts=parts))
        self.master = TaskRelay(SimpleNamespace(job=lambda job_id: job), self.to_agent)  # type: ignore[arg-type]

    async def open(self) -> None:
        await self.host.executor.start(self.host.order("exec sleep 600"))
        await self.host.start_of(1)
        await self.agents["here"].door.open(listen(self.path, others=False))
        for agent in self.agents.values():
            agent.relay.begin()

    async def restart(self) -> None:
        """The agent of "here" ends, and another one begins."""
        self.agents["here"].door.close()
        await asyncio.sleep(0.1)
        self.agents["here"] = Agent(self, "here")
        await self.agents["here"].door.open(listen(self.path, others=False))
        self.agents["here"].relay.begin()

    def from_agent(self, name: str, message: agent_pb2.AgentMessage) -> None:
        self.questions += 1
        if not self.cut:
            self.master.asked(name, message.task_ask)

    def to_agent(self, name: str, message: agent_pb2.MasterMessage) -> bool:
        if self.cut:
            return True
        if message.HasField("task_reply"):
            self.agents[name].relay.answered(message.task_reply)
        else:
            work = asyncio.create_task(self.carry_out(name, message.task_ask))
            self.works.add(work)
            work.add_done_callback(self.works.discard)
        return True

    async def carry_out(self, name: str, ask: agent_pb2.TaskAsk) -> None:
        reply = await self.agents[name].tasks.answer(ask)
        if not self.cut:
            self.master.answered(name, reply)

    async def begin(self, *words: str, wait: str = "60", **more: Any) -> asyncio.subprocess.Process:
        environment = {**os.environ, SOCKET: str(self.path), "GSCHED_COMMAND_WAIT": wait}
        environment.pop("PYTHONPATH", None)
        more.setdefault("stdin", asyncio.subprocess.DEVNULL)
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-X", "utf8", "-c", CODE, str(ROOT), *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=self.host.root,
            **more,
        )

    async def run(self, *words: str, stdin: bytes | None = None) -> tuple[int, bytes, bytes]:
        """Exit code, output, errors."""
        with tempfile.TemporaryFile() as file:  # no pipe: asyncio complains of one that nobody has read
            file.write(stdin or b"")
            file.seek(0)
            process = await self.begin(*words, stdin=asyncio.subprocess.DEVNULL if stdin is None else file)
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out, err

    def left(self) -> list[str]:
        """Names of tasks that something is kept of."""
        folder = self.host.folder() / "tasks"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def on_a_net(scenario: Callable[[Net], Awaitable[None]]) -> Callable[..., None]:
    def test(on_host: Callable[[Callable[[Host], Awaitable[None]]], None]) -> None:
        async def on_host_(host: Host) -> None:
            net = Net(host)
            await net.open()
            try:
                await scenario(net)
            finally:
                net.agents["here"].door.close()

        on_host(on_host_)

    return test


@pytest.mark.parametrize("host", ["here", "there"])
def test_output_errors_and_exit_code(host: str, on_host: Callable[..., None]) -> None:
    async def scenario(net: Net) -> None:
        assert await net.run(host, "echo out; echo err >&2; exit 7") == (7, b"out\n", b"err\n")
        assert await net.run(host, "kill -9 $$") == (137, b"", b"")
        assert await net.run("-no-shell", host, "printf", "%s,", "a  b", "$HOME") == (0, b"a  b,$HOME,", b"")
        assert (await net.run(host, "umask; pwd"))[1].split()[1] == str(net.host.root).encode()
        await appears(lambda: net.left() == [])

    on_a_net(scenario)(on_host)


@on_a_net
async def test_without_a_host_once_for_each_slot(net: Net) -> None:
    code, out, _ = await net.run("echo $LSF_PM_TASKID of $GSCHED_TASK_COUNT; [ $LSF_PM_TASKID != 2 ] || exit 4")
    assert sorted(out.splitlines()) == [b"1 of 3", b"2 of 3", b"3 of 3"]
    assert code == 4, "the first that is not 0"
    _, out, _ = await net.run("-z", "there here", "echo $LSF_PM_TASKID")
    assert sorted(out.split()) == [b"1", b"2"]
    (net.host.root / "hosts").write_text("there\nthere\n")
    _, out, _ = await net.run("-u", "hosts", "echo once")
    assert out == b"once\nonce\n"


@on_a_net
async def test_what_cannot_be_is_said_in_one_line(net: Net) -> None:
    refused = b"glaunch: elsewhere is not a host of this job; it has here, there\n"
    assert await net.run("-z", "elsewhere", "true") == (255, b"", refused)
    assert await net.run("there") == (255, b"", b"glaunch: no command to run\n")
    assert await net.run() == (255, b"", b"glaunch: no command to run (-h lists the options)\n")
    assert (await net.run("-wrong", "true"))[2] == b"glaunch: unknown option -wrong (-h lists the options)\n"
    assert await net.run("-u", "nothing", "true") == (255, b"", b"glaunch: nothing: No such file or directory\n")
    net.is_proven = False
    code, _, err = await net.run("there", "true")
    assert code == 255 and b"belongs to no job" in err and err.count(b"\n") == 1


@on_a_net
async def test_options_of_ssh_mean_nothing(net: Net) -> None:
    assert await net.run("-x", "-l", "ann", "-o", "A=b", "there", "echo", "out") == (0, b"out\n", b"")


@on_a_net
async def test_standard_input_goes_to_one_task_alone(net: Net) -> None:
    data = os.urandom(1 << 20)
    code, out, _ = await net.run("there", "cat", stdin=data)
    assert (code, out) == (0, data)
    assert await net.run("-n", "there", "cat", stdin=b"text") == (0, b"", b"")
    assert await net.run("cat", stdin=b"text") == (0, b"", b"")
    assert await net.run("there", "true", stdin=data) == (0, b"", b"")


def test_input_that_nobody_has_read_is_no_failure(
    on_host: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(net: Net) -> None:
        for _ in range(20):
            assert (await net.run("here", "true", stdin=b"text"))[0] == 0
        gc.collect()

    on_a_net(scenario)(on_host)
    assert not [record for record in caplog.records if record.name == "asyncio" and record.levelname == "ERROR"]


@on_a_net
async def test_bytes_come_through_as_they_are(net: Net) -> None:
    code, out, err = await net.run("there", "head -c 3000000 /dev/urandom | tee copy; cat copy >&2")
    assert code == 0 and out == err == (net.host.root / "copy").read_bytes()


@on_a_net
async def test_signals_go_on(net: Net) -> None:
    process = await net.begin("there", "trap 'echo got; exit 5' TERM; echo up; while :; do sleep 0.05; done")
    assert process.stdout is not None
    assert await process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGTERM)
    assert await process.stdout.readline() == b"got\n"
    assert await process.wait() == 5


@on_a_net
async def test_tasks_end_when_the_command_is_killed(net: Net) -> None:
    process = await net.begin("there", "trap '' TERM; echo $$; while :; do sleep 0.05; done")
    assert process.stdout is not None
    pid = int(await process.stdout.readline())
    process.kill()
    await process.wait()
    await appears(lambda: not Path(f"/proc/{pid}").exists())
    await appears(lambda: net.left() == [])


@on_a_net
async def test_a_cut_between_the_hosts_is_not_noticed(net: Net) -> None:
    process = await net.begin("there", "for i in 1 2 3 4 5 6 7 8; do echo $i; echo $i >> ran; sleep 0.1; done")
    assert process.stdout is not None
    assert await process.stdout.readline() == b"1\n"
    for _ in range(2):
        net.cut = True
        for agent in net.agents.values():
            agent.relay.end()
        await asyncio.sleep(0.2)
        net.cut = False
        net.agents["here"].relay.begin()
        await asyncio.sleep(0.1)
    out, err = await process.communicate()
    assert (out, err, process.returncode) == (b"".join(b"%d\n" % i for i in range(2, 9)), b"", 0)
    assert (net.host.root / "ran").read_text().split() == list("12345678"), "it ran once"


@on_a_net
async def test_an_agent_that_is_started_again_goes_on_with_it(net: Net) -> None:
    process = await net.begin("-z", "here there", "[ $LSF_PM_TASKID = 1 ] || exec >&2; seq 1 300000; exit 3")
    await asyncio.sleep(0.2)
    await net.restart()
    out, err = await process.communicate()
    assert out == err == b"".join(b"%d\n" % number for number in range(1, 300001))
    assert process.returncode == 3


@on_a_net
async def test_input_goes_on_after_the_agent_was_started_again(net: Net) -> None:
    process = await net.begin("there", "cat", stdin=asyncio.subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"before\n")
    assert await process.stdout.readline() == b"before\n"
    await net.restart()
    out, err = await process.communicate(b"after\n")
    assert (out, err, process.returncode) == (b"after\n", b"", 0)


@on_a_net
async def test_an_agent_is_missed_from_when_it_goes_not_from_when_it_was_met(net: Net) -> None:
    waits = "until [ -e go ]; do sleep 0.05; done"
    process = await net.begin("there", f"echo begun; {waits}; echo over", wait="4")
    assert process.stdout is not None
    assert await process.stdout.readline() == b"begun\n"
    await asyncio.sleep(4.1)
    await net.restart()
    (net.host.root / "go").touch()
    out, err = await process.communicate()
    assert (out, err, process.returncode) == (b"over\n", b"", 0)


PLEASE_WAIT = b"glaunch: the agent of this host is not responding, it may be restarting. Please wait ...\n"


@pytest.mark.parametrize("kind", ["nothing", "left behind", "silent"])
def test_an_agent_that_stays_away_is_given_up(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        if kind != "nothing":
            listening.bind(str(path))
        if kind == "silent":
            listening.listen(1)
        environment = {**os.environ, SOCKET: str(path), "GSCHED_COMMAND_WAIT": "1.5"}
        words = [sys.executable, "-I", "-S", "-X", "utf8", "-c", CODE, str(ROOT), "date"]
        began = time.monotonic()
        done = subprocess.run(words, env=environment, capture_output=True, timeout=60, check=False)
    assert 1.4 < time.monotonic() - began < 60
    given_up = f"glaunch: the agent of this host has not answered for 1.5 s ({path})\n"
    assert (done.returncode, done.stdout, done.stderr) == (255, b"", PLEASE_WAIT + given_up.encode())


class LastWords:
    """An agent that takes one connection, of which it reads nothing from some moment on, and counts who comes back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.came = 0

    def serve(self, *, reads: bool, last: bytes) -> subprocess.CompletedProcess[bytes]:
        """What the command makes of `last`, said when nothing that it sends can arrive any more."""
        environment = {**os.environ, SOCKET: str(self.path), "GSCHED_COMMAND_WAIT": "1"}
        words = [sys.executable, "-I", "-S", "-X", "utf8", "-c", CODE, str(ROOT), "there", "true"]
        with (
            socket.socket(socket.AF_UNIX) as listening,
            subprocess.Popen(
                words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as command,
        ):
            listening.bind(str(self.path))
            listening.listen(9)
            assert command.stdin is not None
            command.stdin.write(b"text")
            command.stdin.flush()
            connection, _ = listening.accept()
            with connection:
                hello = frames.frame(launch_protocol.HELLO, launch_protocol.GREETING)
                if reads:
                    connection.sendall(hello)
                    self._until(connection, frames.frame(launch_protocol.GO))
                    connection.sendall(frames.frame(launch_protocol.COUNT, b"1") + want(0))
                    self._until(connection, frames.frame(launch_protocol.DATA, b"text"))
                connection.shutdown(socket.SHUT_RD)
                connection.sendall(last if reads else hello + last)
            out, err = command.communicate(timeout=60)
            listening.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while listening.accept():
                    self.came += 1
            return subprocess.CompletedProcess(words, command.returncode, out, err)

    def _until(self, connection: socket.socket, end: bytes) -> None:
        had = b""
        while not had.endswith(end):
            had += connection.recv(1 << 16)


def want(taken: int) -> bytes:
    return frames.frame(launch_protocol.WANT, b"%d" % taken)


def test_an_end_that_was_told_counts_though_the_agent_takes_no_input_any_more(tmp_path: Path) -> None:
    agent = LastWords(tmp_path / "agent.sock")
    ended = frames.frame(launch_protocol.ENDED, (0).to_bytes(4, "big") + b"%d " % (3 << 8))
    done = agent.serve(reads=True, last=want(0) + ended)
    assert (done.returncode, done.stdout, done.stderr, agent.came) == (3, b"", b"", 0)


def test_a_refusal_counts_though_the_agent_has_not_read_what_was_asked(tmp_path: Path) -> None:
    agent = LastWords(tmp_path / "agent.sock")
    done = agent.serve(reads=False, last=frames.frame(launch_protocol.REFUSED, b"too many"))
    assert (done.returncode, done.stdout, done.stderr, agent.came) == (255, b"", b"glaunch: too many\n", 0)


def test_how_long_an_agent_is_waited_for_is_as_for_a_master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSCHED_ENVDIR", str(tmp_path))
    monkeypatch.delenv("GSCHED_COMMAND_WAIT", raising=False)
    assert glaunch.patience_s() == DEFAULT_WAIT_S
    (tmp_path / "lsf.conf").write_text("GSCHED_COMMAND_WAIT=7\n")
    assert glaunch.patience_s() == 7
    monkeypatch.setenv("GSCHED_COMMAND_WAIT", "3")
    assert glaunch.patience_s() == 3
    monkeypatch.setenv("GSCHED_COMMAND_WAIT", "long")
    with pytest.raises(glaunch.LaunchRefused, match="GSCHED_COMMAND_WAIT=long: not a number of seconds"):
        glaunch.patience_s()


@on_a_net
async def test_who_does_not_read_makes_the_task_wait_and_fills_no_memory(net: Net) -> None:
    process = await net.begin(
        "there", "i=0; while [ $i -lt 4000 ]; do printf '%01000d' $i; i=$((i+1)); done; echo done > over"
    )
    await asyncio.sleep(1.0)
    assert not (net.host.root / "over").exists()
    out, _ = await process.communicate()
    assert len(out) == 4_000_000 and (net.host.root / "over").exists()


@on_a_net
async def test_rubbish_closes_the_connection_and_nothing_else(net: Net) -> None:
    for rubbish in (
        b"R\xff\xff\xff\xff",
        frames.frame(b"?"),
        frames.frame(launch_protocol.REQUEST, b"x") + frames.frame(launch_protocol.GO),
    ):
        reader, writer = await asyncio.open_unix_connection(str(net.path))
        writer.write(rubbish)
        await asyncio.wait_for(reader.read(), 60)
        writer.close()
    assert await net.run("there", "echo out") == (0, b"out\n", b"")


# -- its parts --------------------------------------------------------------------------------------------------------


async def asking(net: Net, request: LaunchRequest) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which this was asked, and the agent's greeting read."""
    reader, writer = await asyncio.open_unix_connection(str(net.path))
    greeting = frames.frame(launch_protocol.HELLO, launch_protocol.GREETING)
    assert await reader.readexactly(len(greeting)) == greeting
    blob = request.encode()
    for start in range(0, len(blob), frames.MAX_FRAME):
        writer.write(frames.frame(launch_protocol.REQUEST, blob[start : start + frames.MAX_FRAME]))
    writer.write(frames.frame(launch_protocol.GO))
    return reader, writer


def test_a_user_has_so_many_launches_at_a_time(on_host: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.agent.tasks.launch_server.MOST_CONNECTIONS", 2)

    async def scenario(net: Net) -> None:
        requests = (
            LaunchRequest(f"{number:016x}", "s", False, None, "/", 0, ("there",), ("sleep 60",), ())
            for number in range(2)
        )
        opened = [await asking(net, request) for request in requests]
        assert [await reader.readexactly(1) for reader, _ in opened] == [launch_protocol.COUNT] * 2
        code, out, told = await net.run("there", "echo out")
        assert (code, out) == (255, b"") and b"2 launches of this user are under way on here already" in told
        for _, writer in opened:
            writer.close()
        async with asyncio.timeout(60):
            while (await net.run("there", "echo out"))[:2] != (0, b"out\n"):
                await asyncio.sleep(0.05)

    on_a_net(scenario)(on_host)


@pytest.mark.parametrize("what", ["words", "tasks"])
def test_one_user_cannot_fill_the_memory_with_launches(
    what: str, on_host: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.agent.tasks.launch_server.MOST_LOAD", 100_000)
    words = ("sleep 60 #", *["ab"] * (400 if what == "words" else 0))
    hosts = ("there",) * (1 if what == "words" else 4)

    async def scenario(net: Net) -> None:
        async def begin(number: int) -> bytes:
            request = LaunchRequest(f"{number:016x}", "s", False, None, "/", 0, hosts, words, ())
            reader, writer = await asking(net, request)
            open_.append(writer)
            return await reader.readexactly(1)

        open_: list[asyncio.StreamWriter] = []
        assert await begin(0) == launch_protocol.COUNT
        assert [await begin(number) for number in range(1, 5)][-1] == launch_protocol.REFUSED
        for writer in open_:
            writer.close()
        async with asyncio.timeout(60):  # what ended takes nothing any more
            while await begin(9) == launch_protocol.REFUSED:
                await asyncio.sleep(0.05)
        open_[-1].close()

    on_a_net(scenario)(on_host)


@on_a_net
async def test_a_flood_of_signals_takes_no_memory(net: Net) -> None:
    net.cut = True
    before = len(asyncio.all_tasks())
    request = LaunchRequest("0" * 16, "s", False, None, "/", 0, ("there",) * 4, ("sleep 60",), ())
    _, writer = await asking(net, request)
    writer.write(frames.frame(launch_protocol.SIGNAL, b"15") * 20_000)
    await writer.drain()
    await appears(lambda: len(asyncio.all_tasks()) > before + 8)
    await asyncio.sleep(0.2)
    assert len(asyncio.all_tasks()) < before + 200
    writer.close()


def test_the_command_speaks_the_same_protocol() -> None:
    names = [name for name in vars(launch_protocol) if name.isupper() and name[0] != "_" and "SHELL" not in name]
    assert len(names) > 14
    assert {name: getattr(glaunch, name) for name in names} == {name: getattr(launch_protocol, name) for name in names}
    assert glaunch.MAX_FRAME == frames.MAX_FRAME
    for name in ("SHELL", "LOGIN_SHELL", "NO_SHELL"):
        assert getattr(glaunch, name).decode() == getattr(launch_protocol, name)


texts = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=20)


@given(
    st.builds(
        LaunchRequest,
        key=st.just("0123456789abcdef"),
        shell=st.sampled_from("sld"),
        reads=st.booleans(),
        progress=st.none()
        | st.lists(st.none() | st.tuples(st.integers(0, 1 << 40), st.integers(0, 9)), min_size=1).map(tuple),
        cwd=texts,
        umask=st.integers(0, 0o777),
        hosts=st.lists(texts, max_size=3).map(tuple),
        words=st.lists(texts, max_size=3).map(tuple),
        environment=st.lists(texts, max_size=3).map(tuple),
    )
)
def test_requests_come_through(request_: LaunchRequest) -> None:
    assert LaunchRequest.decode(request_.encode()) == request_


@given(st.binary(max_size=100))
def test_rubbish_is_a_protocol_error_or_a_request(blob: bytes) -> None:
    try:
        LaunchRequest.decode(blob)
    except ProtocolError:
        pass


@pytest.mark.parametrize("had", ["9" * 30 + ",0", f"0,{1 << 63}", "-1,0", "0", "9" * 5000 + ",0"])
def test_no_more_can_have_been_had_than_there_can_be(had: str) -> None:
    blob = LaunchRequest("0" * 16, "s", False, None, "/", 0, (), ("id",), ()).encode()
    with pytest.raises(ProtocolError):
        LaunchRequest.decode(blob.replace(b"\0s\x000\0\0", b"\0s\x000\0" + had.encode() + b"\0", 1))


def request(*words: str, hosts: tuple[str, ...] = ()) -> LaunchRequest:
    return LaunchRequest("0123456789abcdef", "s", False, None, "/", 0, hosts, words, ())


def test_the_first_word_is_a_host_if_the_job_has_it() -> None:
    slots = ["a", "a", "b"]
    assert targets(request("b", "date"), slots) == ("", ["b"], ["date"])
    assert targets(request("c", "date"), slots) == ("", slots, ["c", "date"])
    assert targets(request("b", "date", hosts=("a", "b")), slots) == ("", ["a", "b"], ["b", "date"])


def test_hosts_are_known_with_and_without_their_domain() -> None:
    assert known_as("gpu01.site", ["gpu01"]) == "gpu01"
    assert known_as("gpu01", ["gpu01.site"]) == "gpu01.site"
    assert known_as("gpu02.site", ["gpu01"]) == ""
    assert known_as("GPU01", ["gpu01"]) == "", "a word that only looks like a host is a command"


def test_mpi_is_told_what_starts_its_daemons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.agent.tasks.launch_environment.launcher", lambda: "/bin/glaunch")
    assert launch_variables({}, "/run/a.sock", "/h", 1) == {SOCKET: "/run/a.sock", GIVEN: None}
    given = launch_variables({"OMPI_MCA_plm_rsh_agent": "ssh"}, "/run/a.sock", "/h", 2)
    assert "OMPI_MCA_plm_rsh_agent" not in given and given["OMPI_MCA_orte_default_hostfile"] == "/h"
    outer = {name: value for name, value in launch_variables({}, "/run/a.sock", "/h", 2).items() if value is not None}
    inner = launch_variables(outer, "/run/b.sock", "/i", 1)
    assert inner[SOCKET] == "/run/b.sock"
    assert {name for name, value in inner.items() if value is None} == {*outer} - {SOCKET}
    assert launch_variables(outer, "", "/i", 2)[SOCKET] is None
    assert given["HYDRA_LAUNCHER"] == "lsf" and given["HYDRA_LAUNCHER_EXEC"] == "/bin/glaunch"
    assert given["I_MPI_HYDRA_BOOTSTRAP"] == "lsf" and given["I_MPI_HYDRA_BOOTSTRAP_EXEC"] == "/bin/glaunch"


@pytest.mark.parametrize("kind", ["OMPI_MCA_orte", "PRTE_MCA_prte"])
def test_hosts_of_a_file_of_the_jobs_own_have_as_many_slots_as_that_says(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.agent.tasks.launch_environment.launcher", lambda: "/bin/glaunch")
    told = launch_variables({}, "/run/a.sock", "/h", 2)
    slots, hosts = f"{kind}_set_default_slots", f"{kind}_default_hostfile"
    assert (told[hosts], told[slots]) == ("/h", "1")
    own = launch_variables({hosts: "/home/ann/hosts"}, "/run/a.sock", "/h", 2)
    assert {*told} - {*own} == {hosts, slots}, "the other version of Open MPI is told its own"
    assert own[GIVEN] == " ".join(name for name in own if name not in (GIVEN, SOCKET))


def test_mpi_is_told_nothing_that_it_would_take_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below a path with a blank it starts processes on its own host, rather than none at all."""
    monkeypatch.setattr("gsched.agent.tasks.launch_environment.launcher", lambda: "/opt/my programs/glaunch")
    assert launch_variables({}, "/run/a.sock", "/h", 2) == {SOCKET: "/run/a.sock", GIVEN: None}


def test_the_environment_is_left_to_glaunch_only_where_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.agent.tasks.launch_environment.launcher", lambda: "/bin/glaunch")
    assert launch_variables({}, "/run/a.sock", "/h", 2)["HYDRA_ENV"] == "none"
    own = launch_variables({"HYDRA_LAUNCHER_EXEC": "/usr/bin/ssh"}, "/run/a.sock", "/h", 2)
    assert "HYDRA_ENV" not in own and "HYDRA_LAUNCHER_EXEC" not in own


def test_a_long_name_still_has_a_socket() -> None:
    assert socket_path("/run/gsched/agent", "gpu01") == Path("/run/gsched/agent/gpu01.sock")
    long = socket_path("/" + "r" * 85, "h" * 60)
    assert len(str(long)) <= 107 and long != socket_path("/" + "r" * 85, "i" * 60)
