"""An attempt from its order to its end: the ordinary life, starts that fail, results that come late or twice."""

from __future__ import annotations

import msgspec
import pytest
from core_world import START, World, gpu_spec, make_config, spec, total

from gsched.base.coded_text import sentence
from gsched.core.attempts.attempt_reports import HOW_TO_ASK
from gsched.core.command import AttemptStarted
from gsched.core.instruction import (
    ForgetAttempts,
    StartJob,
)
from gsched.model.config import GpuUnrequested, Params
from gsched.model.event import (
    JobMessagePosted,
    JobNoted,
    JobRequeued,
    JobStarted,
    StaleResultRecorded,
    SubmissionAccepted,
)
from gsched.model.jobs.job import Usage

# -- the ordinary life ------------------------------------------------------------------------------------------------


def test_the_life_of_a_gpu_job() -> None:
    world = World()
    (job_id,) = world.run(gpu_spec(2))
    assert world.orders() == [StartJob("a", 1, 1)]
    assert total(world) == (2.0, 2.0)
    posted = [event for event in world.events if isinstance(event, JobMessagePosted)]
    assert [(event.box, event.user, event.text) for event in posted] == [(0, "ann", "a:gpus=0,1;")]
    world.now += 100
    world.ended(job_id, run_s=100.0)
    assert world.kinds(job_id) == [
        "JobSubmitted", "JobDispatched", "JobStarted", "JobMessagePosted", "JobFinished",
    ]  # fmt: skip
    assert world.job(job_id).post_processed
    assert (world.state(job_id), world.job(job_id).finished_at) == ("DONE", START + 100)
    assert world.instructions[-1] == ForgetAttempts("a", ((1, 1),))
    assert total(world) == (4.0, 0.0)
    world.check_replay()


def test_an_end_that_is_told_twice_is_one_event() -> None:
    world = World()
    (job_id,) = world.run()
    world.ended(job_id)
    before = len(world.events)
    world.ended(job_id)
    assert len(world.events) == before
    assert world.instructions[-1] == ForgetAttempts("a", ((1, 1),))  # the agent has not heard it yet


def test_a_start_that_is_told_twice_is_one_event() -> None:
    world = World()
    (job_id,) = world.run()
    world.started(job_id, pid=999)
    assert sum(isinstance(event, JobStarted) for event in world.events) == 1
    assert world.job(job_id).pid == 101


@pytest.mark.parametrize(("told", "recorded"), [(-50.0, 0.0), (5.0, 5.0), (9e9, 10.0)])
def test_times_of_agents_with_wrong_clocks_are_kept_within_what_is_possible(told: float, recorded: float) -> None:
    world = World()
    (job_id,) = world.submit()
    world.settle()
    world.now += 10
    world.started(job_id, at=START + told)
    world.ended(job_id, ended_at=START + told)
    job = world.job(job_id)
    assert (job.started_at, job.finished_at) == (START + recorded, START + recorded)


def test_news_from_the_wrong_host_or_of_another_attempt_change_nothing() -> None:
    world = World(make_config(("a", "b")))
    (job_id,) = world.submit(spec(hosts=("a",)))
    world.settle()
    for host, attempt in (("b", 1), ("a", 2)):
        world.do(AttemptStarted(job_id, attempt, host, 5, world.now))
        world.ended(job_id, attempt, host)
        assert world.state(job_id) == "RUN" and world.job(job_id).started_at is None
    world.do(AttemptStarted(77, 1, "a", 5, world.now))


def test_a_job_without_gpus_is_told_once_how_to_get_one() -> None:
    def notes(world: World) -> list[str]:
        return [sentence(event.text) for event in world.events if isinstance(event, JobNoted)]

    world = World()
    world.run(spec(), gpu_spec())
    assert notes(world) == [sentence(HOW_TO_ASK)]
    assert not tuple(map(sentence, world.job(1).notes))  # history, not a warning
    none = World(devices=0)
    none.run(spec())
    allowed = World(make_config(params=Params(gpu_unrequested=GpuUnrequested.ALLOW)))
    allowed.run(spec())
    assert notes(none) == [] == notes(allowed)


def test_usage_is_kept_while_the_attempt_runs() -> None:
    world = World()
    (job_id,) = world.run()
    world.engine.state.take_touched()
    world.report(usage={(job_id, 1): Usage(cpu_s=5.0)})
    assert world.engine.observations.of("a").usage[job_id, 1].cpu_s == 5.0
    assert world.engine.state.take_touched() == ({job_id}, set())
    world.ended(job_id)
    assert world.engine.observations.of("a").usage == {}


# -- starts that fail -------------------------------------------------------------------------------------------------


def test_a_start_that_fails_is_tried_again_later_and_later_and_elsewhere() -> None:
    world = World(make_config(("a", "b")))
    (job_id,) = world.submit(gpu_spec())
    waits = []
    for attempt in range(1, 10):
        world.settle()
        host = world.job(job_id).allocation.first_host  # type: ignore[union-attr]
        assert world.job(job_id).attempt == attempt
        world.not_started(job_id, attempt, host)
        requeued = world.events[-1]
        assert isinstance(requeued, JobRequeued) and sentence(requeued.reason) == "fork failed"
        waits.append(requeued.not_before - world.now)
        world.settle()
        assert world.state(job_id) == "PEND"
        assert world.reasons(job_id)[0].endswith(f"the last one failed on {host}: fork failed)")
        assert world.engine.next_deadline(world.now) <= requeued.not_before
        world.wait(waits[-1])
        world.settle()
        assert world.job(job_id).allocation.first_host != host  # type: ignore[union-attr]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    world.check_replay()


def test_waiting_for_another_attempt_keeps_nobody_busy() -> None:
    world = World()
    (job_id,) = world.run(gpu_spec(4))
    blocked = world.submit(gpu_spec(4))[0]
    world.settle()
    world.ended(job_id)
    world.settle()
    world.not_started(blocked)
    world.hosts("close", "a")
    world.settle()
    world.wait(1.0)
    world.settle()
    assert world.state(blocked) == "PEND"
    assert world.engine.next_deadline(world.now) > world.now + 5  # the wait is over: nothing is due at once
    assert world.reasons(blocked) == ("Closed by LSF administrator: 1 host",)


def test_a_failed_start_of_a_suspended_job_leaves_it_suspended() -> None:
    world = World()
    (job_id,) = world.submit()
    world.settle()
    assert world.control("stop", job_id) == [""]
    world.not_started(job_id)
    assert world.state(job_id) == "PSUSP"
    world.wait(100)
    world.settle()
    assert world.state(job_id) == "PSUSP"
    assert world.control("resume", job_id) == [""]
    world.settle()
    assert (world.state(job_id), world.job(job_id).attempt) == ("RUN", 2)
    world.check_replay()


def test_a_killed_job_that_could_not_be_started_is_over() -> None:
    world = World()
    (job_id,) = world.submit()
    world.settle()
    world.control("kill", job_id)
    world.not_started(job_id)
    job = world.job(job_id)
    assert job.state == "EXIT" and job.result is not None and job.result.term_reason == "TERM_OWNER"


def test_a_failed_start_that_is_told_again_is_not_news() -> None:
    world = World()
    (job_id,) = world.submit()
    world.settle()
    world.not_started(job_id)
    world.wait(0.5)
    before = len(world.events)
    world.not_started(job_id)
    world.wait(2)
    world.settle()
    world.not_started(job_id)
    assert [type(event).__name__ for event in world.events[before:]] == ["JobDispatched"]
    assert (world.state(job_id), world.job(job_id).attempt) == ("RUN", 2)


# -- late results -----------------------------------------------------------------------------------------------------


def test_the_end_of_a_job_that_has_never_been_is_not_recorded() -> None:
    """What stands before a job's first event would be taken for the rest of one that has gone from the store."""
    world = World()
    (first,) = world.run()
    stored = msgspec.Raw(msgspec.json.encode(spec()))
    accepted = SubmissionAccepted(at=world.now, first_id=first + 1, user="ann", specs=(stored,) * 2, jobs=2, slots=2)
    world.engine.state.apply(accepted)
    for number in (first + 1, first + 2, first + 3, 4711):
        world.ended(number)
        assert world.instructions[-1] == ForgetAttempts("a", ((number, 1),))
    assert not [event for event in world.events if isinstance(event, StaleResultRecorded)]


def test_an_old_attempts_real_result_is_recorded_once_and_dropped() -> None:
    world = World()
    (job_id,) = world.submit()
    world.settle()
    world.not_started(job_id)
    world.wait(2)
    world.settle()
    for _ in range(3):
        world.ended(job_id, attempt=1, exit_code=5)
    stale = [event for event in world.events if isinstance(event, StaleResultRecorded)]
    assert [(event.attempt, event.result.exit_code) for event in stale] == [(1, 5)]
    assert (world.state(job_id), world.job(job_id).attempt) == ("RUN", 2)
    world.restart()
    world.connect(held=[(job_id, 2)])
    world.ended(job_id, attempt=1, exit_code=5)  # remembered with the job
    assert sum(isinstance(event, StaleResultRecorded) for event in world.events) == 1
    world.check_replay()


def test_a_result_that_comes_after_all_is_recorded_beside_the_guess() -> None:
    world = World()
    (job_id,) = world.run()
    world.disconnect()
    world.connect()  # without the attempt
    assert world.state(job_id) == "EXIT"
    for _ in range(2):
        world.ended(job_id, exit_code=0)
    assert [event.result.exit_code for event in world.events if isinstance(event, StaleResultRecorded)] == [0]
    assert world.state(job_id) == "EXIT"


def test_the_result_of_a_job_nobody_remembers_is_recorded_once() -> None:
    world = World()
    world.engine.state.skip_numbers(100)
    for _ in range(3):
        world.ended(99, attempt=4)
    assert [event.job_id for event in world.events if isinstance(event, StaleResultRecorded)] == [99]
