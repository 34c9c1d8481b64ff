"""Jobs that save their state are run again when they ask for it: by exit code 99, or from inside; so often at most."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import World, make_config, spec

from gsched.base.coded_text import coded
from gsched.model.event import JobNoted, JobRequeued
from gsched.model.jobs.job import EXIT_SAVED, MOST_RESTARTS
from gsched.model.jobs.requeue_exits import RestartCause
from gsched.model.queues.queue import Queue


def world_of(**queue: Any) -> World:
    return World(make_config("a", (Queue(name="normal", **queue),)))


def ends(world: World, attempt: int = 1, **result: Any) -> str:
    world.ended(1, attempt, **result)
    return world.state(1)


def runs_again(world: World) -> None:
    world.settle()
    assert world.state(1) == "RUN"
    world.started(1)


def last_requeue(world: World) -> JobRequeued:
    return next(event for event in reversed(world.events) if isinstance(event, JobRequeued))


def notes(world: World) -> list[Any]:
    return [event.text for event in world.events if isinstance(event, JobNoted)]


def test_exit_code_99_runs_a_job_again_that_has_asked_for_it_and_so_often_at_most() -> None:
    world = world_of()
    world.run(spec(max_restarts=2))
    asked = coded("restart.exit_code", EXIT_SAVED)
    for attempt in (1, 2):
        assert ends(world, attempt, exit_code=EXIT_SAVED) == "PEND"
        assert last_requeue(world).reason == coded("requeue.saved", asked, attempt, 2)
        assert last_requeue(world).restart == RestartCause.SAVED
        assert world.job(1).restarts == attempt
        runs_again(world)
        world.check_replay()
    assert ends(world, 3, exit_code=EXIT_SAVED) == "EXIT"
    assert notes(world)[-1] == coded("note.most_restarts", asked, 2)
    world.check_replay()


def test_exit_code_99_means_nothing_to_a_job_that_has_not_said_that_it_saves_its_state() -> None:
    world = world_of(rerunnable=True)
    world.run(spec())
    assert ends(world, exit_code=EXIT_SAVED) == "EXIT"
    assert not any(isinstance(event, JobRequeued) for event in world.events)


def test_no_restarts_means_none() -> None:
    world = world_of()
    world.run(spec(max_restarts=0))
    assert ends(world, exit_code=EXIT_SAVED) == "EXIT"


def test_a_job_that_asks_from_inside_runs_again_whatever_its_exit_code() -> None:
    world = world_of()
    world.run(spec())
    for attempt, how in enumerate(({"exit_code": 0}, {"exit_code": 7}, {"exit_code": None, "signal": 15}), 1):
        assert ends(world, attempt, wants_requeue=True, **how) == "PEND"
        assert last_requeue(world).reason == coded("requeue.saved", coded("restart.asked"), attempt, MOST_RESTARTS)
        runs_again(world)
    world.check_replay()


def test_it_keeps_its_place_which_is_that_of_its_submission() -> None:
    world = world_of()
    world.run(spec(max_restarts=9, slots=16))
    world.submit(spec(slots=16))
    world.settle()
    assert (world.state(1), world.state(2)) == ("RUN", "PEND")
    world.ended(1, exit_code=EXIT_SAVED)
    world.settle()
    assert (world.state(1), world.state(2)) == ("RUN", "PEND")


@pytest.mark.parametrize("inside", [True, False])
def test_the_queues_most_requeues_bound_what_the_job_asks_for(inside: bool) -> None:
    world = world_of(max_requeue=1)
    world.run(spec(max_restarts=None if inside else 5))
    how: dict[str, Any] = {"exit_code": EXIT_SAVED, "wants_requeue": inside}
    assert ends(world, 1, **how) == "PEND"
    runs_again(world)
    assert ends(world, 2, **how) == "EXIT"


@pytest.mark.parametrize("term_reason", ["TERM_MEMLIMIT", "TERM_OWNER", "TERM_CPULIMIT"])
def test_what_was_ended_by_a_person_or_for_what_it_took_is_not_run_again(term_reason: str) -> None:
    world = world_of()
    world.run(spec(max_restarts=5))
    assert ends(world, exit_code=EXIT_SAVED, wants_requeue=True, term_reason=term_reason) == "EXIT"


def test_a_job_that_saves_at_its_run_limit_runs_again() -> None:
    world = world_of()
    world.run(spec(max_restarts=5, run_limit_s=60))
    assert ends(world, exit_code=EXIT_SAVED, term_reason="TERM_RUNLIMIT") == "PEND"


def test_a_killed_job_ends_though_it_asks_to_run_again() -> None:
    world = world_of()
    world.run(spec(max_restarts=5))
    world.control("kill", 1)
    assert ends(world, exit_code=EXIT_SAVED, wants_requeue=True) == "EXIT"


def test_values_of_the_queue_come_first() -> None:
    world = world_of(requeue_exit_values="EXCLUDE(99)")
    world.run(spec(max_restarts=0))
    assert ends(world, exit_code=EXIT_SAVED) == "PEND"
    assert world.job(1).excluded_hosts == ("a",) and not world.job(1).restarts
