"""How long jobs ran is kept by kind: by events, through checkpoints, within bounds; and planning follows it at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core_world import START, World, make_config, spec

from gsched.core.records import run_times
from gsched.core.records.run_times import KnownTimes, RunTimes, ran_s
from gsched.core.state.cluster_state import ClusterState, replay
from gsched.model.jobs.job import AttemptResult
from gsched.model.scheduling.run_kind import RunKind, run_kind

KIND = RunKind("ann", "normal", "", 1, "w")


def usual(*ran: float, start: tuple[float, ...] = ()) -> float | None:
    """What is said after jobs ran so long; `start`: those of before."""
    times = RunTimes()
    for each in (*start, *ran):
        times.note(KIND, each)
    return times.usual.get(KIND)


def test_nothing_is_said_by_few_jobs() -> None:
    assert usual(10, 20, 30, 40) is None
    assert usual(10, 20, 30, 40, 50) == 50


def test_nine_in_ten_jobs_ran_no_longer() -> None:
    assert usual(*range(20, 0, -1)) == 20  # not lowered for so little
    assert usual(*range(1, 21)) == 18
    assert usual(*[10] * 18, 500, 600) == 10


def test_only_the_newest_jobs_count() -> None:
    assert usual(*[500] * 30, *[10] * 17) == 500
    assert usual(*[500] * 30, *[10] * 18) == 10


def test_an_estimate_is_raised_at_once_and_lowered_only_for_much() -> None:
    assert usual(*[90] * 18, start=(100,) * 20) == 100
    assert usual(*[79] * 18, start=(100,) * 20) == 79
    assert usual(*[101] * 3, start=(100,) * 20) == 101


def test_jobs_that_end_at_once_count_as_a_second() -> None:
    assert usual(*[0.0] * 5) == run_times.SHORTEST_S


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_times, "MOST_KINDS", 3)
    times = RunTimes()
    kinds = [KIND._replace(slots=slots) for slots in range(5)]
    for kind in (kinds[0], kinds[1], kinds[2], kinds[0], kinds[3], kinds[4]):
        for _ in range(5):
            times.note(kind, 10.0)
    assert set(times.usual) == {kinds[0], kinds[3], kinds[4]}
    assert [each.kind for each in times.stored()] == [kinds[0], kinds[3], kinds[4]]
    assert all(len(each.newest_s) <= run_times.NEWEST for each in times.stored())


def test_estimates_that_change_are_told() -> None:
    times = RunTimes()
    for each in (10, 10, 10, 10):
        times.note(KIND, each)
    assert not times.moved
    times.note(KIND, 10)
    assert times.moved == {KIND}
    times.moved.clear()
    times.note(KIND, 10)
    assert not times.moved
    times.note(KIND, 30)
    assert times.usual[KIND] == 30 and times.moved == {KIND}


@pytest.mark.parametrize(
    ("result", "asked", "expected"),
    [
        ({"exit_code": 0}, False, 50.0),
        ({"exit_code": 3}, False, 50.0),
        ({"signal": 11}, False, 50.0),
        ({"exit_code": 0, "run_s": 49.5}, False, 49.5),
        ({"signal": 12, "term_reason": "TERM_RUNLIMIT"}, False, 50.0),
        ({"exit_code": 0}, True, None),
        ({"signal": 9, "term_reason": "TERM_MEMLIMIT"}, False, None),
        ({"signal": 9, "host_down": True}, False, None),
        ({"started": False}, False, None),
        ({}, False, None),
    ],
    ids=["done", "exit", "crash", "own clock", "limit", "killed", "memory", "host", "never ran", "unknown"],
)
def test_which_ends_say_something(result: dict[str, Any], asked: bool, expected: float | None) -> None:
    ended = AttemptResult(**({"ended_at": 150.0} | result))
    assert ran_s(ended, 100.0, was_asked=asked) == expected
    assert ran_s(ended, None, was_asked=asked) is None


# -- in a cluster -------------------------------------------------------------------------------------------------


def finish(world: World, count: int, lasts: float, **changes: Any) -> None:
    for _ in range(count):
        (job_id,) = world.run(spec(**changes))
        world.wait(lasts)
        world.ended(job_id)


def test_the_events_and_a_checkpoint_give_the_same() -> None:
    world = World()
    finish(world, 6, 100.0)
    finish(world, 3, 7.0, slots=2)
    state = world.engine.state
    (kind,) = state.run_times.usual
    assert (kind.user, kind.queue, kind.slots) == ("ann", "normal", 1) and state.run_times.usual[kind] == 100.0
    assert replay(world.events).dump() == state.dump()
    loaded = ClusterState.load(state.dump())
    assert loaded.run_times.usual == state.run_times.usual and loaded.dump() == state.dump()
    loaded.run_times.note(kind, 300.0)
    state.run_times.note(kind, 300.0)
    assert loaded.run_times.stored() == state.run_times.stored()


def test_a_checkpoint_of_before_says_nothing() -> None:
    world = World()
    finish(world, 5, 100.0)
    stored = json.loads(world.engine.state.dump())
    del stored["run_times"]
    assert ClusterState.load(json.dumps(stored).encode()).run_times.usual == {}


def test_killed_jobs_say_nothing() -> None:
    world = World()
    for _ in range(6):
        (job_id,) = world.run(spec())
        world.control("kill", job_id)
        world.ended(job_id, exit_code=None, signal=15, term_reason="TERM_OWNER")
    assert not world.engine.state.run_times.usual


def test_elements_of_an_array_are_of_one_kind_with_the_jobs_like_them() -> None:
    world = World()
    finish(world, 2, 60.0)
    world.run(spec(indices="1-3"))
    world.wait(60.0)
    for job_id in sorted(world.engine.state.running):
        world.ended(job_id)
    assert list(world.engine.state.run_times.usual.values()) == [60.0]


def planned_for(world: World, job_id: int) -> float | None:
    plan = world.engine.cycles.planned.get(job_id)
    return None if plan is None else plan.at


def test_jobs_that_run_are_looked_at_anew_when_their_kind_is_known() -> None:
    """One runs on the host that another waits for: its end is expected as soon as jobs like it have ended elsewhere."""
    world = World(make_config("abcdefghij"))
    long, other = world.run(spec(hosts=("a",)), spec(hosts=("b",)))
    world.run(spec(hosts=("c",), run_limit_s=600))
    world.submit(spec(slots=16, hosts=("c",), run_limit_s=60))
    world.settle()  # the ends of all that runs have been read
    state = world.engine.state
    kind = run_kind(state.jobs[long].bucket())
    state.run_times = RunTimes([KnownTimes(*kind, newest_s=[100.0] * 4)])
    world.wait(90.0)
    world.ended(other, host="b")
    world.settle()
    (wide,) = world.submit(spec(slots=16, hosts=("a",), run_limit_s=60))
    world.settle()
    assert state.run_times.usual == {kind: 100.0}
    assert planned_for(world, wide) == START + 100.0


def test_an_own_estimate_is_of_the_class_only_without_a_limit() -> None:
    world = World()
    one, other, limited = world.submit(spec(estimate_s=60), spec(estimate_s=120), spec(estimate_s=60, run_limit_s=600))
    found = [world.job(job_id).bucket().requirement for job_id in (one, other, limited)]
    assert [each.estimate_s for each in found] == [60, 120, None]
    assert [each.run_s for each in found] == [None, None, 600]
