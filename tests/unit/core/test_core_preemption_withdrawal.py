"""A job that saves its state for another which is gone meanwhile is not ended for it; what it was asked stands."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import World, gpu_spec, make_config

from gsched.base.coded_text import coded
from gsched.core.instruction import SaveRequest, SpareAttempt, TerminateAttempt
from gsched.model.config import Params
from gsched.model.event import JobPreemptionWithdrawn, JobRequeued, JobRequeueRequested
from gsched.model.jobs.job import EXIT_SAVED, PREEMPTED
from gsched.model.jobs.requeue_exits import RestartCause
from gsched.model.queues.queue import Preemption, Queue

SAVES: dict[str, Any] = {"warning_signal": "TERM", "warning_s": 30, "saves_on_signal": True, "restart_on": ("preempt",)}


def saving(hosts: str = "a") -> World:
    """Job 1 saves its state for job 2."""
    low = Queue(name="low", priority=1)
    high = Queue(name="high", priority=99, preemption=Preemption(preemptive=()))
    params = Params(preempt_requeue=True, min_run_before_preempt_s=10.0)
    world = World(make_config(hosts, (low, high), params=params))
    world.run(gpu_spec(queue="low", slots=16, hosts=("a",), **SAVES))
    world.wait(3600.0)
    world.submit(gpu_spec(queue="high", slots=16, hosts=("a",)))
    world.settle()
    assert world.job(1).saves_for_another
    return world


def orders(world: World, kind: type) -> list[Any]:
    return [order for order in world.instructions if isinstance(order, kind)]


def last(world: World, kind: type) -> Any:
    return next(event for event in reversed(world.events) if isinstance(event, kind))


@pytest.mark.parametrize("goes", ["kill", "stop"])
def test_it_goes_on_and_is_told_so_when_nobody_waits_for_its_place(goes: str) -> None:
    world = saving()
    world.wait(5.0)
    world.control(goes, 2)
    assert orders(world, SpareAttempt) == [SpareAttempt("a", 1, 1)]
    assert last(world, JobPreemptionWithdrawn).preempted_by == 2
    job = world.job(1)
    assert job.is_spared and not job.preempted and not job.running(world.now).is_ending
    assert job.view().is_spared and job.view().save_by == job.save_by
    world.check_replay()
    world.wait(3600.0)
    world.ended(1, exit_code=0)
    assert world.state(1) == "DONE"
    world.check_replay()


def test_it_goes_on_when_the_other_waits_in_a_queue_that_may_not_preempt_it() -> None:
    world = saving()
    assert world.modify(2, queue="low") == [""]
    assert orders(world, SpareAttempt) == [SpareAttempt("a", 1, 1)]
    assert last(world, JobPreemptionWithdrawn).preempted_by == 2
    world.settle()
    assert world.state(2) == "PEND" and not world.job(1).requeue_by
    world.check_replay()


def test_another_configuration_in_which_it_may_preempt_changes_nothing() -> None:
    world = saving()
    world.reconfigure(world.with_queue("high", description="the same, said otherwise"))
    assert not orders(world, SpareAttempt)


@pytest.mark.parametrize("how", [{"exit_code": 1}, {"exit_code": EXIT_SAVED}, {"exit_code": None, "signal": 15}])
def test_what_it_was_asked_stands_until_its_deadline(how: dict[str, Any]) -> None:
    world = saving()
    world.control("kill", 2)
    world.wait(20.0)
    world.ended(1, **how)
    assert world.state(1) == "PEND"
    assert last(world, JobRequeued).reason == coded("requeue.asked_to_save")
    assert last(world, JobRequeued).restart == RestartCause.PREEMPT and world.job(1).restarts == 1
    world.check_replay()


@pytest.mark.parametrize("goes", [False, True])
def test_what_ends_by_itself_with_0_meanwhile_is_done(goes: bool) -> None:
    """Whether or not the other one still waits; it had not been asked yet, say, while its agent was down."""
    world = saving()
    if goes:
        world.control("kill", 2)
    world.wait(20.0)
    world.ended(1, exit_code=0, term_reason=PREEMPTED)
    assert world.state(1) == "DONE" and world.job(1).result.term_reason == ""
    world.check_replay()


@pytest.mark.parametrize("goes", [False, True])
def test_what_has_asked_for_another_run_from_inside_has_one_though_it_ends_with_0(goes: bool) -> None:
    world = saving()
    if goes:
        world.control("kill", 2)
    world.wait(20.0)
    world.ended(1, exit_code=0, term_reason=PREEMPTED, wants_requeue=True)
    assert world.state(1) == "PEND"
    world.check_replay()


def test_what_ends_with_0_when_its_time_is_over_is_run_again() -> None:
    """Programs that are ended by TERM may say so."""
    world = saving()
    world.wait(40.0)
    world.ended(1, exit_code=0, term_reason=PREEMPTED)
    assert world.state(1) == "PEND"


def test_what_its_user_has_requeued_meanwhile_is_run_again() -> None:
    world = saving()
    world.control("requeue", 1)
    world.ended(1, exit_code=0)
    assert world.state(1) == "PEND"


def test_an_agent_that_had_not_heard_of_it_ends_it_and_it_is_run_again() -> None:
    world = saving()
    world.control("kill", 2)
    world.wait(60.0)
    world.ended(1, exit_code=None, signal=9, term_reason=PREEMPTED)
    assert world.state(1) == "PEND"


def test_it_is_known_for_whom_it_saves_when_it_was_stopped_and_goes_on() -> None:
    world = saving()
    world.control("stop", 1)
    world.control("resume", 1)
    assert world.job(1).saves_for == (2,)
    world.check_replay()
    world.control("kill", 2)
    assert orders(world, SpareAttempt) == [SpareAttempt("a", 1, 1)] and world.job(1).is_spared
    world.check_replay()


def test_a_memory_limit_ends_it_for_good() -> None:
    world = saving()
    world.control("kill", 2)
    world.ended(1, exit_code=None, signal=9, term_reason="TERM_MEMLIMIT")
    assert world.state(1) == "EXIT"


def test_a_job_that_comes_meanwhile_gets_its_place_at_the_same_deadline() -> None:
    world = saving()
    until = world.job(1).save_by
    world.wait(5.0)
    world.control("kill", 2)
    world.wait(10.0)
    world.submit(gpu_spec(queue="high", slots=16, hosts=("a",)))
    world.settle()
    job = world.job(1)
    assert job.saves_for_another and job.preempted_by == 3 and job.save_by == until
    assert orders(world, TerminateAttempt)[-1].save == SaveRequest(15, 15)
    world.check_replay()


def test_one_that_comes_after_its_deadline_asks_anew() -> None:
    world = saving()
    world.control("kill", 2)
    world.wait(100.0)
    world.submit(gpu_spec(queue="high", slots=16, hosts=("a",)))
    world.settle()
    assert world.job(1).save_by == world.now + 30


def test_an_agent_and_a_master_that_come_back_spare_it() -> None:
    world = saving()
    world.control("kill", 2)
    world.restart()
    world.hello("a", held=((1, 1),))
    assert orders(world, SpareAttempt)[1:] == [SpareAttempt("a", 1, 1)]
    assert len(orders(world, TerminateAttempt)) == 1


def test_who_wants_it_requeued_himself_does_not_wait_and_nobody_spares_it() -> None:
    world = saving()
    world.control("requeue", 1)
    assert orders(world, TerminateAttempt)[-1].save is None
    assert last(world, JobRequeueRequested).by != "_system_"
    world.control("kill", 2)
    assert not orders(world, SpareAttempt)
    world.ended(1, exit_code=None, signal=15, term_reason="TERM_REQUEUE_OWNER")
    assert world.state(1) == "PEND"
    world.check_replay()


def test_whoever_gets_the_place_is_told_which_job_saves_and_until_when() -> None:
    world = saving()
    first, *others = world.engine.pending_reasons(2)
    assert first.text == coded("pending.waits_for_save", "1") and first.until == world.job(1).save_by
    assert others
    assert world.engine.cycles.planned[2].at == first.until
    world.ended(1, exit_code=EXIT_SAVED)
    assert not world.engine.state.saving


def test_one_that_is_stopped_while_it_saves_stays_stopped_afterwards() -> None:
    world = saving()
    since = len(world.instructions)
    world.control("stop", 1)
    assert not world.orders(since)
    world.ended(1, exit_code=EXIT_SAVED, term_reason=PREEMPTED)
    world.settle()
    assert (world.state(1), world.state(2)) == ("PSUSP", "RUN")
    world.check_replay()
    world.control("resume", 1)
    assert world.state(1) == "PEND"
