"""Which attempt a process belongs to, however it has tried to get away."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from run_host import CLUSTER, Host, appears

from gsched.run.order import JobStep
from gsched.run.processes import process_tree

ESCAPE = (
    "#!/usr/bin/env python3\n"
    "import os, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        line = 'echo $$ > pid.new; mv pid.new pid; exec sleep 60'\n"
    "        os.execve('/bin/sh', ['sh', '-c', line], {'PATH': '/bin:/usr/bin'})\n"
    "    os._exit(0)\n"
    "time.sleep(60)\n"
)


THREAD_LEFT = (
    "#!/usr/bin/env python3\n"
    "import ctypes, threading, time\n"
    "threading.Thread(target=time.sleep, args=(60,)).start()\n"
    "ctypes.CDLL(None).pthread_exit(None)\n"
)


async def without_supervisor(host: Host) -> None:
    """Kill the supervisor of job 1, and see it gone: a signal takes its time on a busy machine."""
    pid = host.supervisor_pid()
    supervisor = process_tree.read_process(pid)
    assert supervisor is not None
    os.kill(pid, signal.SIGKILL)
    await appears(lambda: not process_tree.is_alive(pid, supervisor.start))


def test_a_process_without_session_and_environment_is_its_attempts(on_host):
    async def scenario(host):
        await host.executor.start(host.order(script=ESCAPE))
        await host.executor.start(host.order("sleep 60", 2))
        started = [await host.start_of(job) for job in (1, 2)]
        await appears((host.root / "pid").exists)
        escaped = int((host.root / "pid").read_text())
        pids = [escaped, *(each.pid for each in started), os.getpid(), 1, 999999999]
        assert host.executor.owners(pids) == {escaped: "1.1", started[0].pid: "1.1", started[1].pid: "2.1"}
        for job in (1, 2):
            await host.executor.signal(job, 1, signal.SIGKILL)
            await host.end_of(job)
        assert host.executor.owners(pids) == {}

    on_host(scenario)


def test_by_mark_where_the_supervisor_is_gone(on_host):
    async def scenario(host):
        mark = {"GSCHED_ATTEMPT_ID": f"{CLUSTER}/1.1"}
        await host.executor.start(host.order("sleep 60", environment={"PATH": os.environ["PATH"], **mark}))
        started = await host.start_of(1)
        await without_supervisor(host)
        assert host.executor.owners([started.pid]) == {started.pid: "1.1"}
        await host.executor.signal(1, 1, signal.SIGKILL)
        await host.end_of(1)

    on_host(scenario)


def test_before_it_has_become_its_program_a_job_has_no_mark(on_host):
    """The supervisor is killed while the steps before the job run, in a process that has yet to become the job."""

    async def scenario(host):
        wait = JobStep(command=f"echo >{host.root}/waits; exec sleep 60", what="it")
        await host.executor.start(host.order("sleep 60", first=(wait,)))
        started = await host.start_of(1)
        await appears((host.root / "waits").exists)
        assert process_tree.mark_of(started.pid) == ""
        await without_supervisor(host)
        assert host.executor.owners([started.pid]) == {started.pid: "1.1"}
        await host.executor.signal(1, 1, signal.SIGKILL)
        await host.end_of(1)
        main = process_tree.read_process(started.pid)
        assert main is None or main.is_dead

    on_host(scenario)


def test_the_session_of_an_unsupervised_job_ends_with_it(on_host):
    """pains 1: without supervisor, mark and group. What has a session of its own besides is out of reach."""

    async def scenario(host):
        forgets = (
            f"env -i /bin/sh -c 'echo $$ >{host.root}/pid.new; mv {host.root}/pid.new {host.root}/pid; exec sleep 60'"
        )
        await host.executor.start(host.order(f"({forgets} &); exec sleep 60"))
        started = await host.start_of(1)
        await appears((host.root / "pid").exists)
        left = process_tree.read_process(int((host.root / "pid").read_text()))
        assert left is not None
        await without_supervisor(host)
        assert host.executor.owners([left.pid]) == {left.pid: "1.1"}
        os.kill(started.pid, signal.SIGKILL)
        await host.end_of(1)
        assert not process_tree.is_alive(left.pid, left.start)

    on_host(scenario)


def test_a_process_whose_first_thread_has_ended_is_alive(on_host):
    async def scenario(host):
        await host.executor.start(host.order(script=THREAD_LEFT))
        started = await host.start_of(1)
        await appears(lambda: "State:\tZ" in (Path(f"/proc/{started.pid}/status")).read_text())
        seen = process_tree.read_process(started.pid)
        assert seen is not None and not seen.is_dead
        await host.executor.signal(1, 1, signal.SIGKILL)
        assert (await host.end_of(1)).signal == signal.SIGKILL

    on_host(scenario)
