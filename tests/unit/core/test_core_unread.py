"""Thousands of new requirements at once: they are read in turns, and no cycle plans before they are."""

from __future__ import annotations

from core_world import World, spec

from gsched.core.command import ModifyJobs, Submit
from gsched.policy.requirement.demand_reader import demand_of
from gsched.resreq.parsing import syntax
from gsched.resreq.parsing.lexer import Cursor

STEPS = 2_000


def kinds(first: int, count: int) -> Submit:
    """Jobs that ask for something else each."""
    specs = tuple(spec(res_req=f"select[mem>{number}] rusage[mem={number}]") for number in range(first, first + count))
    return Submit("ann", "", specs)


def turns_to_the_next_plan(world: World) -> int:
    """Those of the cycle itself are one."""
    turns = 0
    while world.engine.cycles.needs_cycle:
        turns += not world.engine.cycles.is_planning
        before = demand_of.cache_info().misses
        world.take(world.engine.cycle(world.now, steps=STEPS))
        assert demand_of.cache_info().misses - before <= STEPS // 250 + 1
    return turns


def test_new_requirements_are_read_in_turns_before_a_cycle_plans() -> None:
    world = World()
    world.settle()
    world.do(kinds(11_000, 60))
    assert turns_to_the_next_plan(world) > 60 // (STEPS // 250)
    assert world.engine.cycles.failure is None and "started 9 of" in world.engine.cycles.summary
    world.do(kinds(11_000, 60))
    assert turns_to_the_next_plan(world) == 1, "nothing of it is new"


def test_kinds_that_are_gone_before_they_are_read_are_left_out() -> None:
    world = World()
    world.settle()
    world.do(kinds(12_000, 60))
    everything = tuple(world.engine.state.jobs)
    world.do(ModifyJobs("ann", False, everything, spec(res_req="rusage[mem=5]"), ("res_req",)))
    assert turns_to_the_next_plan(world) == 1


def test_judging_a_new_requirement_costs_more_steps_than_a_known_one() -> None:
    def turns(command: Submit) -> int:
        world = World()
        decision = world.take(world.engine.handle(command, world.now, STEPS))
        count = 1
        while decision.rest is not None:
            while world.engine.unsettled:
                world.take(world.engine.settle(world.now, STEPS))
            decision = world.take(world.engine.go_on(decision.rest, world.now, STEPS))
            count += 1
        return count

    alike = Submit("ann", "", tuple(spec(command=f"run {number}", res_req="rusage[mem=5]") for number in range(40)))
    assert turns(kinds(13_000, 40)) > 3 * turns(alike)


def test_a_requirement_is_read_once_however_often_it_is_asked_for(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    read: list[str] = []

    def counted(text: str, limit: int) -> Cursor:
        read.append(text)
        return Cursor(text, limit)

    monkeypatch.setattr(syntax, "Cursor", counted)
    world = World()
    world.submit(spec(res_req="select[mem>4711]"))
    world.settle()
    assert read.count("select[mem>4711]") <= 2, "as it was typed: to judge it, and to combine it"
    assert read.count("select[mem > 4711.00 && type == local] order[r15s:pg]") <= 1
