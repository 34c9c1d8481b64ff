"""Jobs that are exceptions: -x of gjobs, gacct and ghist, what gjobs -l and -o tell, and the table of gqueues -l."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from fake_master import FakeCall, FakeMaster, allocation, record, spec

from gsched.model import event as events
from gsched.model.jobs.job import AttemptResult, Usage
from gsched.model.queues.exception_thresholds import ExceptionThresholds
from gsched.model.views.catalogue import Account
from gsched.model.views.view import JobView, QueueView

NewCall = Callable[..., FakeCall]
NOW = time.time()
LIMITS = ExceptionThresholds(overrun_s=3600, underrun_s=120, idle=0.1, idle_after_s=600)


def told(call: NewCall, *words: str) -> str:
    done = call(*words)
    assert (done.run(), done.err) == (0, "")
    return done.out


def job(job_id: int, state: str, *, ran_s: float, cpu_s: float) -> JobView:
    begin = NOW - ran_s
    used = Usage(cpu_s=cpu_s, sampled_at=NOW)
    result = AttemptResult(exit_code=3, usage=used, run_s=ran_s) if state == "EXIT" else None
    return JobView(
        job_id=job_id,
        spec=spec(),
        state=state,
        submitted_at=begin,
        dispatched_at=begin,
        allocation=allocation(),
        usage=used,
        finished_at=NOW if state == "EXIT" else None,
        result=result,
    )


LONG = job(1, "RUN", ran_s=7200, cpu_s=7200)
IDLE, BUSY = (job(number, "RUN", ran_s=1200, cpu_s=cpu_s) for number, cpu_s in ((2, 12), (3, 900)))
SHORT = job(4, "EXIT", ran_s=30, cpu_s=20)


@pytest.fixture
def queues(master: FakeMaster) -> None:
    master.queue_views = [QueueView(name="normal", priority=1, exceptions=LIMITS), QueueView(name="other", priority=1)]
    master.views = [LONG, IDLE, BUSY, SHORT]


@pytest.mark.usefixtures("queues")
def test_gjobs_lists_them(call: NewCall) -> None:
    words = ("gjobs", "-x", "-u", "all", "-noheader", "-o", "jobid exception_status delimiter=','")
    assert told(call, *words).splitlines() == ["1,overrun", "2,idle"]
    assert told(call, *words, "-a").splitlines() == ["1,overrun", "2,idle", "4,underrun"]
    assert [line.split()[0] for line in told(call, "gjobs", "-x", "-u", "all", "-noheader").splitlines()] == ["1", "2"]
    assert "RUN" in told(call, "gjobs", "-x", "-u", "all", "-sum")


@pytest.mark.usefixtures("queues")
def test_gjobs_at_length_says_which(call: NewCall) -> None:
    shown = told(call, "gjobs", "-l", "-u", "all", "2")
    assert "EXCEPTION STATUS:  idle\n" in shown
    assert "IDLE_FACTOR(cputime/runtime):   0.01\n" in shown
    assert "EXCEPTION" not in told(call, "gjobs", "-l", "-u", "all", "3")


def test_without_a_threshold_nothing_is_said_of_the_idle_factor(master: FakeMaster, call: NewCall) -> None:
    master.queue_views = [QueueView(name="normal", priority=1)]
    master.views = [IDLE]
    assert "IDLE_FACTOR" not in told(call, "gjobs", "-l", "-u", "all", "2")


@pytest.mark.parametrize("option", ["-A", "-psum", "-p4"])
def test_x_is_not_passed_over_in_a_layout_of_other_things(call: NewCall, option: str) -> None:
    done = call("gjobs", "-x", option)
    assert (done.run(), done.err) == (255, "gjobs: -x cannot be given together with -A, -psum, -p4\n")


@pytest.mark.usefixtures("queues")
def test_gqueues_counts_them_and_asks_for_no_job_that_waits(master: FakeMaster, call: NewCall) -> None:
    shown = told(call, "gqueues", "-l", "normal")
    table = shown[shown.index("JOB EXCEPTION PARAMETERS") :].split("\n\n")[0].splitlines()
    assert [line.split() for line in table[2:]] == [["Threshold", "60", "2", "0.1"], ["Jobs", "1", "1", "1"]]
    assert [set(wanted.states) & {"PEND", "PSUSP"} for wanted in master.filters if wanted.queue] == [set()]
    assert all(wanted.states for wanted in master.filters if wanted.queue)
    assert "JOB EXCEPTION" not in told(call, "gqueues", "-l", "other")


@pytest.mark.usefixtures("queues")
def test_gacct_finds_those_of_the_past(master: FakeMaster, call: NewCall) -> None:
    fine = job(5, "EXIT", ran_s=300, cpu_s=300)
    master.accounts = [
        Account(
            job_id=view.job_id,
            user="ann",
            queue="normal",
            state="EXIT",
            submitted_at=view.submitted_at,
            dispatched_at=view.dispatched_at,
            finished_at=NOW,
            job=view,
        )
        for view in (SHORT, fine)
    ]
    assert "exited jobs:     2" in told(call, "gacct", "-u", "all")
    assert "exited jobs:     1" in told(call, "gacct", "-x", "-u", "all")
    shown = told(call, "gacct", "-x", "-l", "-u", "all")
    assert "Job <4>" in shown and "Job <5>" not in shown and "EXCEPTION STATUS:  underrun\n" in shown


@pytest.mark.usefixtures("queues")
def test_ghist_finds_those_of_the_past(master: FakeMaster, call: NewCall) -> None:
    for view in (SHORT, job(5, "EXIT", ran_s=300, cpu_s=300), LONG):
        begin = view.submitted_at
        happened: list[events.AnyEvent] = [
            events.JobSubmitted(at=begin, job_id=view.job_id, spec=spec()),
            events.JobDispatched(at=begin, job_id=view.job_id, attempt=1, allocation=allocation(), effective_req=""),
        ]
        if view.result is not None:
            happened.append(events.JobFinished(at=NOW, job_id=view.job_id, attempt=1, result=view.result))
        master.histories[view.job_id] = tuple(record(seq, each) for seq, each in enumerate(happened, 1))
    rows = told(call, "ghist", "-x", "-a", "-u", "all").splitlines()[2:]
    assert [row.split()[0] for row in rows] == ["1", "4"]
