"""Tasks: children of an attempt's supervisor beside its main process, started once, ended with the job."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable

import pytest
from run_host import Host, appears, marked_processes

from gsched.agent.tasks.host_tasks import PIECE, HostTasks
from gsched.run.attempts.attempt import Attempt
from gsched.run.order import JobStep
from gsched.run.processes import attempt_processes, process_tree
from gsched.wire.v1 import agent_pb2

JOB = (1, 1)


def on_a_host(scenario: Callable[[Host], Awaitable[None]]) -> Callable[..., None]:
    def test(on_host: Callable[[Callable[[Host], Awaitable[None]]], None]) -> None:
        on_host(scenario)

    return test


class Asking:
    """Somebody who asks for tasks of job 1 on the host "here"."""

    def __init__(self, host: Host, from_host: str = "here") -> None:
        self.host = host
        self.from_host = from_host
        self.tasks = HostTasks("here", host.executor, lambda key: host.folder(*key), lambda: 0.3)

    async def ask(self, name: str, **kind: object) -> agent_pb2.TaskReply:
        ask = agent_pb2.TaskAsk(job_id=1, attempt=1, task=name, host="here", from_host=self.from_host, **kind)  # type: ignore[arg-type]
        return await self.tasks.answer(ask)

    async def start(self, name: str, *argv: str, reads: bool = False, **environment: str) -> str:
        """Why it was not started, or nothing."""
        start = agent_pb2.StartTask(
            argv=[word.encode() for word in argv],
            environment=[
                f"{key}={value}".encode() for key, value in {"PATH": os.environ["PATH"], **environment}.items()
            ],
            cwd=str(self.host.root).encode(),
            umask=0o27,
            reads=reads,
        )
        return str((await self.ask(name, start=start)).error)

    async def read(self, name: str, out: int = 0, err: int = 0, most: int = PIECE) -> agent_pb2.TaskReply:
        return await self.ask(name, read=agent_pb2.ReadTask(stdout_from=out, stderr_from=err, most=most, wait_s=60))

    async def all_of(self, name: str, had: int = 0) -> tuple[bytes, bytes, int]:
        """What it prints to its end, and its wait status; so many bytes of it were had before."""
        out, err = b"up\n"[:had], b""
        async with asyncio.timeout(60):
            while True:
                reply = await self.read(name, len(out), len(err))
                assert not reply.error or reply.later, reply.error
                out, err = out + reply.stdout, err + reply.stderr
                if reply.over:
                    return out, err, reply.status

    async def sh(self, name: str, line: str, **environment: str) -> tuple[bytes, bytes, int]:
        assert await self.start(name, "/bin/sh", "-c", line, **environment) == ""
        return await self.all_of(name)


async def begin(host: Host, command: str = "exec sleep 60", **fields: object) -> Asking:
    await host.executor.start(host.order(command, **fields))
    await host.start_of(1)
    return Asking(host)


@on_a_host
async def test_output_errors_and_exit_code_come_back(host: Host) -> None:
    asking = await begin(host)
    out, err, status = await asking.sh("a-0", "echo out; echo err >&2; pwd; umask; exit 7")
    assert out.decode().splitlines() == ["out", str(host.root), "0027"]
    assert err == b"err\n"
    assert os.WEXITSTATUS(status) == 7


@on_a_host
async def test_a_task_is_a_child_of_the_supervisor_and_ends_with_the_job(host: Host) -> None:
    asking = await begin(host)
    assert await asking.start("a-0", "/bin/sh", "-c", "echo $PPID; exec sleep 60") == ""
    reply = await asking.read("a-0")
    assert int(reply.stdout) == host.supervisor_pid()
    started = json.loads((host.folder() / "tasks/a-0/started").read_text())
    assert host.executor.tasking.proven(started["pid"], os.getuid()) == JOB
    assert host.executor.tasking.proven(started["pid"], 12345) is None
    assert host.executor.tasking.proven(os.getpid(), os.getuid()) is None
    await host.executor.terminate(*JOB, 5.0)
    await host.end_of(1)
    assert marked_processes("1.1") == []
    assert (await asking.start("a-1", "/bin/true")) == "the job does not run on here"


@on_a_host
async def test_what_is_asked_twice_is_done_once(host: Host) -> None:
    asking = await begin(host)
    line = "echo run >> ran; echo done"
    for _ in range(3):
        assert await asking.start("a-0", "/bin/sh", "-c", line) == ""
    assert (await asking.all_of("a-0"))[0] == b"done\n"
    assert (await asking.all_of("a-0"))[0] == b"", "what has been taken is not kept"
    await asking.ask("a-0", release=agent_pb2.ReleaseTask())
    assert not (host.folder() / "tasks/a-0").exists()
    await asking.sh("a-1", "true")  # its supervisor has looked
    await asyncio.wait_for(asking.tasks.answer(_late(asking, line)), 60)
    assert (host.root / "ran").read_text() == "run\n"


def _late(asking: Asking, line: str) -> agent_pb2.TaskAsk:
    """The order of a task that was released, come late."""
    folder = asking.host.folder() / "tasks" / "a-0"
    folder.mkdir()
    (folder / "order").write_text(json.dumps({"argv": ["/bin/sh", "-c", line], "environment": {}, "cwd": "/"}))
    ask = agent_pb2.TaskAsk(job_id=1, attempt=1, task="a-2", host="here", from_host="here")
    ask.start.argv.append(b"/bin/true")
    ask.start.cwd = b"/"
    return ask


@on_a_host
async def test_large_outputs_are_exact_and_kept_nowhere(host: Host) -> None:
    asking = await begin(host)
    size = 8 << 20
    assert await asking.start("a-0", "/bin/sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x; echo end >&2") == ""
    supervisor = host.supervisor_pid()
    out, err, status = await asking.all_of("a-0")
    assert out == b"x" * size and err == b"end\n" and status == 0
    process = process_tree.read_process(supervisor)
    assert process is not None and process.rss_pages * process_tree.PAGE_BYTES < 40 << 20
    assert sum(path.stat().st_size for path in host.folder().rglob("*") if path.is_file()) < 64 * 1024


@on_a_host
async def test_standard_input_piece_by_piece(host: Host) -> None:
    asking = await begin(host)
    assert await asking.start("a-0", "/bin/sh", "-c", "sleep 0.2; exec wc -c", reads=True) == ""
    data, taken = b"y" * 300_000, 0
    while taken < len(data):
        typed = agent_pb2.TypeTask(first=taken, data=data[taken : taken + 65536])
        await asking.ask("a-0", type=typed)
        taken = (await asking.ask("a-0", type=typed)).taken  # a repetition is no more input
    await asking.ask("a-0", type=agent_pb2.TypeTask(first=taken, end=True))
    assert (await asking.all_of("a-0"))[0].split() == [b"300000"]


@on_a_host
async def test_input_of_a_task_that_has_ended_is_dropped_and_of_one_that_does_not_answer_kept(host: Host) -> None:
    asking = await begin(host)
    typed = agent_pb2.TypeTask(first=3, data=b"text")
    assert await asking.start("a-0", "/bin/true", reads=True) == ""
    await asking.all_of("a-0")
    (host.folder() / "tasks/a-0/terminal").unlink(missing_ok=True)
    reply = await asking.ask("a-0", type=typed)
    assert (reply.taken, reply.later) == (7, False)
    assert await asking.start("a-1", "/bin/sleep", "60", reads=True) == ""
    (host.folder() / "tasks/a-1/terminal").unlink()
    reply = await asking.ask("a-1", type=typed)
    assert (reply.taken, reply.later) == (0, True)


@on_a_host
async def test_a_task_that_reads_has_no_input_where_none_is_passed_on(host: Host) -> None:
    asking = await begin(host)
    assert (await asking.sh("a-0", "cat; echo end"))[0] == b"end\n"


@on_a_host
async def test_signals_reach_its_whole_session(host: Host) -> None:
    asking = await begin(host)
    assert (
        await asking.start("a-0", "/bin/sh", "-c", "trap 'echo got; exit 4' USR1; /bin/sh -c 'echo up; exec sleep 60'")
        == ""
    )
    assert (await asking.read("a-0")).stdout == b"up\n"
    await asking.ask("a-0", signal=agent_pb2.SignalTask(signal=signal.SIGUSR1))
    out, _, status = await asking.all_of("a-0", 3)
    assert out == b"up\ngot\n" and os.WEXITSTATUS(status) == 4, "the shell waits for its child, so that had it too"


@on_a_host
async def test_one_that_nobody_wants_is_killed_at_last_and_nothing_kept_of_it(host: Host) -> None:
    asking = await begin(host)
    assert (
        await asking.start("a-0", "/bin/sh", "-c", "trap 'touch told' TERM; echo up; while :; do sleep 0.1; done") == ""
    )
    assert (await asking.read("a-0")).stdout == b"up\n"
    pid = json.loads((host.folder() / "tasks/a-0/started").read_text())["pid"]
    await asking.ask("a-0", signal=agent_pb2.SignalTask(signal=signal.SIGTERM, ends=True))
    await appears(lambda: process_tree.read_process(pid) is None)
    assert (host.root / "told").exists(), "it does not end by SIGTERM"
    await appears(lambda: not (host.folder() / "tasks/a-0").exists())
    assert (1, 1) not in host.ended


@on_a_host
async def test_what_cannot_be_executed_says_so(host: Host) -> None:
    asking = await begin(host)
    assert await asking.start("a-0", "/no/such/program") == ""
    _, err, status = await asking.all_of("a-0")
    assert b"/no/such/program" in err and os.WEXITSTATUS(status) == 127
    start = agent_pb2.StartTask(argv=[b"/bin/true"], cwd=b"/no/such/folder")
    assert (await asking.ask("a-1", start=start)).error == ""
    _, err, status = await asking.all_of("a-1")
    assert b"working directory /no/such/folder" in err and os.WEXITSTATUS(status) == 126


@pytest.mark.parametrize("name", ["../1.1", "a/b", "", "a" * 65, ".a"])
def test_names_that_are_paths_are_refused(name: str, on_host: Callable[..., None]) -> None:
    async def scenario(host: Host) -> None:
        asking = await begin(host)
        assert "no name of a task" in await asking.start(name, "/bin/true")

    on_host(scenario)


@on_a_host
async def test_an_end_that_cannot_be_written_is_written_later(host: Host) -> None:
    asking = await begin(host)
    assert await asking.start("a-0", "/bin/sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.02; done; exit 3") == ""
    obstacle = host.folder() / "tasks/a-0/status"
    obstacle.mkdir()
    (host.root / "go").touch()
    ending = asyncio.create_task(asking.all_of("a-0"))
    await appears(lambda: _is_dead(host))
    obstacle.rmdir()
    assert os.WEXITSTATUS((await ending)[2]) == 3


def _is_dead(host: Host) -> bool:
    """Whether the process of task a-0 has been reaped."""
    started = json.loads((host.folder() / "tasks/a-0/started").read_text())
    return process_tree.read_process(started["pid"]) is None


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        ("gsched.run.task_files.MOST_RUNNING", "2 tasks of the job run on here already"),
        ("gsched.agent.tasks.host_tasks.MOST_TASKS", "2 tasks of the job are not over on here"),
    ],
)
def test_a_job_has_so_many_tasks_on_a_host_and_no_more(
    limit: str, told: str, on_host: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limit, 2)

    async def scenario(host: Host) -> None:
        asking = await begin(host)
        for name in ("a-0", "a-1"):
            assert await asking.start(name, "/bin/sh", "-c", "echo up; read line || sleep 60", reads=True) == ""
        assert await asking.start("a-2", "/bin/true") == told
        assert await asking.start("a-1", "/bin/true") == "", "one that is there already is no further one"
        await asking.ask("a-0", signal=agent_pb2.SignalTask(signal=signal.SIGKILL))
        await asking.all_of("a-0")
        await asking.ask("a-0", release=agent_pb2.ReleaseTask())
        assert await asking.start("a-2", "/bin/true") == ""

    on_host(scenario)


def test_a_signal_reaches_a_task_that_has_not_begun_its_session(
    on_host: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(host: Host) -> None:
        asking = await begin(host)
        assert await asking.start("a-0", "/bin/sh", "-c", "echo up; read line || sleep 60", reads=True) == ""
        known = attempt_processes.now

        def before_setsid(held: Attempt) -> list[process_tree.Process]:
            """As they are seen a moment after the fork."""
            found = known(held)
            for each in found:
                each.session = 1
            return found

        monkeypatch.setattr(attempt_processes, "now", before_setsid)
        await asking.ask("a-0", signal=agent_pb2.SignalTask(signal=signal.SIGKILL))
        assert os.WTERMSIG((await asking.all_of("a-0"))[2]) == signal.SIGKILL

    on_host(scenario)


@on_a_host
async def test_words_of_a_task_have_an_end(host: Host) -> None:
    asking = await begin(host)
    told = await asking.start("a-0", "/bin/true", "x" * (2 << 20))
    assert told == "arguments and environment of a task may have 2 MiB"


@on_a_host
async def test_of_a_job_that_does_not_run_there_are_none(host: Host) -> None:
    asking = Asking(host)
    assert await asking.start("a-0", "/bin/true") == "the job does not run on here"
    assert not (await asking.ask("a-0", start=agent_pb2.StartTask())).later
    await host.run("true")
    assert await asking.start("a-0", "/bin/true") == "the job does not run on here"


@on_a_host
async def test_of_a_job_that_is_over_there_are_none_in_the_steps_behind_it(host: Host) -> None:
    step = JobStep(command="touch past; while [ ! -e go ]; do sleep 0.05; done", what="the step")
    asking = await begin(host, "true", last=(step,))
    await appears((host.root / "past").exists)
    assert await asking.start("a-0", "/bin/true") == "the job does not run on here"
    (host.root / "go").touch()
    await host.end_of(1)


@on_a_host
async def test_of_a_suspended_job_they_start_when_it_goes_on(host: Host) -> None:
    asking = await begin(host)
    await host.executor.suspend(*JOB)
    starting = asyncio.create_task(asking.sh("a-0", "echo ran"))
    await appears(lambda: (host.folder() / "tasks/a-0/order").exists())
    supervisor = process_tree.read_process(host.supervisor_pid())
    assert supervisor is not None
    await asyncio.sleep(0.1)
    assert not (host.folder() / "tasks/a-0/started").exists()
    await host.executor.resume(*JOB)
    assert (await starting)[0] == b"ran\n"


@on_a_host
async def test_an_agent_that_comes_back_finds_them_as_they_are(host: Host) -> None:
    asking = await begin(host)
    assert (
        await asking.start(
            "a-0", "/bin/sh", "-c", "echo first; until [ -e go ]; do sleep 0.05; done; echo second; exit 3"
        )
        == ""
    )
    assert (await asking.read("a-0")).stdout == b"first\n"
    host.executor.close()
    again = Host(host.root)
    await again.executor.adopt()
    try:
        asking = Asking(again)
        assert await asking.start("a-0", "/bin/sh", "-c", "echo never") == ""
        (host.root / "go").touch()
        reply = await asking.read("a-0", 6)
        out, _, status = await asking.all_of("a-0") if not reply.stdout else (reply.stdout, b"", 0)
        assert out == b"second\n"
        status = (await asking.all_of("a-0"))[2]
        assert os.WEXITSTATUS(status) == 3
    finally:
        again.executor.close()


@on_a_host
async def test_cpu_time_of_tasks_is_the_job_s(host: Host) -> None:
    asking = await begin(host, "while [ ! -e go ]; do sleep 0.05; done")
    await asking.sh("a-0", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
    (host.root / "go").touch()
    result = await host.end_of(1)
    assert result.usage.cpu_s > 0.2


@on_a_host
async def test_the_environment_is_the_asker_s_with_this_host_s_gpus(host: Host) -> None:
    here = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "3", "LSB_DJOB_HOSTFILE": "/here"}
    asking = await begin(host, environment=here)
    asking.from_host = "there"
    out, _, _ = await asking.sh(
        "a-0",
        "echo $CUDA_VISIBLE_DEVICES $LSB_DJOB_HOSTFILE $OWN $GSCHED_GPU_UUIDS",
        CUDA_VISIBLE_DEVICES="0,1",
        OWN="o",
        GSCHED_GPU_UUIDS="GPU-0",
    )
    assert out.split() == [b"3", b"/here", b"o"]
    asking.from_host = "here"
    out, _, _ = await asking.sh("a-1", "echo $CUDA_VISIBLE_DEVICES", CUDA_VISIBLE_DEVICES="0")
    assert out.split() == [b"0"], "on its own host a process chooses among its GPUs itself"
