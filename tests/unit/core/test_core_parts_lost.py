"""Parts of jobs on several hosts that are lost, and masters that start again meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from core_parts_world import HOSTS, ends, holding, orders, running, three
from core_world import World, gpus

from gsched.base.coded_text import sentence
from gsched.core.command import AttemptEnded, AttemptStarted, HeldAttempt, HostHello
from gsched.core.instruction import (
    ResumeAttempt,
    StartJob,
    TerminateAttempt,
)
from gsched.model.event import (
    JobPartEnded,
    JobPostProcessed,
    JobStarted,
    StaleResultRecorded,
)
from gsched.model.jobs.job import AttemptResult

# -- parts that are lost ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"exit_code": None, "problem": "it was killed"}, "TERM_EXTERNAL_SIGNAL"),
        ({"term_reason": "TERM_MEMLIMIT"}, "TERM_MEMLIMIT"),
    ],
)
def test_a_part_that_ends_by_itself_ends_the_job(result: dict[str, Any], reason: str) -> None:
    world, job_id = running(rerunnable=True)
    since = len(world.instructions)
    world.part_ended(job_id, "b", **result)
    assert orders(world, since) == ends(job_id, "a", "c", given_up=False, reason=reason)
    assert tuple(map(sentence, world.job(job_id).notes))[-1].startswith("Run 1 lost its part on host b: ")
    world.restart()
    world.connect("a", held=[(job_id, 1)])
    assert TerminateAttempt("a", job_id, 1, reason) in world.orders(since)
    world.ended(job_id, exit_code=None, signal=2, leaves_parts=True)
    job = world.job(job_id)
    assert job.state == "EXIT" and job.result is not None and job.result.term_reason == reason
    world.connect("c", held=[(job_id, 1)])
    assert holding(world) == "c"
    world.part_ended(job_id, "c")
    assert world.kinds(job_id)[-1] == "JobPostProcessed"
    world.check_replay()


def lose(world: World, *hosts: str) -> None:
    for host in hosts:
        world.disconnect(host)
    world.wait(300.0)


def test_a_lost_host_makes_the_job_unknown_until_all_are_back() -> None:
    world, job_id = running()
    lose(world, "b", "c")
    assert world.state(job_id) == "UNKWN"
    world.connect("c", gpus(4, host="c"), held=[(job_id, 1)])
    assert world.state(job_id) == "UNKWN"
    world.connect("b", gpus(4, host="b"), held=[(job_id, 1)])
    assert world.state(job_id) == "RUN"
    world.ended(job_id)
    world.check_replay()


def test_a_job_ends_while_a_host_of_it_is_silent_and_what_is_there_stays_held() -> None:
    world, job_id = running()
    lose(world, "b")
    world.ended(job_id, leaves_parts=True)
    world.part_ended(job_id, "c")
    assert world.state(job_id) == "DONE" and holding(world) == "b"
    since = len(world.instructions)
    world.connect("b", gpus(4, host="b"), held=[(job_id, 1)])
    assert orders(world, since) == ends(job_id, "b") and holding(world) == "b"
    world.part_ended(job_id, "b")
    assert holding(world) == "" and world.kinds(job_id)[-1] == "JobPostProcessed"


def test_a_rerunnable_job_goes_on_elsewhere_when_a_host_of_it_is_lost() -> None:
    world, job_id = running(rerunnable=True)
    since = len(world.instructions)
    lose(world, "b")
    job = world.job(job_id)
    assert job.state == "PEND" and ends(job_id, "a", "c") <= orders(world, since)
    assert holding(world) == "abc"
    world.ended(job_id, exit_code=None, signal=15)
    world.part_ended(job_id, "c")
    assert holding(world) == "b"
    world.connect("b", gpus(4, host="b"))  # it was rebooted
    assert holding(world) == ""
    world.check_replay()


@pytest.mark.parametrize("rerunnable", [True, False])
def test_a_host_that_comes_back_without_its_part_ends_or_reruns_the_job(rerunnable: bool) -> None:
    world, job_id = running(rerunnable=rerunnable)
    world.disconnect("c")
    world.connect("c", gpus(4, host="c"), boot_id="another")
    if rerunnable:
        assert world.state(job_id) == "PEND" and "lost its part: the host restarted" in sentence(
            world.events[-1].reason
        )  # type: ignore[union-attr]
        return
    assert tuple(map(sentence, world.job(job_id).notes)) == (
        "Run 1 lost its part on host c: the host restarted while the job ran",
    )
    world.ended(job_id, exit_code=None, signal=2)
    assert world.state(job_id) == "EXIT" and holding(world) == ""
    world.check_replay()


@pytest.mark.parametrize("rerunnable", [True, False])
@pytest.mark.parametrize("host", ["a", "c"])
def test_a_host_that_was_restarted_and_knows_what_it_lost_ends_or_reruns_the_job(rerunnable: bool, host: str) -> None:
    world, job_id = running(rerunnable=rerunnable)
    if not rerunnable:
        lose(world, "b")
    world.disconnect(host)
    result = AttemptResult(ended_at=world.now, problem="the host restarted while the job ran", host_down=True)
    ended = (AttemptEnded(job_id, 1, host, result, is_part=host != "a"),)
    since = len(world.events)
    world.connect(host, gpus(4, host=host), boot_id="another", ended=ended)
    job = world.job(job_id)
    if rerunnable:
        assert job.state == "PEND" and not job.failed_starts
    elif host == "a":
        assert job.state == "EXIT"
    else:
        assert job.state == "ZOMBI" and tuple(map(sentence, job.notes))[-1].startswith(
            "Run 1 lost its part on host c: the host restarted"
        )
        world.ended(job_id, exit_code=None, signal=2, leaves_parts=True)
        assert world.state(job_id) == "EXIT" and holding(world) == "b"
    assert not [event for event in world.events[since:] if isinstance(event, StaleResultRecorded)]
    world.check_replay()


def test_killing_by_force_leaves_what_may_still_run_held() -> None:
    world, job_id = running()
    lose(world, "b")
    since = len(world.instructions)
    assert world.control("signal", job_id, signal=9) == [""]
    job = world.job(job_id)
    assert job.state == "EXIT" and job.result is not None
    assert sentence(job.result.problem).startswith("removed while b did not")
    assert ends(job_id, *HOSTS) <= orders(world, since) and holding(world) == "abc"
    world.ended(job_id, exit_code=None, signal=9, leaves_parts=True)
    world.part_ended(job_id, "c")
    world.connect("b", gpus(4, host="b"))
    assert holding(world) == "" and world.kinds(job_id)[-1] == "JobPostProcessed"


# -- restarts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opened", [(), ("b",), ("b", "c")])
def test_a_restarted_master_goes_on_with_the_start(opened: tuple[str, ...]) -> None:
    world, job_id = three()
    for host in opened:
        world.part_started(job_id, host)
    world.restart()
    since = len(world.instructions)
    for host in HOSTS:
        world.connect(host, gpus(4, host=host), held=[(job_id, 1)] if host in opened else [])
    told = [each for each in world.orders(since) if isinstance(each, StartJob)]
    if len(opened) == 2:
        assert told == [StartJob("a", job_id, 1)]
        return
    assert told == [StartJob(host, job_id, 1) for host in "bc" if host not in opened]
    for host in "bc":
        world.part_started(job_id, host)
    assert world.orders()[-1] == StartJob("a", job_id, 1)
    world.check_replay()


def test_parts_that_were_opened_while_no_master_was_there_let_the_job_start() -> None:
    world, job_id = three()
    world.restart()
    for host in "bc":
        world.session += 1
        part = world.part(job_id, host)
        started = (AttemptStarted(job_id, 1, host, 1, world.now),)
        world.do(HostHello(host, world.session, "boot1", "1", (HeldAttempt(job_id, 1, part),), started))
    world.connect("a")
    assert StartJob("a", job_id, 1) in world.orders()


def test_an_agent_that_has_lost_a_part_before_the_start_puts_the_job_back() -> None:
    world, job_id = three()
    world.part_started(job_id, "b")
    world.disconnect("b")
    world.connect("b", gpus(4, host="b"))
    assert world.state(job_id) == "PEND" and holding(world) == "c"


def test_a_master_that_missed_the_end_hears_it_from_the_hosts() -> None:
    world, job_id = running()
    world.ended(job_id, leaves_parts=True)
    world.restart()
    assert world.engine.state.leaving.pairs() == {("b", job_id), ("c", job_id)}
    since = len(world.instructions)
    world.connect("b", gpus(4, host="b"), held=[(job_id, 1)])
    world.connect("c", gpus(4, host="c"))
    assert orders(world, since) == ends(job_id, "b") and holding(world) == "b"
    assert [event.host for event in world.events if isinstance(event, JobPartEnded)] == ["c"]
    world.part_ended(job_id, "b")
    assert isinstance(world.events[-1], JobPostProcessed)
    world.check_replay()


def test_jobs_of_before_there_were_parts_go_on_without() -> None:
    world, job_id = three()
    world.events.append(JobStarted(at=world.now, job_id=job_id, attempt=1, pid=5))  # as an older master recorded it
    world.restart()
    since = len(world.instructions)
    for host in HOSTS:
        world.connect(host, gpus(4, host=host), held=[(job_id, 1)] if host == "a" else [])
    assert world.state(job_id) == "RUN" and orders(world, since) == {ResumeAttempt("a", job_id, 1)}
    lose(world, "b")
    assert world.state(job_id) == "RUN"
    world.ended(job_id, leaves_parts=True)
    assert world.state(job_id) == "DONE" and holding(world) == ""
    assert world.kinds(job_id)[-1] == "JobFinished" and world.job(job_id).post_processed
    world.check_replay()
