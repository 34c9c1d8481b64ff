"""Which attempt a process belongs to, however it has tried to get away."""

from __future__ import annotations

import os
import signal

from run_host import CLUSTER, appears

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
        os.kill(host.supervisor_pid(), signal.SIGKILL)
        assert host.executor.owners([started.pid]) == {started.pid: "1.1"}
        await host.executor.signal(1, 1, signal.SIGKILL)
        await host.end_of(1)

    on_host(scenario)
