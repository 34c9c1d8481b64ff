"""RETRY: jobs that failed wait again, so often and not where they failed; what somebody has ended never does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from core_world import World, gpu_spec, gpus, make_config, spec

from gsched.base.coded_text import coded, has_code
from gsched.core.attempts.attempt_results import GPU_FAILED
from gsched.core.command import Reconfigure
from gsched.model.event import JobFinished, JobNoted, JobRequeued
from gsched.model.hosts.host import GpuReport, GpuXid
from gsched.model.jobs.failure import failure_of
from gsched.model.jobs.job import AttemptFailure
from gsched.model.queues.queue import Queue

BUSY = AttemptFailure(kind="gpu_busy")
RULES = "gpu_busy:2@other_host nccl_timeout:1 segfault:1 xid:2 host_down:1"


def world_of(hosts: str = "a", rules: str = RULES, **queue: Any) -> World:
    return World(make_config(hosts, (Queue(name="normal", retry=rules, **queue), Queue(name="other"))))


def host_of(world: World, job: int = 1) -> str:
    allocation = world.job(job).allocation
    assert allocation is not None
    return allocation.first_host


def fails(world: World, attempt: int = 1, job: int = 1, **result: Any) -> str:
    """The attempt ends so; the job's state afterwards."""
    world.ended(job, attempt, host_of(world, job), **({"exit_code": 1} | result))
    return world.state(job)


def starts_again(world: World, job: int = 1) -> None:
    world.settle()
    assert world.state(job) == "RUN"
    world.started(job)


def test_it_runs_again_as_often_as_the_class_may_and_then_no_more() -> None:
    world = world_of("abc")
    world.run(spec())
    seen = {host_of(world)}
    for attempt in (1, 2):
        assert fails(world, attempt, failure=BUSY) == "PEND"
        requeue = next(event for event in reversed(world.events) if isinstance(event, JobRequeued))
        assert requeue.reason == coded("requeue.failure", "gpu_busy", attempt, 2)
        assert requeue.retry == "gpu_busy" and requeue.exclude_host and requeue.result is not None
        starts_again(world)
        assert host_of(world) not in seen
        seen.add(host_of(world))
        world.check_replay()
    assert fails(world, 3, failure=BUSY) == "EXIT"
    assert world.job(1).retries == {"gpu_busy": 2} and world.job(1).code_requeues == 0
    notes = [event.text for event in world.events if isinstance(event, JobNoted)]
    assert notes[-1] == coded("note.most_retries", "gpu_busy", 2)
    world.check_replay()


def test_each_class_is_counted_by_itself_and_an_unnamed_one_ends_the_job() -> None:
    world = world_of()
    world.run(spec())
    assert fails(world, 1, exit_code=None, signal=11) == "PEND"
    starts_again(world)
    assert fails(world, 2, failure=AttemptFailure(kind="nccl_timeout")) == "PEND"
    assert world.job(1).excluded_hosts == ()
    starts_again(world)
    assert world.job(1).retries == {"segfault": 1, "nccl_timeout": 1}
    assert fails(world, 3, failure=AttemptFailure(kind="cuda_oom")) == "EXIT"
    world.check_replay()


@pytest.mark.parametrize("how", ["kill", "signal", "requeue", "force"])
def test_what_a_person_has_ended_is_not_tried_again(how: str) -> None:
    world = world_of(rules="segfault:5 gpu_busy:5 signal:5 exit_code:5")
    world.run(spec())
    if how == "signal":
        world.control("signal", 1, signal=15)
        assert fails(world, 1, exit_code=None, signal=15) == "EXIT"
    elif how == "requeue":
        world.order("requeue", 1)
        assert fails(world, 1, failure=BUSY) == "PEND"
        assert world.job(1).retries == {}
    else:
        world.control("kill", 1)
        assert fails(world, 1, failure=BUSY, exit_code=None, signal=9) == "EXIT"
        assert failure_of(world.job(1).result).kind == "killed"  # type: ignore[arg-type, union-attr]
    world.check_replay()


def test_a_signal_that_somebody_sent_does_not_count_for_the_next_attempt_nor_for_another_failure() -> None:
    world = world_of(rules="signal:5 gpu_busy:5")
    world.run(spec())
    world.control("signal", 1, signal=10)
    assert fails(world, 1, failure=BUSY) == "PEND"  # it was told to save its state, and went on
    starts_again(world)
    assert world.job(1).signals == ()
    assert fails(world, 2, exit_code=128 + 10) == "PEND"  # by whomever that was
    world.check_replay()


def test_a_job_that_reached_a_limit_or_was_preempted_is_not_tried_again() -> None:
    world = world_of(rules="signal:5 host_oom:5 cuda_oom:5")
    world.run(spec())
    assert fails(world, 1, exit_code=None, signal=9, oom_kills=1, term_reason="TERM_MEMLIMIT") == "EXIT"


def changed(**changes: Any) -> GpuReport:
    report = gpus(4)
    return msgspec.structs.replace(report, gpus=(msgspec.structs.replace(report.gpus[0], **changes), *report.gpus[1:]))


@pytest.mark.parametrize(
    "result", [{"exit_code": None, "signal": 9, "term_reason": GPU_FAILED}, {"exit_code": 1, "term_reason": GPU_FAILED}]
)
def test_a_job_whose_gpu_has_failed_is_tried_on_another(result: dict[str, Any]) -> None:
    world = world_of()
    world.run(gpu_spec())
    world.report(gpus=changed(fault="lost", problem="lost", hit=("1.1",)))
    assert fails(world, 1, **result) == "PEND"
    starts_again(world)
    (part,) = world.job(1).allocation.hosts  # type: ignore[union-attr]
    assert part.gpus[0].index != 0 and world.job(1).retries == {"xid": 1}
    world.check_replay()


def test_an_xid_that_the_driver_told_is_why_a_job_failed_whatever_its_agent_says() -> None:
    world = world_of()
    world.run(gpu_spec())
    world.report(gpus=changed(xids=(GpuXid(number=94, jobs=("1.1",)),)))
    assert fails(world, 1, failure=AttemptFailure(kind="cuda_error")) == "PEND"
    requeue = next(event for event in reversed(world.events) if isinstance(event, JobRequeued))
    assert requeue.retry == "xid" and requeue.result is not None
    assert requeue.result.failure == AttemptFailure(kind="xid", detail="94")
    starts_again(world)
    assert fails(world, 2, failure=AttemptFailure(kind="cuda_error")) == "EXIT"  # that was the attempt before
    ended = next(event for event in reversed(world.events) if isinstance(event, JobFinished))
    assert ended.result.failure == AttemptFailure(kind="cuda_error")


def test_rules_are_those_of_the_queue_and_the_configuration_of_now() -> None:
    world = world_of(rules="")
    world.run(spec(), spec(queue="other"))
    world.do(Reconfigure("root", make_config("a", (Queue(name="normal", retry="gpu_busy:1"), Queue(name="other")))))
    world.settle()
    assert fails(world, 1, 1, failure=BUSY) == "PEND"
    assert fails(world, 1, 2, failure=BUSY) == "EXIT"
    starts_again(world)
    world.do(Reconfigure("root", make_config("a", (Queue(name="normal"), Queue(name="other")))))
    assert fails(world, 2, 1, failure=BUSY) == "EXIT"
    assert not any(has_code(note, "note.most_retries") for note in world.job(1).notes)


def test_exit_values_come_first_and_have_a_count_of_their_own() -> None:
    world = world_of(rules="gpu_busy:1", requeue_exit_values="7", max_requeue=1)
    world.run(spec())
    assert fails(world, 1, exit_code=7, failure=BUSY) == "PEND"
    starts_again(world)
    assert (world.job(1).code_requeues, world.job(1).retries) == (1, {})
    assert fails(world, 2, exit_code=7, failure=BUSY) == "PEND"
    assert (world.job(1).code_requeues, world.job(1).retries) == (1, {"gpu_busy": 1})
    starts_again(world)
    assert fails(world, 3, exit_code=7, failure=BUSY) == "EXIT"


def test_interactive_jobs_and_jobs_that_are_done_do_not_run_again() -> None:
    world = world_of()
    world.run(spec(interactive="I"), spec())
    assert fails(world, 1, 1, failure=BUSY) == "EXIT"
    assert fails(world, 1, 2, exit_code=0, failure=BUSY) == "DONE"


def test_of_a_job_on_several_hosts_only_a_failed_gpu_tells_which_it_was() -> None:
    world = world_of("ab", rules="gpu_busy:1@other_host")
    world.run(spec(slots=20))
    assert fails(world, 1, failure=BUSY) == "PEND"
    assert world.job(1).excluded_hosts == ()
