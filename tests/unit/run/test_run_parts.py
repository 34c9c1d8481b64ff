"""Parts of jobs on their other hosts: a supervisor without a process, until it is told to end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import pytest
from run_host import Host, appears

from gsched.base.coded_text import coded, sentence
from gsched.base.machine import gpu_lock
from gsched.run.attempts import attempt_ending
from gsched.run.order import AttemptLimits, JobStep, Order, written_order
from gsched.run.processes import attempt_processes, process_tree
from gsched.run.supervisor import host_parts
from gsched.run.supervisor.opening import SupervisorSettings
from gsched.run.supervisor.supervisor import Supervisor
from gsched.run.supervisor.supervisor_signals import detach


async def opened(host: Host, **fields: object) -> None:
    await host.executor.start(host.order(is_part=True, cwd="/nowhere at all", **fields))
    await host.start_of(1)


def test_a_part_is_there_until_it_is_told_to_end(on_host):
    async def scenario(host):
        await opened(host, gpu_lock_uuids=("GPU-p",))
        supervisor = host.supervisor_pid()
        assert host.started[1, 1].pid == supervisor
        assert not process_tree.descendants(supervisor, process_tree.scan())
        with pytest.raises(gpu_lock.GpuLockError):
            gpu_lock.lock_gpus(["GPU-p"], "others", gpu_lock.GpuLockFolders(str(host.locks), "", False))
        await host.executor.suspend(1, 1)
        await host.executor.resume(1, 1)
        await host.executor.signal(1, 1, signal.SIGUSR1)
        await host.executor.signal(1, 1, signal.SIGKILL)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            os.kill(supervisor, number)  # as from a machine that goes down
        await host.executor.limit(1, 1, AttemptLimits(run_limit_s=0, limits={}))
        usage = host.executor.usage(1, 1)
        assert (usage.mem_mib, usage.pids, usage.pgid) == (0.0, (), None)
        assert not host.ended
        began = time.monotonic()
        await host.executor.terminate(1, 1, 300.0)
        result = await host.end_of(1)
        assert time.monotonic() - began < 60  # nothing runs there: no signal is waited for
        assert result.succeeded and result.started and result.usage.pgid is None
        gpu_lock.release(gpu_lock.lock_gpus(["GPU-p"], "others", gpu_lock.GpuLockFolders(str(host.locks), "", False)))

    on_host(scenario)


def test_a_part_is_closed_whatever_its_agent_has_forgotten(on_host):
    async def scenario(host):
        await opened(host)
        host.executor.close()
        later = Host(host.root)
        assert await later.executor.adopt() == [(1, 1)]
        await later.start_of(1)
        await later.executor.close_part(1, 1)
        assert (await later.end_of(1)).succeeded
        later.executor.close()

    on_host(scenario)


def test_a_part_whose_supervisor_is_killed_is_over_and_says_so(on_host):
    async def scenario(host):
        await opened(host)
        os.kill(host.supervisor_pid(), signal.SIGKILL)
        result = await host.end_of(1)
        assert not result.succeeded and result.started
        assert "part of the job was killed" in sentence(result.problem)

    on_host(scenario)


class WithTask(Supervisor):
    """One that has forked a process, as it does for a task."""

    command = "sleep 60"

    def _open_part(self) -> None:
        super()._open_part()
        pid = os.fork()
        if pid == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
                signal.signal(number, signal.SIG_DFL)
            os.execv("/bin/sh", ["/bin/sh", "-c", f"exec {self.command}"])
        self.children.follow(pid)


def forked(folder: Path, **order: object) -> int:
    """A supervisor of attempt 1.1 with a task."""
    attempt = folder / "1.1"
    attempt.mkdir()
    values = {"terminate_interval_s": 0.1, "home": "/h", "cwd": "/c", "is_part": True, **order}
    written = written_order(Order(job_id=1, attempt=1, command="", **values))  # type: ignore[arg-type]
    (attempt / "order").write_bytes(written)
    settings = SupervisorSettings(str(folder), "c", str(folder), 1, lambda: None, lambda nodes: None)
    pid = os.fork()
    if pid == 0:
        try:
            detach(settings.become_subreaper)
            WithTask(settings, "1.1").run()
        finally:
            os._exit(0)
    return pid


async def task_of(pid: int) -> process_tree.Process:
    await appears(lambda: [each for each in process_tree.descendants(pid, process_tree.scan()) if each.name == "sleep"])
    return process_tree.descendants(pid, process_tree.scan())[0]


def status(folder: Path) -> dict[str, object]:
    return json.loads((folder / "1.1" / "status").read_text())


def test_a_part_ends_when_its_last_task_has(tmp_path):
    async def scenario():
        pid = forked(tmp_path)
        task = await task_of(pid)
        os.kill(pid, host_parts.END)
        await asyncio.sleep(0.1)
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
        os.kill(task.pid, signal.SIGINT)
        await asyncio.to_thread(os.waitpid, pid, 0)
        assert status(tmp_path)["exit_code"] == 0

    asyncio.run(scenario())


def test_a_part_that_is_closed_ends_its_tasks(tmp_path):
    async def scenario():
        pid = forked(tmp_path)
        task = await task_of(pid)
        os.kill(pid, host_parts.CLOSE)
        await asyncio.to_thread(os.waitpid, pid, 0)
        assert not process_tree.is_alive(task.pid, task.start)
        assert status(tmp_path)["exit_code"] == 0

    asyncio.run(scenario())


def test_a_part_whose_tasks_exceed_a_limit_says_which(tmp_path):
    async def scenario():
        pid = forked(tmp_path, limits={"PROCESSLIMIT": 0})
        await asyncio.to_thread(os.waitpid, pid, 0)
        assert status(tmp_path)["term_reason"] == "TERM_PROCESSLIMIT"

    asyncio.run(scenario())


def test_only_the_supervisor_itself_is_told(on_host):
    async def scenario(host):
        await opened(host)
        held = host.executor._held["1.1"]
        right = held.supervisor
        held.supervisor = (right[0], right[1] + 1)  # another process with its number
        attempt_processes.tell(held, host_parts.CLOSE)
        await asyncio.sleep(0.1)
        assert not host.ended
        held.supervisor = right
        attempt_processes.tell(held, host_parts.CLOSE)
        assert (await host.end_of(1)).succeeded

    on_host(scenario)


def site_step(command: str) -> JobStep:
    return JobStep(command=command, what=coded("step.host_pre_exec", "queue"), is_site=True)


def test_what_runs_on_each_host_comes_before_a_part_is_open_and_after_it(on_host):
    async def scenario(host):
        log = host.root / "log"
        environment = host.order().environment | {"LOG": str(log)}
        first = (site_step('echo before >> "$LOG"'),)
        last = (site_step('echo "after ${LSB_JOBEXIT_STAT-unknown}" >> "$LOG"'),)
        await opened(host, first=first, last=last, environment=environment)
        assert log.read_text() == "before\n"
        await host.executor.close_part(1, 1)
        result = await host.end_of(1)
        assert (result.succeeded, result.post_code, log.read_text()) == (True, 0, "before\nafter unknown\n")

    on_host(scenario)


@pytest.mark.parametrize(
    ("command", "limit_s", "told"),
    [
        ("exit 4", 0, "the queue's pre-exec command for each host exited with non-zero status (4)"),
        ("exit 99", 0, "the queue's pre-exec command for each host exited with non-zero status (99)"),
        (
            "trap '' TERM; while :; do sleep 0.05; done",
            1,
            "the queue's pre-exec command for each host was killed: what runs before a job may take 1 s "
            "(JOB_PREPROC_TIMEOUT)",
        ),
    ],
)
def test_a_part_is_not_opened_where_that_fails(on_host, command, limit_s, told):
    async def scenario(host):
        never = (site_step(f"touch {host.root}/never"),)
        order = host.order(
            is_part=True, first=(site_step(command), *never), last=never, first_timeout_s=limit_s, cwd="/nowhere"
        )
        await host.executor.start(order)
        result = await host.end_of(1)
        assert not result.started and sentence(result.problem) == told
        assert (result.exit_code, result.pre_failed) == ((99, False) if command == "exit 99" else (None, True))
        assert not (host.root / "never").exists()

    on_host(scenario)


def test_what_a_part_has_made_is_taken_back_where_it_is_not_opened(on_host):
    """Its first step is the user's own, and needs no working directory on that host."""

    async def scenario(host):
        made = host.root / "made"
        first = (JobStep(command=f"mkdir {made}", what="it"), site_step("exit 4"))
        last = (JobStep(command=f"rmdir {made}", what="it", undoes_first=True),)
        order = host.order(is_part=True, first=first, last=last, cwd="/nowhere")
        await host.executor.start(order)
        result = await host.end_of(1)
        assert sentence(result.problem) == "the queue's pre-exec command for each host exited with non-zero status (4)"
        assert not made.exists()
        made.mkdir()
        await host.executor.start(host.order(job_id=2, is_part=True, first=first, last=last, cwd="/nowhere"))
        assert sentence((await host.end_of(2)).problem) == "it exited with non-zero status (1)"
        assert made.exists(), "it is somebody else's"

    on_host(scenario)


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_a_part_that_is_ended_before_it_is_open_leaves_nothing(on_host, monkeypatch, how):
    monkeypatch.setattr(attempt_ending, "BEGIN_S", 0.2)

    async def scenario(host):
        here = host.root / "pid"
        command = f"trap '' TERM INT; echo $$ > {here}.part; mv {here}.part {here}; while :; do sleep 0.05; done"
        await host.executor.start(host.order(is_part=True, first=(site_step(command),), cwd="/nowhere"))
        await appears(here.exists)
        if how == "terminate":
            await host.executor.terminate(1, 1, 0.1)
        else:
            os.kill(host.supervisor_pid(), signal.SIGKILL)
        result = await host.end_of(1)
        assert not result.started
        found = process_tree.read_process(int(here.read_text()))
        assert found is None or found.is_dead

    on_host(scenario)
