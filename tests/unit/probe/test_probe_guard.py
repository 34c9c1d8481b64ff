"""Tests of the guard that ends process groups when their keeper is gone."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from gsched.probe.elims.process_guard import ProcessGroupGuard

SLEEPER = ["/bin/sh", "-c", "sleep 600 & wait"]


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(SLEEPER, start_new_session=True)


def test_groups_end_when_the_keeper_is_killed() -> None:
    code = (
        "import subprocess, sys\n"
        "from gsched.probe.elims.process_guard import Guard\n"
        "guard = Guard()\n"
        "quiet = subprocess.Popen(['/bin/sh', '-c', 'sleep 600 & wait'], start_new_session=True)\n"
        "stubborn = subprocess.Popen(['/bin/sh', '-c', 'trap : TERM; echo; while :; do sleep 600; done'],"
        " start_new_session=True, stdout=subprocess.PIPE)\n"
        "stubborn.stdout.readline()\n"
        "guard.add(quiet.pid); guard.add(stubborn.pid)\n"
        "print(quiet.pid, stubborn.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as keeper:
        assert keeper.stdout is not None
        watched = [os.pidfd_open(int(pid)) for pid in keeper.stdout.readline().split()]
        keeper.kill()
    for pidfd in watched:
        assert _ended(pidfd, 60.0)
        os.close(pidfd)


def test_removed_group_is_left_alone() -> None:
    guard = ProcessGroupGuard()
    kept, dropped = sleeper(), sleeper()
    try:
        guard.add(kept.pid)
        guard.add(dropped.pid)
        guard.remove(kept.pid)
        guard.close()
        assert dropped.wait(60) == -signal.SIGTERM
        assert kept.poll() is None
    finally:
        for process in (kept, dropped):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def test_guard_that_is_killed_is_replaced_and_told_everything() -> None:
    guard = ProcessGroupGuard()
    first, second = sleeper(), sleeper()
    guard.add(first.pid)
    assert guard.pid is not None
    os.kill(guard.pid, signal.SIGKILL)
    with os.fdopen(os.pidfd_open(guard.pid)) as ended:
        assert _ended(ended.fileno(), 60.0)
    guard.add(second.pid)
    guard.close()
    assert [first.wait(60), second.wait(60)] == [-signal.SIGTERM] * 2


def test_guard_without_groups_costs_no_process() -> None:
    guard = ProcessGroupGuard()
    assert guard.pid is None
    guard.remove(1)
    guard.close()
    guard.close()


def _ended(pidfd: int, limit_s: float) -> bool:
    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(limit_s * 1000))


def test_guard_outlives_signals_meant_for_the_daemon() -> None:
    guard = ProcessGroupGuard()
    process = sleeper()
    guard.add(process.pid)
    assert guard.pid is not None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        _until_ignored(guard.pid, number)
        os.kill(guard.pid, number)
    guard.close()
    assert process.wait(60) == -signal.SIGTERM


def _until_ignored(pid: int, number: signal.Signals) -> None:
    """Wait until the new process has come to its first line, which ignores signals."""
    for _ in range(1_000_000):
        status = Path(f"/proc/{pid}/status").read_text()
        ignored = next(line for line in status.splitlines() if line.startswith("SigIgn:"))
        if int(ignored.split()[1], 16) >> (number - 1) & 1:
            return
    raise AssertionError("the guard does not ignore the signal")
