"""A cycle that leaves plans to another starts the same jobs; one that has found nothing to start may be given up.

Worlds of test_policy_mixed_worlds: each cycle of them is also made as the master makes it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from placing_cluster import kind
from test_policy_mixed_worlds import Mixed, world
from timed_cluster import DUST_S

from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Plan, Snapshot
from gsched.policy.cycle import DEFAULT_BUDGET, schedule_in_turns

WORLDS, NIGHTS = 6, 1_000
TURN = 8_000
"""Work of a turn, as the master has it."""


def in_turns(snapshot: Snapshot, now: float, *, is_awaited: bool, turn: int = TURN) -> tuple[Plan, int]:
    """The plan, and how many turns were over before."""
    planning, turns = schedule_in_turns(snapshot, now, DEFAULT_BUDGET, turn), 0
    try:
        next(planning)
        while True:
            turns += 1
            planning.send(is_awaited)
    except StopIteration as done:
        plan: Plan = done.value
        return plan, turns


class EndsEarly(Mixed):
    """Each cycle leaves to the next one what it may."""

    early = cycles = 0

    def plan_at(self, now: float) -> Plan:
        plan = super().plan_at(now)
        seen = replace(self.snapshot(now), may_end_early=self.cycles % 2 == 0, may_give_up=True)
        found, _ = in_turns(seen, now, is_awaited=False)
        assert found.placements == plan.placements
        assert found.preempted == plan.preempted
        self.cycles += 1
        if not found.ended_early:
            assert (found.reasons, found.planned, found.resumed) == (plan.reasons, plan.planned, plan.resumed)
            return found
        assert found.placements and not found.resumed
        self.early += 1
        return found

    def step(self, now: float) -> Plan:
        plan = super().step(now)
        return super().step(now) if plan.ended_early else plan


def meet(seeds: range) -> tuple[int, int]:
    """Cycles of these worlds, and how many of them ended early; asserts that nothing is other for it."""
    cycles = early = 0
    for seed in seeds:
        cluster, jobs = world(seed)
        cluster.__class__ = EndsEarly
        assert isinstance(cluster, EndsEarly)
        cluster.play(jobs)
        late = {job_id: at for job_id, at in cluster.first_promise.items() if cluster.started[job_id] > at + DUST_S}
        assert not late, f"seed {seed}"
        cycles, early = cycles + cluster.cycles, early + cluster.early
    return cycles, early


def test_the_same_jobs_start_in_the_same_places_and_promises_are_kept() -> None:
    cycles, early = meet(range(WORLDS))
    assert cycles > 10 * WORLDS and early > 1


@pytest.mark.nightly
def test_they_do_in_a_thousand_worlds() -> None:
    cycles, early = meet(range(WORLDS, WORLDS + NIGHTS))
    assert cycles > 10 * NIGHTS and early > NIGHTS // 10


def full(kinds: int = 80) -> Mixed:
    """Nothing is free, and starts of jobs of many kinds are planned."""
    cluster = Mixed(slots=4, queues=[Queue(name="q", priority=1, reserved_jobs=kinds)])
    cluster.add(kind("", slots=4, run_s=100.0))
    cluster.step(0.0)
    for number in range(kinds):
        cluster.add(kind(f"select[mem>{number}]", slots=3, run_s=50.0))
    return cluster


def test_a_cycle_is_given_up_while_nothing_of_it_starts() -> None:
    seen = full().snapshot(1.0)
    plan, turns = in_turns(replace(seen, may_give_up=True), 1.0, is_awaited=True)
    assert plan.ended_early and turns == 1 and not plan.placements
    plan, _ = in_turns(full().snapshot(1.0), 1.0, is_awaited=True)
    assert not plan.ended_early and plan.planned


def test_it_is_not_given_up_when_much_of_it_has_been_done() -> None:
    seen = replace(full().snapshot(1.0), may_give_up=True)
    planning, turns = schedule_in_turns(seen, 1.0, DEFAULT_BUDGET, 3_000), 0
    try:
        next(planning)
        while True:
            turns += 1
            planning.send(turns > 3)
    except StopIteration as done:
        assert not done.value.ended_early and done.value.planned
    assert turns > 3


def test_plans_of_those_that_it_did_not_come_to_stay() -> None:
    cluster = full()
    before = cluster.step(1.0).planned
    assert before
    cluster.add(kind("", slots=1, run_s=5.0))
    seen = replace(cluster.snapshot(2.0), may_give_up=True, may_end_early=True)
    plan, _ = in_turns(seen, 2.0, is_awaited=True)
    assert plan.ended_early and plan.planned == before
