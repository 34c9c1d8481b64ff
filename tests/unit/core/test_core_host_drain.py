"""gadmin drain --requeue: jobs that can be run again leave the host, after they have saved their state."""

from __future__ import annotations

from typing import Any

import pytest
from core_lent_world import GROWS_S, elastic, plain, world_of
from core_world import World, gpu_spec, make_config, spec

from gsched.base.coded_text import coded
from gsched.base.errors import BadRequest, PermissionDenied
from gsched.core.command import DrainHosts
from gsched.core.instruction import SaveRequest, SpareAttempt, TerminateAttempt
from gsched.model.config import Params
from gsched.model.event import JobRequeued
from gsched.model.jobs.job import EXIT_SAVED
from gsched.model.jobs.requeue_exits import RestartCause
from gsched.model.queues.queue import Preemption, Queue
from gsched.model.views.drained_job import DrainedJob

SAVES: dict[str, Any] = {"warning_signal": "TERM", "warning_s": 30, "saves_on_signal": True}


def drain(world: World, *hosts: str, user: str = "root", is_admin: bool = True, grace_s: int | None = None) -> Any:
    return world.do(DrainHosts(user, is_admin, hosts or ("a",), "new fans", grace_s))


def orders(world: World) -> dict[int, SaveRequest | None]:
    return {order.job_id: order.save for order in world.instructions if isinstance(order, TerminateAttempt)}


def preempted() -> World:
    """Job 1 saves its state for job 2."""
    low = Queue(name="low", priority=1)
    high = Queue(name="high", priority=99, preemption=Preemption(preemptive=()))
    params = Params(preempt_requeue=True, min_run_before_preempt_s=10.0)
    world = World(make_config("ab", (low, high), params=params))
    world.run(gpu_spec(queue="low", slots=16, hosts=("a",), restart_on=("preempt",), **SAVES))
    world.wait(3600.0)
    world.submit(gpu_spec(queue="high", slots=16, hosts=("a",)))
    world.settle()
    assert world.job(1).saves_for_another
    return world


def test_who_saves_is_asked_who_is_rerunnable_ends_and_others_run_on() -> None:
    world = World(make_config("ab"))
    on_a: dict[str, Any] = {"hosts": ("a",)}
    world.run(spec(**on_a, **SAVES), spec(**on_a, rerunnable=True), spec(**on_a), spec(**on_a, restart_on=("drain",)))
    told = drain(world)
    assert told == [
        DrainedJob(job_id=1, host="a", is_requeued=True, save_by=world.now + 30),
        DrainedJob(job_id=2, host="a", is_requeued=True),
        DrainedJob(job_id=3, host="a", why=coded("drain.not_rerunnable")),
        DrainedJob(job_id=4, host="a", is_requeued=True),
    ]
    assert orders(world) == {1: SaveRequest(15, 30), 2: None, 4: None}
    assert world.engine.state.closed_hosts["a"] == ("root", "new fans")
    world.check_replay()
    world.ended(4, exit_code=None, signal=15, term_reason="TERM_REQUEUE_ADMIN")
    assert world.state(4) == "PEND" and world.job(4).restarts == 1
    requeued = next(event for event in reversed(world.events) if isinstance(event, JobRequeued))
    assert requeued.reason == coded("requeue.drained", "a", "root") and requeued.restart == RestartCause.DRAIN
    assert {each.job_id: each.why for each in drain(world)}[1] == coded("drain.ending")
    world.check_replay()


def test_an_agent_that_comes_back_hears_of_the_time_that_was_given() -> None:
    world = World(make_config("ab"))
    world.run(spec(hosts=("a",), **SAVES))
    assert drain(world, grace_s=600)[0].save_by == world.now + 600
    assert orders(world) == {1: SaveRequest(15, 600)}
    world.restart()
    world.hello("a", held=((1, 1),))
    assert orders(world) == {1: SaveRequest(15, 600)}


def test_a_job_on_several_hosts_leaves_all_of_them() -> None:
    world = World(make_config("ab"))
    world.run(spec(slots=32, rerunnable=True))
    (told,) = drain(world, "b", "a")
    assert told.host == "b" and told.is_requeued
    assert {order.host for order in world.instructions if isinstance(order, TerminateAttempt)} == {"a", "b"}


def test_what_cannot_or_must_not_be_ended_is_named() -> None:
    world = World(make_config("ab"))
    world.run(
        gpu_spec(hosts=("a",), rerunnable=True),
        spec(hosts=("a",), restart_on=("drain",), max_restarts=0),
        spec(hosts=("a",), interactive="I"),
    )
    world.control("stop", 1)
    assert [each.why for each in drain(world)] == [
        coded("drain.suspended"),
        coded("drain.no_restart_left"),
        coded("drain.not_rerunnable"),
    ]
    assert not orders(world)


def test_who_is_stopped_while_it_saves_stays_so_also_where_its_host_is_lost() -> None:
    world = World(make_config("ab"))
    world.run(spec(hosts=("a",), rerunnable=True, **SAVES))
    drain(world, grace_s=60000)
    world.control("stop", 1)
    world.disconnect("a")
    world.wait(2 * world.config.params.host_lost_after_s)
    assert world.state(1) == "PSUSP" and world.job(1).stopped_by == "ann"
    world.check_replay()


@pytest.mark.parametrize("goes", [True, False])
def test_who_saves_for_a_job_that_gets_its_place_leaves_by_that_time_whatever_becomes_of_the_other(goes: bool) -> None:
    world = preempted()
    until = world.job(1).save_by
    world.wait(5.0)
    assert drain(world, grace_s=600) == [DrainedJob(job_id=1, host="a", is_requeued=True, save_by=until)]
    assert orders(world) == {1: SaveRequest(15, 25)}
    world.check_replay()
    if goes:
        world.control("kill", 2)
    assert not [order for order in world.instructions if isinstance(order, SpareAttempt)]
    world.ended(1, exit_code=EXIT_SAVED, term_reason="TERM_REQUEUE_ADMIN")
    world.settle()
    assert world.state(1) == "PEND" and world.job(1).restarts == 1
    requeued = next(event for event in reversed(world.events) if isinstance(event, JobRequeued))
    assert requeued.reason == coded("requeue.drained", "a", "root") and requeued.restart == RestartCause.DRAIN
    world.check_replay()


def test_whose_time_for_another_job_is_over_is_being_ended() -> None:
    world = preempted()
    world.wait(31.0)
    assert [each.why for each in drain(world)] == [coded("drain.ending")]


@pytest.mark.parametrize("grows", [True, False])
def test_who_is_to_go_on_with_other_gpus_leaves_with_none(grows: bool) -> None:
    world = world_of(4, ("a", "b"))
    world.run(plain(2, hosts=("a",)), elastic(1, 4, hosts=("a",)))
    if grows:
        world.ended(1)
        world.wait(GROWS_S)
    else:
        world.submit(plain(1, hosts=("a",)))
    world.settle()
    until = world.job(2).save_by
    assert world.job(2).is_resizing
    told = {each.job_id: each for each in drain(world)}
    assert told[2] == DrainedJob(job_id=2, host="a", is_requeued=True, save_by=until)
    world.control("kill", 3)
    assert not world.job(2).is_resizing and not world.job(2).is_spared
    world.check_replay()
    world.ended(2, exit_code=EXIT_SAVED, term_reason="TERM_REQUEUE_ADMIN")
    world.settle()
    assert world.state(2) == "PEND" and world.job(2).resize is None
    world.check_replay()


def test_who_may_not_close_the_host_ends_no_job() -> None:
    world = World(make_config("ab"))
    world.run(spec(hosts=("a",), rerunnable=True))
    with pytest.raises(PermissionDenied):
        drain(world, user="mallory", is_admin=False)
    for grace_s in (0, -1, 10**6):
        with pytest.raises(BadRequest):
            drain(world, grace_s=grace_s)
    with pytest.raises(BadRequest):
        drain(world, "nosuch")
    assert not orders(world) and not world.engine.state.closed_hosts
