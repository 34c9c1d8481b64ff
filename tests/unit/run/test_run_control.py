"""Signals, limits, suspension, and killing trees that try to get away."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest
from run_host import appears, marked_processes

from gsched.run import attempt_files, executor
from gsched.run.attempts import attempt_ending
from gsched.run.order import SaveOrder
from gsched.run.processes import process_tree

ESCAPE = """
import os, sys, time, signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        {ignore}
        with open("escaping", "w") as file:
            file.write(str(os.getpid()))
        os.rename("escaping", "escaped")  # whole when it is there; Python swallows a signal that comes in a close
        time.sleep(600)
    os._exit(0)
os.wait()
{then}
"""


def escape(then: str, ignore: str = "") -> str:
    """A script whose grandchild leaves session, group and parent."""
    return "#!/usr/bin/env python3\n" + ESCAPE.format(then=then, ignore=ignore)


def test_terminate_begins_with_an_interrupt(on_host):
    async def scenario(host):
        ready = host.root / "ready"
        await host.executor.start(host.order(script="trap 'exit 7' INT\ntouch ready\nwhile :; do sleep 0.01; done\n"))
        await appears(ready.exists)
        await host.executor.terminate(1, 1, 30)
        assert (await host.end_of(1)).exit_code == 7

    on_host(scenario)


def test_what_is_killed_with_its_job_hears_no_second_term(on_host, monkeypatch):
    """The supervisor sends SIGTERM to what a job has left behind; what the agent kills by then has had its own."""
    listen = "def hear(number, frame):\n            with open('heard', 'a') as file: file.write(f'{number} ')"
    ignore = f"{listen}\n        for number in (2, 15): signal.signal(number, hear)"
    killed = []

    def send_slowly(process, signum):
        problem = send(process, signum)
        if signum == signal.SIGKILL:
            killed.append(process.pid)
            time.sleep(0.5)
        return problem

    async def scenario(host):
        then = (
            "signal.signal(2, signal.SIG_IGN); signal.signal(15, signal.SIG_IGN)\nopen('ready', 'w')\ntime.sleep(600)"
        )
        await host.executor.start(host.order(script=escape(then, ignore)))
        await appears(lambda: (host.root / "escaped").exists() and (host.root / "ready").exists())
        await host.executor.terminate(1, 1, 0.5)
        assert (await host.end_of(1)).signal == signal.SIGKILL
        assert (host.root / "heard").read_text() == "2 15 "
        assert len(killed) == 2

    send = process_tree.send
    monkeypatch.setattr(process_tree, "send", send_slowly)
    on_host(scenario)


def test_a_hangup_is_not_waited_for_as_an_end_is(on_host):
    """The terminal is gone: who does not end by SIGHUP ends by SIGKILL, whatever the interval is."""

    async def scenario(host):
        for job, trap in ((1, "trap 'exit 7' HUP"), (2, "trap '' HUP INT TERM")):
            script = f"{trap}\ntouch ready{job}\nwhile :; do sleep 0.01; done\n"
            await host.executor.start(host.order(job_id=job, script=script))
            await appears((host.root / f"ready{job}").exists)
            await host.executor.terminate(job, 1, 3600, hangup=True)
        assert (await host.end_of(1)).exit_code == 7
        assert (await host.end_of(2)).signal == signal.SIGKILL

    on_host(scenario)


def test_the_delay_that_somebody_chose_counts(on_host):
    """Longer than usual, and no repeat of the order without one shortens it; a shorter one does."""

    async def scenario(host):
        script = "trap '' TERM\ntrap ': > asked' INT\ntouch ready\nwhile :; do sleep 0.01; done\n"
        await host.executor.start(host.order(script=script))
        await appears((host.root / "ready").exists)
        await host.executor.terminate(1, 1, 0.1, kill_delay_s=3600)
        await appears((host.root / "asked").exists)
        await host.executor.terminate(1, 1, 0.0)
        assert host.executor._running(1, 1).terminate_interval_s == 3600
        await host.executor.terminate(1, 1, 3600, kill_delay_s=0)
        assert (await host.end_of(1)).signal == signal.SIGKILL

    on_host(scenario)


def test_an_interrupt_finds_a_shell_that_is_just_starting_its_next_command(on_host, monkeypatch):
    """A shell puts an interrupt off until the command has ended that it started behind our back."""
    monkeypatch.setattr(
        attempt_ending, "_LOOKS_S", (0.02, 0.1, 0.5, 2.0, 5.0, 15.0)
    )  # on a busy machine one comes late

    async def scenario(host):
        count = 120
        for job in range(1, count + 1):
            await host.executor.start(host.order("/bin/true; " * (job % 5) + "sleep 60; true", job))
        for job in range(1, count + 1):
            await host.start_of(job)
            await host.executor.terminate(job, 1, 30)
        await host.until(lambda: len(host.ended) == count)
        assert {result.signal for result in host.ended.values()} == {signal.SIGINT}

    on_host(scenario)


def test_what_a_handler_starts_is_not_ended(on_host):
    """A trap that saves something has the time for it that lies between the signals."""

    async def scenario(host):
        script = "trap 'sleep 1; echo $? >saved; (sleep 0.2; true); echo $? >>saved; exit 7' TERM\ntouch ready\n"
        waits = "while :; do sleep 0.01; done\n"
        await host.executor.start(host.order(script=script + waits, ends_by_term=True))
        await appears((host.root / "ready").exists)
        await host.executor.terminate(1, 1, 30)
        assert (await host.end_of(1)).exit_code == 7
        assert (host.root / "saved").read_text() == "0\n0\n"

    on_host(scenario)


def test_terminate_goes_on_to_kill_the_whole_tree(on_host):
    async def scenario(host):
        ignore = "[signal.signal(s, signal.SIG_IGN) for s in (2, 15)]"
        script = escape(f"{ignore}; open('ready', 'w'); time.sleep(60)", ignore)
        await host.executor.start(host.order(script=script))
        await appears(lambda: (host.root / "escaped").exists() and (host.root / "ready").exists())
        await host.executor.terminate(1, 1, 0.1)
        result = await host.end_of(1)
        assert result.signal == 9
        assert marked_processes("1.1") == []

    on_host(scenario)


@pytest.mark.parametrize("how", ["terminate", "kill", "terminate after others"])
def test_a_start_that_hangs_can_be_ended(on_host, monkeypatch, how):
    """The input is a pipe that nobody writes to: its supervisor waits for a writer for ever."""
    monkeypatch.setattr(attempt_ending, "BEGIN_S", 0.2)
    monkeypatch.setattr(executor, "BEGIN_S", 0.2)

    async def scenario(host):
        pipe = host.root / "pipe"
        os.mkfifo(pipe)
        await host.executor.start(host.order("touch ran", input_file=str(pipe)))
        await appears((host.folder() / "claim").exists)
        if how == "terminate after others":
            await host.executor.suspend(1, 1)
            await host.executor.resume(1, 1)
            await host.executor.signal(1, 1, signal.SIGUSR1)
        if how == "kill":
            await host.executor.signal(1, 1, signal.SIGKILL)
        else:
            await host.executor.terminate(1, 1, 30)
        assert not (await host.end_of(1)).started
        assert not (host.root / "ran").exists()

    on_host(scenario)


def test_what_is_ordered_during_a_start_that_hangs_is_done_when_it_goes_on(on_host, monkeypatch):
    monkeypatch.setattr(executor, "BEGIN_S", 0.2)

    async def scenario(host):
        pipe = host.root / "pipe"
        os.mkfifo(pipe)
        await host.executor.start(host.order("sleep 60", input_file=str(pipe)))
        await appears((host.folder() / "claim").exists)
        await host.executor.suspend(1, 1)
        os.close(os.open(pipe, os.O_WRONLY))
        pid = (await host.start_of(1)).pid
        await appears(lambda: process_tree.read_process(pid).is_stopped)
        await host.executor.terminate(1, 1, 0)
        await host.end_of(1)

    on_host(scenario)


def test_an_impatient_repeat_shortens_the_wait(on_host):
    async def scenario(host):
        await host.executor.start(host.order(script="trap '' INT TERM\ntouch ready\nwhile :; do sleep 0.01; done\n"))
        await appears((host.root / "ready").exists)
        await host.executor.terminate(1, 1, 600)
        await host.executor.terminate(1, 1, 0)
        assert (await host.end_of(1)).signal == 9

    on_host(scenario)


def test_what_a_job_leaves_behind_is_ended_with_it(on_host):
    async def scenario(host):
        result = await host.run(script=escape("while not os.path.exists('escaped'): time.sleep(0.01)"))
        assert (result.exit_code, result.problem) == (0, "")
        escaped = int((host.root / "escaped").read_text())
        assert process_tree.read_process(escaped) is None
        assert result.run_s < 60

    on_host(scenario)


def test_the_run_limit_warns_then_ends(on_host):
    async def scenario(host):
        await host.executor.start(host.order("sleep 60", 1, run_limit_s=1, terminate_interval_s=30))
        deaf = "trap 'echo warned' USR2\ntrap 'echo int' INT\ntrap 'exit 5' TERM\n"
        waits = "(trap '' USR2 INT TERM; exec sleep 600) &\nwhile :; do wait; done\n"  # traps are run at once
        await host.executor.start(host.order(job_id=2, script=deaf + waits, run_limit_s=2, terminate_interval_s=0.5))
        plain, warned = await host.end_of(1), await host.end_of(2)
        assert (plain.signal, plain.term_reason) == (signal.SIGUSR2, "TERM_RUNLIMIT")
        assert (warned.exit_code, warned.term_reason) == (5, "TERM_RUNLIMIT")
        assert host.output(2).split() == ["warned", "int"]
        assert plain.run_s >= 1

    on_host(scenario)


def test_suspended_time_does_not_count_towards_the_run_limit(on_host):
    async def scenario(host):
        await host.executor.start(host.order("sleep 60", run_limit_s=2, terminate_interval_s=0.1))
        await host.start_of(1)
        await host.executor.suspend(1, 1)
        await asyncio.sleep(2.1)
        assert host.ended == {}
        await host.executor.resume(1, 1)
        await host.executor.suspend(1, 1)
        await host.executor.resume(1, 1)
        result = await host.end_of(1)
        assert result.term_reason == "TERM_RUNLIMIT"
        assert result.run_s >= 4

    on_host(scenario)


def test_suspend_reaches_the_tree_and_terminate_the_suspended(on_host):
    async def scenario(host):
        await host.executor.start(host.order(script=escape("time.sleep(60)")))
        await appears((host.root / "escaped").exists)
        await host.executor.suspend(1, 1)
        await appears(lambda: all(process.is_stopped for process in marked_processes("1.1")))
        assert len(marked_processes("1.1")) == 2
        await host.executor.resume(1, 1)
        await appears(lambda: not any(process.is_stopped for process in marked_processes("1.1")))
        await host.executor.suspend(1, 1)
        await host.executor.terminate(1, 1, 30)
        assert (await host.end_of(1)).signal in (2, 1, None)
        assert marked_processes("1.1") == []

    on_host(scenario)


def test_usage_counts_the_whole_tree(on_host):
    async def scenario(host):
        assert host.executor.usage(1, 1) is None
        hold = "x = bytearray(b'x') * (60 << 20)"
        await host.executor.start(host.order(script=escape(f"{hold}; open('big', 'w').close(); time.sleep(60)")))
        await appears((host.root / "big").exists)
        usage = host.executor.usage(1, 1)
        assert usage is not None
        assert usage.pgid == host.started[1, 1].pid
        assert set(usage.pids) == {process.pid for process in marked_processes("1.1")}
        assert usage.threads == len(usage.pids) == 2
        assert 60 <= usage.mem_mib < 200
        await host.executor.signal(1, 1, 9)
        result = await host.end_of(1)
        assert 60 <= result.usage.max_mem_mib < 200
        assert result.usage.avg_mem_mib == usage.mem_mib
        assert host.executor.usage(1, 1) is None

    on_host(scenario)


def test_hangups_and_interrupts_do_not_touch_the_supervisor(on_host):
    async def scenario(host):
        await host.executor.start(host.order("sleep 60"))
        await host.start_of(1)
        supervisor = process_tree.read_process(host.supervisor_pid())
        assert supervisor is not None and supervisor.pgid == supervisor.pid
        for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGPIPE):
            assert process_tree.send(supervisor, signum) == ""
        await host.executor.signal(1, 1, 9, everything=False)
        assert (await host.end_of(1)).signal == 9

    on_host(scenario)


SAVING = "trap 'echo asked >> heard' URG\ntouch ready\nwhile [ ! -e go ]; do sleep 0.02; done\n"


def test_a_spared_job_goes_on_after_its_time_to_save_and_may_be_asked_again(on_host):
    async def scenario(host):
        heard, told = host.root / "heard", host.folder() / attempt_files.DEADLINE
        await host.executor.start(host.order(script=f"#!/bin/sh\n{SAVING}", job_files={attempt_files.DEADLINE: ""}))
        await appears((host.root / "ready").exists)
        await host.executor.terminate(1, 1, 0.1, save=SaveOrder(signal.SIGURG, 2, ""))
        await appears(heard.exists)
        assert told.read_text() and host.executor.spare(1, 1)
        await appears(lambda: not told.read_text())
        assert not host.ended
        await host.executor.terminate(1, 1, 0.1, save=SaveOrder(signal.SIGURG, 3600, ""))
        await appears(lambda: len(heard.read_text().split()) == 2)
        (host.root / "go").touch()
        assert (await host.end_of(1)).exit_code == 0

    on_host(scenario)


def test_a_spared_job_is_ended_after_all_when_its_place_is_needed_again(on_host):
    async def scenario(host):
        heard, told = host.root / "heard", host.folder() / attempt_files.DEADLINE
        await host.executor.start(host.order(script=f"#!/bin/sh\n{SAVING}", job_files={attempt_files.DEADLINE: ""}))
        await appears((host.root / "ready").exists)
        save = SaveOrder(signal.SIGURG, 2, "")
        await host.executor.terminate(1, 1, 0.1, save=save)
        await appears(heard.exists)
        until = told.read_text()
        assert host.executor.spare(1, 1)
        await host.executor.terminate(1, 1, 0.1, save=save)
        assert told.read_text() == until
        assert (await host.end_of(1)).exit_code != 0
        assert heard.read_text().split() == ["asked"]
        assert not host.executor.spare(1, 1)

    on_host(scenario)
