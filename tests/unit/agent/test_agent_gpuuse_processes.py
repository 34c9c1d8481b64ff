"""What single processes of running attempts make of a GPU: by samples, and by what the driver keeps of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpu_use_host import KEY, OTHER, Host, busy, part
from msgspec.structs import replace

from gsched.agent.gpu_use import use_files
from gsched.agent.gpu_use.process_totals import MOST_KEPT
from gsched.model.gpus.gpu_use import MOST_SHARES, GpuUsage, ProcessAccount, ProcessUse
from tests.support.manual_clock import ManualClock


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def account(pid: int, percent: float | None, *, life_s: float | None = None, peak_mib: float = 1.0) -> ProcessUse:
    """One that began ten seconds into a test, as the driver's accounts have it."""
    began_at = ManualClock().now() + 10.0
    kept = ProcessAccount(began_at=began_at, sm_percent=percent, peak_mib=peak_mib, life_s=life_s)
    return ProcessUse(pid=pid, account=kept)


def shares(use: GpuUsage) -> list[tuple[int, float, float | None, float | None, float | None]]:
    return [(each.pid, each.seconds, each.sm_mean, each.sm_max, each.mem_max_mib) for each in use.processes]


def test_who_of_a_job_has_used_how_much_of_a_gpu(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.agent.gpu_use.gpu_use_recorder.program_name", "program{}".format)
    host.owner = {11: "7.1", 12: "7.1", 21: "8.1"}
    first = ProcessUse(pid=11, sm_percent=60.0, sm_peak=90.0, used_mib=300.0)
    second = ProcessUse(pid=12, sm_percent=10.0, used_mib=100.0)
    theirs = ProcessUse(pid=21, sm_percent=20.0, used_mib=900.0)
    host.uses = {"GPU-a": busy(90.0, first, second, theirs)}
    host.start(KEY, part("GPU-a"))
    host.start(OTHER, part("GPU-a"))
    host.sample(None, after_s=10.0)
    host.sample(busy(90.0, ProcessUse(pid=11, sm_percent=20.0, used_mib=500.0), theirs), after_s=10.0)
    (use,), (other,) = host.recorder.summary(KEY), host.recorder.summary(OTHER)
    assert shares(use) == [(11, 20.0, 40.0, 90.0, 500.0), (12, 10.0, 10.0, 10.0, 100.0)]
    assert [(each.name, each.has_ended) for each in use.processes] == [("program11", False), ("program12", True)]
    assert shares(other) == [(21, 20.0, 20.0, 20.0, 900.0)] and not any(each.is_accounted for each in use.processes)
    host.recorder = host.agent()  # kill -9 of the agent
    host.sample(busy(90.0, first), after_s=10.0)
    assert shares(host.recorder.summary(KEY)[0])[0] == (11, 30.0, pytest.approx(140 / 3), 90.0, 500.0)
    assert all(each.has_ended for each in host.end(KEY)[0].processes)


def test_accounts_of_processes_reach_all_attempts_also_those_that_are_not_due(host: Host) -> None:
    """The driver's child process tells of an end once, whoever has asked."""
    host.owner = {11: "7.1", 21: "8.1"}
    host.uses = {"GPU-a": busy(50.0, ProcessUse(pid=11, used_mib=1.0))}
    host.start(KEY, part("GPU-a"))
    for _ in range(4):
        host.sample(None, after_s=10.0)
    host.uses = {"GPU-a": busy(50.0, ProcessUse(pid=21, used_mib=1.0))}
    host.uses["GPU-a"] = replace(host.uses["GPU-a"], ended=(account(11, 75.0, life_s=40.0, peak_mib=700.0),))
    host.running[OTHER] = part("GPU-a")
    (host.spool / "8.1").mkdir()
    host.sample(None, after_s=2.0)
    (use,) = host.recorder.summary(KEY)
    assert shares(use) == [(11, 40.0, 75.0, None, 700.0)] and use.processes[0].is_accounted
    assert host.recorder.summary(OTHER) == ()
    assert (use.mem_max_mib, use.sm_mean) == (700.0, 50.0)


def test_where_the_driver_tells_no_use_by_process_its_accounts_do(host: Host) -> None:
    """Of a device that is shared; without accounts it stays unknown, although there were times without a process."""
    host.owner = {11: "7.1"}
    theirs = ProcessUse(pid=66, used_mib=1.0)
    host.uses = {"GPU-a": busy(90.0, theirs)}
    host.start(KEY, part("GPU-a"))
    host.sample(busy(90.0, theirs), after_s=10.0)
    assert host.recorder.summary(KEY)[0].sm_mean == 0.0
    host.sample(busy(90.0, theirs, ProcessUse(pid=11, used_mib=1.0)), after_s=10.0)
    (use,) = host.recorder.summary(KEY)
    assert (use.sm_mean, use.sm_max, use.sm_median, use.idle_s) == (None, None, None, None)
    host.sample(replace(busy(90.0, theirs), ended=(account(11, 80.0, life_s=15.0),)), after_s=10.0)
    (use,) = host.recorder.summary(KEY)
    assert (use.sm_mean, use.sm_max, use.sm_p95) == (pytest.approx(100 * 12 / 30), None, None)


def test_processes_between_two_looks_count_where_nobody_else_is(host: Host) -> None:
    old = ProcessUse(pid=5, account=ProcessAccount(began_at=ManualClock().now() - 50, sm_percent=1.0, life_s=40.0))
    host.uses = {"GPU-a": busy(0.0)}
    host.start(KEY, part("GPU-a"))
    ended = (old, account(12, 30.0, life_s=4.0), ProcessUse(pid=13))
    host.sample(replace(busy(0.0), ended=ended), after_s=20.0)
    assert shares(host.recorder.summary(KEY)[0]) == [(12, 4.0, 30.0, None, 1.0)]
    beside = busy(0.0, ProcessUse(pid=66, used_mib=1.0))
    host.sample(replace(beside, ended=(account(14, 30.0, life_s=4.0),)), after_s=10.0)
    assert [each.pid for each in host.recorder.summary(KEY)[0].processes] == [12]


def test_a_job_too_short_for_samples_is_known_by_accounts(host: Host) -> None:
    host.owner = {11: "7.1"}
    host.uses = {"GPU-a": busy(0.0, account(11, 0.0))}
    host.start(KEY, part("GPU-a"))
    host.uses = {"GPU-a": replace(busy(0.0), ended=(account(11, 90.0, life_s=0.5, peak_mib=64.0),))}
    (use,) = host.end(KEY)
    assert (use.samples, use.mem_max_mib, use.sm_mean, use.is_known) == (0, 64.0, None, True)
    (told,) = use.processes
    assert (told.pid, told.seconds, told.sm_mean, told.is_accounted) == (11, 0.5, 90.0, True)


def test_of_many_processes_those_are_told_that_used_most(host: Host) -> None:
    """What is kept of a job that runs thousands of programs stays small."""
    host.owner = dict.fromkeys(range(1, 1000), "7.1")
    host.uses = {"GPU-a": busy(0.0)}
    host.start(KEY, part("GPU-a"))
    for pid in range(1, 200):
        host.sample(busy(50.0, ProcessUse(pid=pid, sm_percent=float(pid % 100), used_mib=1.0)), after_s=10.0)
    for pid in range(200, 400):
        host.sample(busy(50.0, ProcessUse(pid=pid, sm_percent=float(pid % 100), used_mib=1.0)), after_s=10.0)
    (use,) = host.recorder.summary(KEY)
    assert [each.sm_mean for each in use.processes] == [99.0] * 4 + [98.0] * 4
    assert len(use.processes) + use.more_processes == 399
    processes = json.loads((host.spool / "7.1" / use_files.NAME).read_bytes())[0]["processes"]
    assert len(processes["known"]) == MOST_KEPT
    crowd = tuple(ProcessUse(pid=pid, sm_percent=1.0) for pid in range(500, 600))
    host.sample(busy(50.0, *crowd), after_s=10.0)
    host.sample(busy(50.0, *crowd), after_s=10.0)
    (use,) = host.recorder.summary(KEY)
    assert len(use.processes) + use.more_processes == 499
    assert len(use.processes) == MOST_SHARES
