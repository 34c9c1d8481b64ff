"""Jobs that save their state are run again when they ask for it: by exit code 99, or from inside; so often at most."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from core_world import World, gpu_spec, make_config, spec

from gsched.base.coded_text import coded, sentence
from gsched.base.errors import BadRequest
from gsched.core.instruction import SaveRequest, TerminateAttempt
from gsched.model.config import Params
from gsched.model.event import JobNoted, JobRequeued
from gsched.model.jobs.job import EXIT_SAVED, MOST_RESTARTS
from gsched.model.jobs.requeue_exits import RestartCause
from gsched.model.queues.queue import Preemption, Queue


def world_of(**queue: Any) -> World:
    return World(make_config("a", (Queue(name="normal", **queue),)))


def ends(world: World, attempt: int = 1, **result: Any) -> str:
    """It ends after an hour, for none of its runs is to count as a short one."""
    world.ended(1, attempt, **({"run_s": 3600.0} | result))
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
    world.ended(1, exit_code=EXIT_SAVED, run_s=3600.0)
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


def asked(world: World) -> list[SaveRequest | None]:
    return [order.save for order in world.instructions if isinstance(order, TerminateAttempt)]


def preempting() -> World:
    low = Queue(name="low", priority=1)
    high = Queue(name="high", priority=99, preemption=Preemption(preemptive=()))
    params = Params(preempt_requeue=True, min_run_before_preempt_s=10.0)
    return World(make_config("a", (low, high), params=params))


SAVES: dict[str, Any] = {"warning_signal": "TERM", "warning_s": 30, "saves_on_signal": True, "restart_on": ("preempt",)}


def test_a_preempted_job_has_time_to_save_and_whoever_gets_its_place_is_told_how_long() -> None:
    world = preempting()
    world.run(gpu_spec(queue="low", slots=16, **SAVES))
    world.wait(3600.0)
    world.submit(gpu_spec(queue="high", slots=16))
    world.settle()
    assert asked(world) == [SaveRequest(signal.SIGTERM, 30)]
    assert world.job(1).save_by == world.now + 30
    assert coded("note.waits_for_save", "1", 30) in notes(world)
    world.wait(5.0)
    world.cycle()
    planned = world.engine.cycles.planned[2]
    assert planned.at is not None and world.now + 25 <= planned.at < world.now + 26
    world.check_replay()
    assert ends(world, exit_code=EXIT_SAVED) == "PEND"
    assert last_requeue(world).restart == RestartCause.PREEMPT and world.job(1).restarts == 1
    assert world.job(1).save_by is None
    world.settle()
    assert world.state(2) == "RUN"
    world.check_replay()


def test_an_agent_that_comes_back_hears_the_same_again() -> None:
    world = preempting()
    world.run(gpu_spec(queue="low", slots=16, **SAVES))
    world.wait(3600.0)
    world.submit(gpu_spec(queue="high", slots=16))
    world.settle()
    world.restart()
    world.hello("a", held=((1, 1),))
    assert asked(world)[-1] == SaveRequest(signal.SIGTERM, 30)


def test_who_kills_it_meanwhile_waits_for_nothing() -> None:
    world = preempting()
    world.run(gpu_spec(queue="low", slots=16, **SAVES))
    world.wait(3600.0)
    world.submit(gpu_spec(queue="high", slots=16))
    world.settle()
    world.control("kill", 1)
    assert asked(world)[-1] is None
    world.restart()
    world.hello("a", held=((1, 1),))
    assert asked(world)[-1] is None
    assert ends(world, exit_code=EXIT_SAVED) == "EXIT"


def test_a_job_that_may_not_be_restarted_any_more_is_not_preempted_by_requeue() -> None:
    world = preempting()
    world.run(gpu_spec(queue="low", slots=16, **(SAVES | {"max_restarts": 0})))
    world.wait(3600.0)
    world.submit(gpu_spec(queue="high", slots=16))
    world.settle()
    assert world.state(1) != "PEND" and not asked(world)


def test_a_chain_of_runs_goes_on_after_each_run_limit_until_it_is_done() -> None:
    """30 h of work in a queue of 8 h."""
    world = world_of(run_limit_s=8 * 3600)
    world.run(spec(restart_on=("timelimit",), max_restarts=5))
    for attempt in (1, 2, 3):
        world.wait(8 * 3600.0)
        killed: dict[str, Any] = {"exit_code": None, "signal": 9, "term_reason": "TERM_RUNLIMIT", "run_s": 8 * 3600.0}
        assert ends(world, attempt, **killed) == "PEND"
        assert last_requeue(world).restart == RestartCause.TIMELIMIT
        runs_again(world)
    world.wait(6 * 3600.0)
    assert ends(world, 4) == "DONE"
    assert world.job(1).restarts == 3
    world.check_replay()


@pytest.mark.parametrize("run_s, state", [(40.0, "PEND"), (5.0, "EXIT")])
def test_a_signal_before_the_limit_that_nobody_took_notice_of_counts_as_the_limit(run_s: float, state: str) -> None:
    world = world_of()
    world.run(spec(run_limit_s=60, **(SAVES | {"restart_on": ("timelimit",)})))
    assert ends(world, exit_code=None, signal=15, run_s=run_s) == state


def test_a_lost_host_restarts_a_job_that_asks_for_that_alone() -> None:
    world = World(make_config("ab"))
    world.run(spec(restart_on=("host",), hosts=("a",)), spec(restart_on=("gpu",), hosts=("a",)))
    world.disconnect()
    world.wait(world.config.params.host_lost_after_s)
    assert (world.state(1), world.state(2)) == ("PEND", "UNKWN")
    assert last_requeue(world).restart == RestartCause.HOST


def test_the_queue_says_by_which_signal_jobs_save_that_say_nothing_and_another_queue_takes_it_back() -> None:
    world = World(make_config("a", (Queue(name="normal", save_signal="B:URG@90"), Queue(name="other"))))
    world.submit(spec(hold=True), spec(hold=True, warning_signal="TERM", warning_s=10, saves_on_signal=True))
    own = [(each.warning_signal, each.warning_s, each.warns_main) for each in (world.job(1).spec, world.job(2).spec)]
    assert own == [("URG", 90, True), ("TERM", 10, False)]
    assert world.job(1).spec.saves_itself
    assert world.modify(1, queue="other") == [""]
    after = world.job(1).spec
    assert (after.warning_signal, after.warning_s, after.saves_on_signal) == ("", None, False)


def test_who_is_to_be_warned_earlier_than_the_run_limit_allows_is_told() -> None:
    world = World(make_config("a", (Queue(name="normal", save_signal="TERM@120", run_limit_s=60), Queue(name="o"))))
    early = coded("warning.early_signal", "TERM", 60, 120)
    world.submit(spec(hold=True), spec(hold=True, warning_signal="URG", warning_s=59, run_limit_s=60))
    assert (world.job(1).spec.warnings, world.job(2).spec.warnings) == ((early,), ())
    assert sentence(early) == (
        "signal TERM comes as soon as the job starts: it is to come 120 seconds before a run limit of 60 seconds"
    )
    assert world.modify(1, queue="o") == [""] and not world.job(1).spec.warnings
    at_once = spec(hold=True, warning_signal="URG", warning_s=60, run_limit_s=60)
    world.submit(at_once)
    assert world.job(3).spec.warnings == (coded("warning.early_signal", "URG", 60, 60),)
    assert world.modify(3, run_limit_s=50) == [""]
    assert world.job(3).spec.warnings == (coded("warning.early_signal", "URG", 50, 60),)


@pytest.mark.parametrize(
    "wrong",
    [
        {"restart_on": ("flood",)},
        {"max_restarts": -1},
        {"saves_on_signal": True},
        {"warning_signal": "NONE", "warning_s": 5},
        {"interactive": "I", "restart_on": ("host",)},
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        world_of().submit(spec(**wrong))
