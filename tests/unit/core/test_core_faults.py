"""GPUs that fail under jobs (pains 6): whom it ends, who runs again, and what the jobs are told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from core_world import World, gpu_spec, gpus, spec

from gsched.base.coded_text import sentence
from gsched.core.attempts.attempt_results import GPU_FAILED
from gsched.core.instruction import TerminateAttempt
from gsched.model.event import JobRequeued, JobSignalRequested
from gsched.model.hosts.host import GpuReport, GpuXid

LOST = "NVML: GPU is lost"


def changed(index: int, **changes: Any) -> GpuReport:
    report = gpus(4)
    found = list(report.gpus)
    found[index] = msgspec.structs.replace(found[index], **changes)
    return msgspec.structs.replace(report, gpus=tuple(found))


def failed(index: int, *names: str, fault: str = LOST) -> GpuReport:
    return changed(index, fault=fault, problem=fault, hit=names)


def terminated(world: World) -> list[TerminateAttempt]:
    return [each for each in world.instructions if isinstance(each, TerminateAttempt)]


def test_the_job_on_it_ends_and_no_other() -> None:
    """pains 6: one sick GPU costs one job, not the host."""
    world = World()
    first, second = world.run(gpu_spec(), gpu_spec())
    for _ in range(2):  # it is told at every report, and acted on once
        world.report(gpus=failed(0, f"{first}.1"))
    assert terminated(world) == [TerminateAttempt("a", first, 1, GPU_FAILED)]
    text = f"Run 1 lost a GPU: GPU 0 (GPU-a0) on a has failed: {LOST}"
    assert (
        tuple(map(sentence, world.job(first).notes)) == (text,) and tuple(map(sentence, world.job(second).notes)) == ()
    )
    world.ended(first, exit_code=None, signal=9, term_reason=GPU_FAILED)
    result = world.job(first).result
    assert world.state(first) == "EXIT" and result is not None and result.term_reason == GPU_FAILED
    assert world.state(second) == "RUN"
    # The other GPUs take jobs; this one takes none.
    waiting = world.submit(*(gpu_spec() for _ in range(3)))
    world.settle()
    assert [world.state(job) for job in waiting] == ["RUN", "RUN", "PEND"]
    assert all(held.index for job in waiting[:2] for held in world.job(job).allocation.hosts[0].gpus)


def test_a_rerunnable_one_runs_once_more_elsewhere() -> None:
    world = World()
    (job,) = world.run(gpu_spec(rerunnable=True))
    world.report(gpus=failed(0, f"{job}.1"))
    world.ended(job, exit_code=None, signal=9, term_reason=GPU_FAILED)
    (event,) = [event for event in world.events if isinstance(event, JobRequeued)]
    assert sentence(event.reason) == f"GPU 0 (GPU-a0) on a has failed: {LOST}" and event.by == ""
    world.settle()
    world.started(job)
    held = world.job(job).allocation.hosts[0].gpus
    assert (world.state(job), world.job(job).attempt, held[0].index) == ("RUN", 2, 1)
    world.report(gpus=failed(1, f"{job}.2"))
    world.ended(job, attempt=2, exit_code=None, signal=9)
    result = world.job(job).result
    assert world.state(job) == "EXIT" and result is not None and result.term_reason == GPU_FAILED
    world.check_replay()


def test_one_that_has_ended_by_itself_before_the_kill_came() -> None:
    """A program notices the loss at once; what it exits with does not matter, except that it is done."""
    world = World()
    crashed, done = world.run(gpu_spec(rerunnable=True), gpu_spec(rerunnable=True))
    report = failed(0, f"{crashed}.1")
    second = failed(1, f"{done}.1").gpus[1]
    world.report(gpus=msgspec.structs.replace(report, gpus=(report.gpus[0], second, *report.gpus[2:])))
    world.ended(crashed, exit_code=1)
    world.ended(done, exit_code=0)
    assert (world.state(crashed), world.state(done)) == ("PEND", "DONE")


def test_after_a_restart_of_the_master_it_is_known_why() -> None:
    world = World()
    (job,) = world.run(gpu_spec())
    world.report(gpus=failed(0, f"{job}.1"))
    world.restart()
    assert sentence(world.job(job).gpu_fault).endswith(LOST) and world.job(job).kill_by
    world.connect("a", failed(0, f"{job}.1"), held=[(job, 1)])
    assert terminated(world) == [TerminateAttempt("a", job, 1, GPU_FAILED)] * 2
    world.ended(job, exit_code=None, signal=9)
    result = world.job(job).result
    assert result is not None and result.term_reason == GPU_FAILED


@pytest.mark.parametrize("action", ["kill", "requeue"])
def test_one_that_is_ending_is_only_told(action: str) -> None:
    world = World()
    (job,) = world.run(gpu_spec(rerunnable=True))
    if action == "kill":
        world.control("kill", job)
    else:
        world.order("requeue", job)
    before = len(terminated(world))
    world.report(gpus=failed(0, f"{job}.1"))
    assert len(terminated(world)) == before and len(tuple(map(sentence, world.job(job).notes))) == 1


def test_a_suspended_one_ends_too_and_once() -> None:
    world = World()
    (job,) = world.run(gpu_spec())
    world.control("stop", job)
    assert world.state(job) == "USUSP"
    for _ in range(2):
        world.report(gpus=failed(0, f"{job}.1"))
    assert len([event for event in world.events if isinstance(event, JobSignalRequested)]) == 1
    world.ended(job, exit_code=None, signal=9)
    assert world.state(job) == "EXIT"


@pytest.mark.parametrize("name", ["{}.2", "99.1"])
def test_nothing_of_other_attempts(name: str) -> None:
    world = World()
    (job,) = world.run(gpu_spec())
    world.report(gpus=failed(0, name.format(job)))
    assert tuple(map(sentence, world.job(job).notes)) == () and not terminated(world)


def test_nothing_of_an_attempt_that_holds_another_gpu() -> None:
    world = World()
    (job,) = world.run(gpu_spec())
    world.report(gpus=failed(3, f"{job}.1"))
    assert tuple(map(sentence, world.job(job).notes)) == () and not terminated(world)


def test_errors_of_programs_are_told_and_end_nothing() -> None:
    """pains 6: XID 94 is an error of one program and must not close a GPU."""
    world = World()
    (job,) = world.run(gpu_spec())
    said = changed(0, xids=(GpuXid(number=94, jobs=(f"{job}.1",)), GpuXid(number=999, jobs=(f"{job}.1", "77.1"))))
    for _ in range(2):
        world.report(gpus=said)
    where = "of GPU 0 (GPU-a0) on a"
    assert tuple(map(sentence, world.job(job).notes)) == (
        f"Run 1 had XID 94 (a contained memory error) {where}",
        f"Run 1 had XID 999 {where}",
    )
    assert world.state(job) == "RUN" and not terminated(world)
    world.ended(job, exit_code=1)
    world.report(gpus=changed(0, xids=(*said.gpus[0].xids, GpuXid(number=31, jobs=(f"{job}.1",)))))
    assert len(tuple(map(sentence, world.job(job).notes))) == 3  # it is told even though it came after the end


def test_a_job_without_a_gpu_is_not_touched() -> None:
    world = World()
    (job,) = world.run(spec())
    world.report(gpus=failed(0))
    assert world.state(job) == "RUN" and tuple(map(sentence, world.job(job).notes)) == ()
