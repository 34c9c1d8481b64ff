"""A cycle that is much work is done in turns: submissions come between, all else waits, and the plan is the same."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import World, job_command, make_config, spec

from gsched.core.command import EvaluateCondition, Submit
from gsched.core.decision import Decision
from gsched.core.scheduling_cycles import TURNS_UNSEEN
from gsched.model.event import JobDispatched
from gsched.model.jobs.job import JobSpec, JobState
from gsched.model.queues.queue import Queue
from gsched.model.views.view import JobFilter

KINDS = 40
STEPS = 200
"""Work of a turn: two or three kinds of jobs."""
LARGE = 20_000
"""The same, with which a cycle comes to the reasons in its first turn."""


SLOTS = 16
"""All of a host."""


def kinds(count: int = KINDS) -> list[JobSpec]:
    """Jobs of as many requirements; some find a place."""
    return [spec(res_req=f"select[mem>{number}] rusage[mem={100 + number}]") for number in range(count)]


def turn(world: World, steps: int = STEPS) -> Decision:
    return world.take(world.engine.cycle(world.now, steps=steps))


def begun() -> World:
    """A world in the middle of a cycle over jobs of many kinds."""
    world = World()
    world.submit(*kinds())
    while not world.engine.cycles.is_planning:
        turn(world)
    return world


def finish(world: World, steps: int = STEPS) -> list[Decision]:
    decisions = [turn(world, steps)]
    while world.engine.cycles.is_planning:
        decisions.append(turn(world, steps))
    return decisions


def dispatched(decisions: list[Decision]) -> list[tuple[int, Any]]:
    events = [event for decision in decisions for event in decision.events]
    return [(event.job_id, event.allocation) for event in events if isinstance(event, JobDispatched)]


def test_the_plan_is_that_of_a_cycle_at_one_go() -> None:
    whole = World()
    whole.submit(*kinds())
    at_once = dispatched([turn(whole, 1 << 62)])
    world = begun()
    decisions = finish(world)
    assert len(decisions) > 10
    assert dispatched(decisions) == at_once
    assert at_once
    assert all(not decision.events for decision in decisions[:-1])
    assert world.engine.cycles.reasons == whole.engine.cycles.reasons
    assert world.engine.cycles.planned == whole.engine.cycles.planned


def test_a_submission_between_turns_is_answered_and_waits_for_the_next_cycle() -> None:
    world = begun()
    (job_id,) = world.submit(spec("late"), user="bob")
    (array_id,) = world.submit(spec("late", indices="1-3"), user="bob")
    assert world.job(job_id).state is JobState.PEND
    assert world.engine.cycles.is_planning
    first = finish(world)
    assert job_id not in dict(dispatched(first))
    assert world.engine.cycles.needs_cycle
    assert world.engine.audit() == []
    world.settle()
    assert array_id in world.engine.state.arrays
    world.check_replay()


def test_many_jobs_that_are_accepted_between_turns_are_made_there() -> None:
    world = begun()
    before = len(world.engine.state.jobs)
    command = Submit("bob", "token", tuple(spec(f"run {number}") for number in range(50)))
    decision = world.take(world.engine.handle(command, world.now, 300))
    while decision.rest is not None:
        while world.engine.unsettled:
            world.take(world.engine.settle(world.now, 300))
        decision = world.take(world.engine.go_on(decision.rest, world.now, 300))
    assert world.engine.cycles.is_planning
    assert len(decision.reply) == 50
    assert len(world.engine.state.jobs) == before + 50
    finish(world)
    assert world.engine.audit() == []
    world.check_replay()


def test_a_job_whose_condition_holds_already_is_let_go_on_after_the_cycle() -> None:
    world = World()
    (first,) = world.run(spec())
    world.ended(first)
    world.submit(*kinds())
    while not world.engine.cycles.is_planning:
        turn(world)
    (job_id,) = world.submit(spec(dependency=f"done({first})"))
    assert not world.engine.unsettled
    finish(world)
    world.settle()
    assert world.engine.audit() == []
    assert "depend" not in "".join(world.reasons(job_id)).lower() or world.state(job_id) == "RUN"


def test_a_question_about_a_condition_is_answered_between_turns() -> None:
    world = begun()
    assert world.do(EvaluateCondition("ann", is_admin=False, text="ended(1)")) is not None
    assert world.engine.cycles.is_planning


def test_other_commands_do_not_come_between() -> None:
    world = begun()
    with pytest.raises(RuntimeError, match="KillJobs comes between the turns of a cycle"):
        world.do(job_command("kill", "ann", wanted=JobFilter()))
    finish(world)
    assert world.do(job_command("kill", "ann", wanted=JobFilter()))
    assert world.engine.audit() == []


def test_a_cycle_that_fails_in_a_later_turn_leaves_all_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    world = begun()

    def fails(*_: object) -> None:
        raise ValueError("a fault")

    monkeypatch.setattr("gsched.policy.cycle._Cycle._serve", fails)
    monkeypatch.setattr("gsched.policy.cycle._Cycle._reason_of", fails)
    (job_id,) = world.submit(spec("late"))
    finish(world)
    assert isinstance(world.engine.cycles.failure, ValueError)
    assert not world.engine.cycles.is_planning
    assert world.job(job_id).state is JobState.PEND
    assert world.engine.audit() == []
    monkeypatch.undo()
    world.settle()
    assert world.engine.cycles.failure is None


def test_nobody_leaves_those_that_a_cycle_goes_through() -> None:
    world = begun()
    pending = world.engine.state.pending
    job = next(job for job in world.engine.state.jobs.values() if job.state is JobState.PEND)
    with pytest.raises(RuntimeError, match="leaves while a cycle"):
        pending.remove(job)
    finish(world)
    assert world.engine.audit() == []


def test_a_command_over_many_jobs_is_looked_at_as_seldom_as_a_cycle_is_long() -> None:
    """Where a cycle takes 40 turns, one every 20 turns would take most of the time."""
    world = World()
    world.submit(*kinds(), *[spec(name="many")] * 400)
    while world.engine.cycles.needs_cycle:
        turns = len(finish(world))
    assert turns > 2 * TURNS_UNSEEN
    steps = 60
    decision = world.take(
        world.engine.handle(job_command("stop", "ann", wanted=JobFilter(name="many")), world.now, steps)
    )
    looks = count = 0
    while decision.rest is not None:
        count += 1
        if world.engine.cycles.needs_cycle:
            looks += 1
            world.engine.cycles.needs_cycle = False
        decision = world.take(world.engine.go_on(decision.rest, world.now, steps))
    assert count > 100
    assert 1 <= looks <= count // (2 * TURNS_UNSEEN)


def looking_for_reasons() -> World:
    """A world in which nothing starts, in the middle of a cycle that looks anew for reasons that stood before."""
    world = World()
    world.submit(*[spec(res_req=f"select[ut<-{1 + number}]") for number in range(KINDS)])
    world.settle()
    world.now += 60
    world.engine.cycles.wake()
    turn(world, LARGE)
    assert end_soon(world) == 1 and not found_now(world), "given up, as is not done twice"
    turn(world, LARGE)
    assert world.engine.cycles.is_planning
    return world


def end_soon(world: World) -> int:
    """How many turns a cycle takes when something waits for its end."""
    turns = 1
    world.take(world.engine.cycle(world.now, steps=LARGE, is_awaited=True))
    while world.engine.cycles.is_planning:
        world.take(world.engine.cycle(world.now, steps=LARGE, is_awaited=True))
        turns += 1
    return turns


def found_now(world: World) -> int:
    """How many of the reasons were found now."""
    cycles = world.engine.cycles
    return sum(cycles.reason_times.of(waiting) == world.now for waiting in cycles.reasons)


def test_reasons_stand_where_somebody_waits_for_the_end_of_the_cycle() -> None:
    world = looking_for_reasons()
    said = dict(world.engine.cycles.reasons)
    assert end_soon(world) == 1
    assert 0 < found_now(world) < KINDS
    assert world.engine.cycles.reasons == said
    assert world.engine.cycles.misses_own_starts, "another cycle looks for the others"
    world.engine.cycles.wake()
    finish(world)
    assert found_now(world) == KINDS and not world.engine.cycles.misses_own_starts


def test_they_do_not_stand_for_long_however_many_wait() -> None:
    world = looking_for_reasons()
    end_soon(world)
    for seconds, stands in ((0.5, True), (0.6, False), (0.1, True)):
        world.now += seconds
        world.engine.cycles.wake()
        turn(world, LARGE)
        end_soon(world)
        assert (found_now(world) < KINDS) == stands, seconds


def test_a_job_of_a_kind_without_a_reason_gets_one_whoever_waits() -> None:
    world = looking_for_reasons()
    fresh = world.submit(*[spec(res_req=f"select[ut<-{1 + number}]") for number in range(KINDS, 2 * KINDS)])
    end_soon(world)
    world.engine.cycles.wake()
    turn(world, LARGE)
    end_soon(world)
    assert all(world.reasons(job_id) for job_id in fresh)


def crowded() -> tuple[World, int, int]:
    """A world that is full, a job that holds half of it, and one that is served first; the others want all of it."""
    queues = Queue(name="first", priority=90), Queue(name="normal", priority=30, reserved_jobs=KINDS)
    world = World(make_config(("a", "b"), queues=queues))
    holder, _ = world.run(*[spec(slots=SLOTS, run_limit_s=3600)] * 2)
    world.submit(*[spec(slots=2 * SLOTS, run_limit_s=60 + number) for number in range(KINDS)])
    (first,) = world.submit(spec(queue="first", slots=SLOTS))
    world.settle()
    assert world.state(first) == "PEND" and len(world.engine.cycles.planned) > KINDS // 2
    return world, holder, first


def test_what_starts_does_not_wait_for_the_plans_of_others() -> None:
    world, holder, first = crowded()
    cycles = world.engine.cycles
    planned, reasons = dict(cycles.planned), dict(cycles.reasons)
    world.now += 60
    world.ended(holder)
    decisions = finish(world, LARGE)
    assert dispatched(decisions) and world.state(first) == "RUN"
    assert cycles.misses_plans and cycles.misses_own_starts and not cycles.needs_cycle
    assert {job_id: each for job_id, each in planned.items() if job_id != first} == cycles.planned
    assert reasons.items() >= cycles.reasons.items() and len(cycles.reasons) >= KINDS
    cycles.wake()
    finish(world, LARGE)
    assert not cycles.misses_plans and found_now(world) == KINDS
    assert cycles.planned.keys() == planned.keys() - {first}


def test_plans_are_not_left_for_long() -> None:
    world, holder, first = crowded()
    cycles, others = world.engine.cycles, 0
    world.ended(holder)
    finish(world, LARGE)
    while cycles.misses_plans:
        world.started(first)
        holder, (first,) = first, world.submit(spec(queue="first", slots=SLOTS))
        world.now += 0.3
        world.ended(holder)
        finish(world, LARGE)
        others += 1
    assert others == 4
