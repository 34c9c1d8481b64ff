"""Limits of real jobs: what ends them, by which signals, and what a job without limits does not pay for."""

from __future__ import annotations

import asyncio
import os
import resource
import shlex
import signal
import subprocess
import sys

import pytest
from run_host import Host, appears

from gsched.run.order import AttemptLimits
from gsched.run.processes import process_tree
from gsched.run.supervisor import run_limits
from gsched.run.supervisor.run_limits import RunLimitGuard

PYTHON = shlex.quote(sys.executable)
HOLD = f"exec {PYTHON} -c 'import sys, time; held = bytearray(int(sys.argv[1]) << 20); time.sleep(60)'"


@pytest.mark.parametrize(
    ("command", "allowed", "reason"),
    [
        (f"{HOLD} 200", {"MEMLIMIT": 100.0}, "TERM_MEMLIMIT"),
        ("sleep 60 & sleep 60 & sleep 60 & wait", {"PROCESSLIMIT": 2.0}, "TERM_PROCESSLIMIT"),
        (
            f"exec {PYTHON} -c 'import threading as t, time\nfor i in range(5): t.Timer(60, print).start()'",
            {"THREADLIMIT": 4.0},
            "TERM_THREADLIMIT",
        ),
    ],
)
def test_a_job_that_takes_too_much_is_ended(on_host, command, allowed, reason):
    async def scenario(host):
        result = await host.run(command, limits=allowed, terminate_interval_s=0.2)
        assert result.term_reason == reason
        assert result.run_s < 50

    on_host(scenario)


def test_cpu_time_counts_for_all_processes_together(on_host):
    async def scenario(host):
        burn = f"{PYTHON} -c 'while True: pass'"
        result = await host.run(f"{burn} & {burn} & wait", limits={"CPULIMIT": 1.0}, terminate_interval_s=0.2)
        assert result.term_reason == "TERM_CPULIMIT"
        assert 0.9 <= result.usage.cpu_s < 50

    on_host(scenario)


def test_a_job_may_stay_below_its_limits(on_host):
    async def scenario(host):
        allowed = {"MEMLIMIT": 4096.0, "SWAPLIMIT": 4096.0, "CPULIMIT": 60.0, "PROCESSLIMIT": 9.0, "THREADLIMIT": 99.0}
        result = await host.run("sleep 0.3; exit 3", limits=allowed)
        assert (result.exit_code, result.term_reason) == (3, "")

    on_host(scenario)


def test_the_kernel_is_told_in_the_job_and_nowhere_else(on_host):
    async def scenario(host):
        allowed = {
            "FILELIMIT": 2048.0,
            "DATALIMIT": 4194304.0,
            "STACKLIMIT": 4096.0,
            "CORELIMIT": 0.0,
            "CPULIMIT": 90.0,
        }
        code = (
            "import resource as r\n"
            "for kind in (r.RLIMIT_FSIZE, r.RLIMIT_DATA, r.RLIMIT_STACK, r.RLIMIT_CORE, r.RLIMIT_CPU):\n"
            "    print(*r.getrlimit(kind))\n"
        )
        script = f"#!/bin/sh\nexec {PYTHON} -c '{code}'\n"
        await host.run(script=script, limits=allowed, job_id=1)
        await host.run(script=script, job_id=2)
        unlimited = resource.getrlimit(resource.RLIMIT_CPU)[1]
        limited = [tuple(map(int, line.split())) for line in host.output(1).splitlines()]
        assert limited == [(2 << 20, 2 << 20), (4 << 30, 4 << 30), (4 << 20, 4 << 20), (0, 0), (90, unlimited)]
        assert host.output(2) != host.output(1)

    on_host(scenario)


@pytest.mark.parametrize("lost", ["nobody", "agent"])
def test_limits_of_a_running_job_are_changed(on_host, lost):
    async def scenario(host):
        await host.executor.start(host.order("sleep 60 & sleep 60 & wait", limits={"PROCESSLIMIT": 9.0}))
        await host.start_of(1)
        if lost == "agent":
            host.executor.close()
            host = Host(host.root)
            await host.executor.adopt()
        await host.executor.limit(1, 1, AttemptLimits(limits={"PROCESSLIMIT": 2.0}))
        assert (await host.end_of(1)).term_reason == "TERM_PROCESSLIMIT"
        host.executor.close()

    on_host(scenario)


def test_a_run_limit_is_given_shortened_and_taken_away(on_host):
    async def scenario(host):
        for job, before, runs_s in ((1, None, 60), (2, 60, 60), (3, 3, 4)):
            command = f"sleep {runs_s}; true"
            await host.executor.start(host.order(command, job, run_limit_s=before, terminate_interval_s=0.1))
            await host.start_of(job)
        for job, after in ((1, 1), (2, 1), (3, None)):
            await host.executor.limit(job, 1, AttemptLimits(run_limit_s=after))
        assert [(await host.end_of(job)).term_reason for job in (1, 2, 3)] == ["TERM_RUNLIMIT", "TERM_RUNLIMIT", ""]

    on_host(scenario)


def test_more_cpu_time_is_given_to_what_runs(on_host):
    async def scenario(host):
        burn = 'import os, time\nwhile not os.path.exists("go"): time.sleep(0.01)\nwhile True: pass'
        await host.executor.start(
            host.order(f"exec {PYTHON} -c '{burn}'", limits={"CPULIMIT": 1.0}, terminate_interval_s=0.1)
        )
        pid = (await host.start_of(1)).pid
        await host.executor.limit(1, 1, AttemptLimits(limits={"CPULIMIT": 2.0}))
        await appears(lambda: resource.prlimit(pid, resource.RLIMIT_CPU)[0] == 2)
        (host.root / "go").touch()
        result = await host.end_of(1)
        assert result.term_reason == "TERM_CPULIMIT" and result.usage.cpu_s > 1.5

    on_host(scenario)


def test_limits_that_come_before_the_start_hold_from_it(on_host):
    async def scenario(host):
        await host.run("true", 2)
        os.kill(host.executor._forks.pid, signal.SIGSTOP)
        await host.executor.start(host.order("sleep 60; true", run_limit_s=60, terminate_interval_s=0.1))
        changing = asyncio.create_task(host.executor.limit(1, 1, AttemptLimits(run_limit_s=1)))
        await asyncio.sleep(0)
        os.kill(host.executor._forks.pid, signal.SIGCONT)
        await changing
        assert (await host.end_of(1)).term_reason == "TERM_RUNLIMIT"

    on_host(scenario)


def test_a_file_grows_no_further_than_allowed(on_host):
    async def scenario(host):
        result = await host.run("dd if=/dev/zero of=big bs=1024 count=100", limits={"FILELIMIT": 10.0})
        assert result.exit_code != 0
        assert (host.root / "big").stat().st_size == 10 * 1024

    on_host(scenario)


class Clocked:
    """A guard whose processes are one real child, and what it was sent."""

    def __init__(self, monkeypatch, run_limit_s=None, allowed=None, used=()):
        self.sent: list[int] = []
        self.looks = 0
        self.used = list(used)
        monkeypatch.setattr(process_tree, "send_all", lambda found, signum: self.sent.append(signum) or "")
        monkeypatch.setattr(process_tree, "family", self.family)
        monkeypatch.setattr(
            run_limits, "_used", lambda name, members, cpu_s: self.used[min(self.looks, len(self.used)) - 1]
        )
        self.guard = RunLimitGuard(run_limit_s, allowed or {}, 10.0, list)

    def family(self, root):
        self.looks += 1
        return []

    def run_to(self, until):
        times = []
        while self.guard.due <= until:
            at = self.guard.due
            self.guard.act(at, 0.0)
            times.append(round(at, 3))
        return times


def test_the_steps_of_the_run_limit(monkeypatch):
    clocked = Clocked(monkeypatch, run_limit_s=60.0)
    assert clocked.run_to(92) == [60, 70, 80, 90, 91, 92]
    assert clocked.sent == [signal.SIGUSR2, signal.SIGINT, signal.SIGTERM, *[signal.SIGKILL] * 3]
    assert clocked.guard.term_reason == "TERM_RUNLIMIT"
    assert clocked.looks == 0


def test_without_a_limit_nothing_is_ever_due(monkeypatch):
    clocked = Clocked(monkeypatch, allowed={"FILELIMIT": 5.0, "CORELIMIT": 0.0})
    assert clocked.guard.due == float("inf")


def test_looks_come_often_at_first(monkeypatch):
    clocked = Clocked(monkeypatch, allowed={"MEMLIMIT": 10.0}, used=[1.0])
    assert clocked.run_to(4) == [0.1, 0.3, 0.7, 1.5, 2.5, 3.5]
    assert clocked.guard.term_reason == ""


@pytest.mark.parametrize(
    ("name", "signals"),
    [
        ("MEMLIMIT", [signal.SIGKILL] * 3),
        ("SWAPLIMIT", [signal.SIGKILL] * 3),
        ("CPULIMIT", [signal.SIGXCPU, signal.SIGINT, signal.SIGTERM]),
        ("PROCESSLIMIT", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]),
    ],
)
def test_what_follows_when_a_limit_is_reached(monkeypatch, name, signals):
    clocked = Clocked(monkeypatch, run_limit_s=1000.0, allowed={name: 10.0}, used=[11.0])
    clocked.run_to(25)
    assert clocked.sent[:3] == signals
    assert clocked.looks == 1


def test_a_limit_is_what_is_allowed(monkeypatch):
    clocked = Clocked(monkeypatch, allowed={"PROCESSLIMIT": 3.0}, used=[3.0])
    clocked.run_to(5)
    assert clocked.sent == []


def test_only_the_cpu_limit_explains_a_signal_of_the_kernel():
    assert RunLimitGuard(None, {"CPULIMIT": 5.0}, 10.0, list).explains(signal.SIGXCPU) == "TERM_CPULIMIT"
    assert RunLimitGuard(None, {"CPULIMIT": 5.0}, 10.0, list).explains(signal.SIGKILL) == ""
    assert RunLimitGuard(None, {}, 10.0, list).explains(signal.SIGXCPU) == ""


@pytest.mark.parametrize("has_children_files", [False, True])
def test_a_family_is_found_on_kernels_of_both_kinds(monkeypatch, has_children_files):
    """Where this kernel lacks the files of children, they are made up from its table of processes."""
    read = process_tree._read

    def read_or_make(path):
        if not path.endswith("/children"):
            return read(path)
        pid, thread = path.split("/")[2], path.split("/")[4]
        mine = [each.pid for each in process_tree.scan().values() if each.ppid == int(pid)]
        return b"".join(b"%d " % child for child in mine) if pid == thread else b""

    monkeypatch.setattr(process_tree, "_read", read_or_make)
    monkeypatch.setattr(process_tree, "_HAS_CHILDREN_FILES", has_children_files)
    child = subprocess.Popen(["/bin/sh", "-c", "sleep 60 & sleep 60 & echo; wait"], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert [each.ppid for each in process_tree.family(child.pid)] == [child.pid] * 2
        assert process_tree.family(1 << 22) == []
    finally:
        for each in process_tree.family(child.pid):
            process_tree.send(each, signal.SIGKILL)
        child.kill()
        child.communicate()


def test_an_attempt_after_the_first_appends_below_a_line(on_host):
    async def scenario(host):
        out = host.root / "out"
        line = "---- attempt 2 of job 1 on gpu1 at 2026-11-21 10:00:00 +0000 ----"
        overwrite = {"output_file": "out", "output_overwrite": True}
        await host.run("printf first", 1, **overwrite)
        await host.run("echo second", 2, attempt_line=line, **overwrite)
        assert out.read_text() == f"first\n{line}\nsecond\n"
        assert host.output(2) == "second\n"
        await host.run("echo third", 3, **overwrite)
        assert out.read_text() == "third\n"
        await host.run("echo a; echo b >&2", 4, attempt_line=line, output_file="new", error_file="err")
        assert ((host.root / "new").read_text(), (host.root / "err").read_text()) == ("a\n", "b\n")

    on_host(scenario)


def test_the_list_of_hosts_is_a_file_of_the_attempt(on_host):
    async def scenario(host):
        await host.run(f"cat '{host.folder()}/hostfile'", hostfile="gpu1\ngpu1\ngpu2\n")
        assert host.output() == "gpu1\ngpu1\ngpu2\n"

    on_host(scenario)


def test_a_job_that_is_ended_by_term_hears_nothing_else_before_it_is_killed() -> None:
    sent: list[int] = []
    guard = RunLimitGuard(10.0, {}, 30.0, list, ends_by_term=True)
    for at in (10.0, 40.0, 41.0):
        assert guard.due == at
        guard.act(at, 0.0)
        sent.append(round(guard.due))
    assert guard.term_reason == "TERM_RUNLIMIT" and sent == [40, 41, 42]
    assert guard.renewed(20.0, {}) is guard
    assert RunLimitGuard(10.0, {}, 30.0, list).due == 10.0
