"""A job that ends at once and asks for another run gets it after a pause, which grows as long as that goes on."""

from __future__ import annotations

import pytest
from core_world import World, make_config, spec
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.coded_text import coded
from gsched.core.attempts.restarts import MOST_PAUSE_S, NO_PAUSE, SHORT_RUN_S, restart_pause
from gsched.model.jobs.job import EXIT_SAVED


@pytest.mark.parametrize(
    "run_s, before, pause", [(0.1, 0, (1.0, 1)), (59.9, 1, (2.0, 2)), (1.0, 7, (128.0, 8)), (1.0, 90, (300.0, 91))]
)
def test_each_short_run_in_a_row_is_followed_by_a_longer_pause(
    run_s: float, before: int, pause: tuple[float, int]
) -> None:
    assert restart_pause(run_s, before) == pause


@given(st.floats(0, 1e6), st.integers(0, 10_000))
def test_a_pause_is_bounded_and_no_run_that_has_lasted_has_one(run_s: float, before: int) -> None:
    pause = restart_pause(run_s, before)
    assert 0.0 <= pause.seconds <= MOST_PAUSE_S
    assert (pause == NO_PAUSE) is (run_s >= SHORT_RUN_S)


def short(world: World, attempt: int, run_s: float = 0.1) -> None:
    world.ended(1, attempt, exit_code=EXIT_SAVED, run_s=run_s)
    world.settle()


def test_what_exits_with_99_at_once_does_not_start_ten_times_a_second() -> None:
    world = World(make_config())
    world.run(spec(max_restarts=9))
    for attempt, seconds in ((1, 1.0), (2, 2.0), (3, 4.0)):
        short(world, attempt)
        (reason,) = world.engine.pending_reasons(1)
        assert reason.text == coded("pending.restart_pause") and reason.until == world.now + seconds
        assert world.engine.next_deadline(world.now) == world.now + seconds
        world.wait(seconds - 0.1)
        world.settle()
        assert world.state(1) == "PEND"
        world.wait(0.2)
        world.settle()
        assert world.state(1) == "RUN"
        world.started(1)
        world.check_replay()


def test_a_run_that_has_lasted_starts_again_at_once_and_the_next_pause_is_the_first() -> None:
    world = World(make_config())
    world.run(spec(max_restarts=9))
    short(world, 1)
    world.wait(1.0)
    world.settle()
    world.started(1)
    short(world, 2, run_s=SHORT_RUN_S)
    assert world.state(1) == "RUN" and not world.job(1).short_runs
    world.started(1)
    short(world, 3)
    assert world.job(1).not_before == world.now + 1.0
    world.check_replay()


def test_the_pause_is_of_a_master_that_comes_back_too() -> None:
    world = World(make_config())
    world.run(spec(max_restarts=9))
    short(world, 1)
    world.restart()
    world.connect("a")
    world.settle()
    assert world.state(1) == "PEND"
    world.wait(1.0)
    world.settle()
    assert world.state(1) == "RUN"
