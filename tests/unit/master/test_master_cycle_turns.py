"""While a cycle takes several turns the engine's thread answers submissions; all other commands wait for its end, and
come then in the order in which they were sent.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from test_master_loop import Master

from gsched.base.errors import ResourceExhausted
from gsched.core.command import ForecastStart, KillJobs, StopJobs
from gsched.model.jobs.job import JobSpec
from gsched.model.scheduling.snapshot import Plan, Snapshot
from gsched.policy.cycle import Planning, schedule
from gsched.store.safeguards.failure import StoreFull


class LongCycle:
    """A scheduling cycle that yields until it is let go on."""

    def __init__(self) -> None:
        self.is_under_way, self.may_end = threading.Event(), threading.Event()
        self.is_awaited = threading.Event()

    def __call__(self, snapshot: Snapshot, now: float, budget: int, turn: int) -> Planning:
        plan: Plan = schedule(snapshot, now, budget)
        self.is_under_way.set()
        while not self.may_end.is_set():
            if (yield turn):
                self.is_awaited.set()
        return plan


@pytest.fixture
def long() -> LongCycle:
    return LongCycle()


@pytest.fixture
def master(long: LongCycle, monkeypatch: pytest.MonkeyPatch) -> Iterator[Master]:
    monkeypatch.setattr("gsched.master.engine_thread.RETRY_FULL_S", 0.02)
    made = Master(schedule=long)
    made.submit("first")
    assert long.is_under_way.wait(60)
    yield made
    long.may_end.set()
    made.loop.stop()
    assert not made.fatal


def kill(*job_ids: int) -> Any:
    return KillJobs("u", False, job_ids=job_ids)


def test_submissions_are_answered_and_others_wait(master: Master, long: LongCycle) -> None:
    master.ask("stop", StopJobs("u", False, job_ids=(1,)))
    master.ask("kill", kill(1))
    master.submit("second")
    master.until(lambda: "second" in master.answers)
    assert not {"stop", "kill"} & master.answers.keys()
    assert master.loop._engine.cycles.is_planning
    long.may_end.set()
    master.until(lambda: "kill" in master.answers)
    assert list(master.answers) == ["first", "second", "stop", "kill"]


def test_a_cycle_is_told_that_something_waits_for_its_end(master: Master, long: LongCycle) -> None:
    master.submit("second")
    master.until(lambda: "second" in master.answers)
    assert not long.is_awaited.is_set(), "a submission does not wait"
    master.ask("kill", kill(1))
    assert long.is_awaited.wait(60)


def test_a_stop_of_the_master_lets_the_cycle_end_first(master: Master, long: LongCycle) -> None:
    master.ask("kill", kill(1))
    master.submit("second")
    master.until(lambda: "second" in master.answers)
    long.may_end.set()
    master.loop.stop(60)
    assert "kill" in master.answers


def test_what_was_put_off_is_refused_while_nothing_can_be_stored(master: Master) -> None:
    master.ask("kill", kill(1))
    master.submit("second")
    master.until(lambda: "second" in master.answers)
    master.store.failure = StoreFull("no room")
    master.submit("third")
    master.until(lambda: "kill" in master.answers)
    assert isinstance(master.answers["kill"], ResourceExhausted)
    master.store.failure = None
    master.until(lambda: "third" in master.answers)


def test_a_cycle_of_several_turns_is_measured_as_one(master: Master, long: LongCycle) -> None:
    cycles = master.loop._measurements.cycles
    master.submit("second")
    master.until(lambda: "second" in master.answers)
    before = cycles.cumulative()[-1]
    master.submit("third")
    master.until(lambda: "third" in master.answers)
    assert cycles.cumulative()[-1] == before
    long.may_end.set()
    master.ask("kill", kill(1))
    master.until(lambda: "kill" in master.answers)
    assert cycles.cumulative()[-1] > before


def test_a_question_when_a_job_could_start_is_planned_in_turns_too(master: Master, long: LongCycle) -> None:
    long.may_end.set()
    master.ask("kill", kill(1))
    master.until(lambda: "kill" in master.answers and not master.loop._engine.cycles.needs_cycle)
    cycles = master.loop._measurements.cycles.cumulative()[-1]
    long.is_under_way.clear()
    long.may_end.clear()
    master.ask("when", ForecastStart("u", False, JobSpec(command="run", user="", queue="")))
    assert long.is_under_way.wait(60)
    master.ask("stop", StopJobs("u", False, job_ids=(1,)))
    master.ask("again", ForecastStart("u", False, JobSpec(command="run", user="", queue="")))
    master.submit("second")
    master.until(lambda: "second" in master.answers)
    assert not {"when", "stop", "again"} & master.answers.keys()
    assert master.loop._measurements.cycles.cumulative()[-1] == cycles, "it is no cycle"
    long.may_end.set()
    master.until(lambda: "again" in master.answers)
    assert list(master.answers) == ["first", "kill", "second", "when", "stop", "again"]
