"""A job of one GPU that is preempted by suspension is moved off it, and somebody else has the GPU until he has done."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from core_world import World, gpu_spec, gpus, make_config

from gsched.base.coded_text import coded
from gsched.core.command import AttemptMoved
from gsched.core.instruction import ResumeAttempt, SuspendAttempt
from gsched.model.config import Params
from gsched.model.event import JobGpusKept, JobGpusMoved
from gsched.model.hosts.host import GpuReport
from gsched.model.queues.queue import Preemption, Queue


def movable(count: int = 1) -> GpuReport:
    report = gpus(count, host="a")
    return msgspec.structs.replace(
        report, gpus=tuple(msgspec.structs.replace(gpu, moves_jobs=True) for gpu in report.gpus)
    )


def world_of(devices: GpuReport | None = None) -> World:
    low = Queue(name="low", priority=1)
    high = Queue(name="high", priority=99, preemption=Preemption(preemptive=()))
    world = World(make_config("a", (low, high), params=Params(min_run_before_preempt_s=10.0)), connect=False)
    world.connect("a", devices or movable())
    world.run(gpu_spec(queue="low"))
    world.wait(3600.0)
    world.submit(gpu_spec(queue="high"))
    world.settle()
    return world


def orders(world: World, kind: type) -> list[Any]:
    return [order for order in world.instructions if isinstance(order, kind)]


def moved(world: World, why: Any = "") -> None:
    world.do(AttemptMoved(1, 1, "a", why))
    world.settle()


def test_the_gpu_is_given_out_when_the_job_is_seen_off_it_and_not_before() -> None:
    world = world_of()
    assert world.state(1) == "SSUSP" and orders(world, SuspendAttempt) == [SuspendAttempt("a", 1, 1, True)]
    assert world.state(2) == "PEND" and world.held(1) == [0]
    world.check_replay()
    moved(world)
    assert world.state(2) == "RUN" and world.job(1).moved_off
    assert not world.engine.audit()
    world.check_replay()


def test_it_goes_on_when_the_gpu_is_free_again() -> None:
    world = world_of()
    moved(world)
    world.started(2)
    assert world.control("resume", 1) and world.state(1) == "SSUSP"
    assert not orders(world, ResumeAttempt)
    world.ended(2)
    world.settle()
    assert world.state(1) == "RUN" and orders(world, ResumeAttempt) == [ResumeAttempt("a", 1, 1)]
    assert not world.job(1).moved_off and not world.engine.audit()
    world.check_replay()


def test_one_that_cannot_be_moved_keeps_its_gpu_and_goes_on() -> None:
    world = world_of()
    why = coded("moves.failed", 4711, "UVM memory is not supported")
    moved(world, why)
    assert world.state(2) == "PEND" and world.job(1).gpus_kept == why and world.job(1).view().gpus_kept == why
    assert world.state(1) == "RUN"
    world.wait(3600.0)
    world.settle()
    assert world.state(1) == "RUN" and len(orders(world, SuspendAttempt)) == 1
    world.check_replay()


def test_a_host_that_cannot_move_jobs_keeps_them_running() -> None:
    world = world_of(gpus(1, host="a"))
    assert world.state(1) == "RUN" and world.state(2) == "PEND"


def test_an_agent_that_comes_back_is_told_again_and_tells_again() -> None:
    world = world_of()
    moved(world)
    world.started(2)
    world.restart()
    world.connect("a", movable(), held=((1, 1), (2, 1)))
    assert orders(world, SuspendAttempt)[-1].moves_gpus
    moved(world)
    assert sum(isinstance(event, JobGpusMoved) for event in world.events) == 1
    assert not world.engine.audit()


def test_what_is_told_late_changes_nothing() -> None:
    world = world_of()
    world.control("kill", 1)
    world.ended(1, exit_code=None, signal=9)
    moved(world)
    assert not any(isinstance(event, JobGpusMoved | JobGpusKept) for event in world.events)
    assert world.state(2) == "RUN"


@pytest.mark.parametrize("ends", [{"exit_code": 0}, {"exit_code": None, "signal": 9}])
def test_it_may_end_while_it_is_off_its_gpu(ends: dict[str, Any]) -> None:
    world = world_of()
    moved(world)
    world.started(2)
    world.ended(1, **ends)
    assert not world.engine.audit()
    world.check_replay()
    world.ended(2)
    world.check_replay()
