"""A checkpoint that is made bit by bit is the state of the moment when it is closed, whatever happens meanwhile."""

from __future__ import annotations

import pytest
from core_world import World, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.core.command import KillJobs, ModifyJobs, StopJobs
from gsched.core.state import checkpoint
from gsched.core.state.checkpoint import Writing
from gsched.core.state.cluster_state import ClusterState
from gsched.model.views.view import JobFilter
from tests.support.property_examples import examples

STEPS = st.lists(st.sampled_from(["submit", "array", "kill", "stop", "modify", "end", "wait", "step"]), max_size=25)


def happen(world: World, what: str) -> None:
    running = sorted(world.engine.state.running)
    match what:
        case "submit":
            world.submit(spec(name=f"job{world.now}"), spec(), token=f"t{world.now}")
        case "array":
            world.submit(spec(indices="1-5", hold=True))
        case "kill":
            world.do(KillJobs("ann", False, wanted=JobFilter(states=("PSUSP",))))
        case "stop":
            world.do(StopJobs("ann", False, wanted=JobFilter(states=("PEND",))))
        case "modify":
            world.do(
                ModifyJobs("ann", False, (), spec(run_limit_s=int(world.now) % 1000), ("run_limit_s",), JobFilter())
            )
        case "end" if running:
            world.ended(running[0])
        case "wait":
            world.wait(4000.0)
    world.settle()


@settings(max_examples=examples(20), deadline=None)
@given(STEPS, STEPS)
def test_what_happens_while_it_is_written_is_in_it(before: list[str], meanwhile: list[str]) -> None:
    world = World()
    for what in before:
        happen(world, what)
    world.engine.state.take_touched()
    writing = Writing(world.engine.state)
    for what in meanwhile:
        writing.step(2)
        happen(world, what)
        writing.note(world.engine.state.take_touched()[0])
    at_once = world.engine.state.dump()
    parts = list(writing.close())
    world.submit(spec(name="later"))  # after it was closed
    assert ClusterState.load(b"".join(parts)).dump() == ClusterState.load(at_once).dump()


def test_it_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "PART_BYTES", 1000)
    world = World()
    world.submit(*[spec(command=f"run {number}") for number in range(50)], spec(indices="1-9"))
    parts = list(Writing(world.engine.state).close())
    assert len(parts) > 5
    assert max(map(len, parts)) < 5000
    assert ClusterState.load(b"".join(parts)).dump() == world.engine.state.dump()


def test_a_state_that_keeps_changing_is_written_down_before_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "LAST", 5)
    world = World()
    ids = world.submit(*[spec()] * 100)
    writing = Writing(world.engine.state)
    assert not writing.step(50)
    writing.note(ids)
    assert not writing.step(50)
    assert not writing.step(50)
    assert writing.step(200)


def test_an_empty_state_is_one() -> None:
    assert ClusterState.load(ClusterState().dump()).dump() == ClusterState().dump()
