"""gresize release: the words of one, and what was used on hosts that were given back."""

from __future__ import annotations

import pytest
from core_resizing_world import BAD_HOST, HOSTS, a_world, begun, slots
from core_world import World, job_command, spec

from gsched.base.errors import BadRequest
from gsched.core.command import AttemptEnded
from gsched.model.event import JobRequeued
from gsched.model.hosts.host import HostConfig
from gsched.model.jobs.job import AttemptResult, Usage


def test_many_words_of_a_release_are_few_or_refused() -> None:
    world = a_world(resizable="y")
    (job,) = begun(world, spec(slots=4, hosts=("a",)))
    with pytest.raises(BadRequest, match="1001 words for hosts, a release may have 1000") as refused:
        world.order("release", job, hosts=("all",) * 1001)
    assert "\n" not in str(refused.value)
    assert world.order("release", job, hosts=("1*a", "1*a", *("all",) * 998)) == [""]
    assert slots(world, job) == {"a": 1}


def test_what_a_release_names_counts_as_steps() -> None:
    world = a_world(resizable="y")
    jobs = begun(world, *(spec(slots=1) for _ in range(8)))
    hosts = tuple(f"h{number}" for number in range(500))
    decision = world.take(world.engine.handle(job_command("release", "ann", *jobs, hosts=hosts), world.now, 1000))
    turns = 1
    while decision.rest is not None:
        decision, turns = world.take(world.engine.go_on(decision.rest, world.now, 1000)), turns + 1
    assert turns >= 3, "two jobs are a turn's work"
    assert {each.error for each in decision.reply} == {f"h0: {BAD_HOST}"}


def used(world: World, job: int) -> float:
    result = world.job(job).result
    assert result is not None
    return result.usage.cpu_s


def released_half(world: World) -> int:
    """A job on both hosts that has given the second one back."""
    (job,) = begun(world, spec(slots=8, rerunnable=True))
    world.wait(100)
    assert world.order("release", job, hosts=("all",)) == [""]
    return job


@pytest.mark.parametrize("comes_back", [False, True])
def test_what_was_used_on_a_host_that_was_released_counts(comes_back: bool) -> None:
    world = a_world(resizable="y")
    job = released_half(world)
    if comes_back:  # the master, and then the agent that had told nothing yet
        world.restart()
        world.connect("a", held=[(job, 1)])
        world.connect("b", held=[(job, 1)])
    end = AttemptEnded(job, 1, "b", AttemptResult(usage=Usage(cpu_s=400.0)), is_part=True, gpu_curves=b"course")
    for _ in range(2):  # it is told again until the agent hears that it may forget it
        world.do(end)
    kinds = world.kinds(job)
    assert (kinds.count("JobPartEnded"), kinds.count("JobGpuCurves")) == (1, 1)
    world.ended(job, usage=Usage(cpu_s=50.0))
    assert used(world, job) == 450.0
    world.check_replay()


def test_what_is_used_on_a_released_host_that_is_not_free_yet_is_as_it_told_last() -> None:
    world = a_world(resizable="y")
    job = released_half(world)
    world.report("b", usage={(job, 1): Usage(cpu_s=300.0)})
    world.ended(job, usage=Usage(cpu_s=50.0))
    assert used(world, job) == 350.0
    world.check_replay()


def test_what_was_released_before_another_run_is_of_the_run_before() -> None:
    world = a_world(resizable="y")
    job = released_half(world)
    world.part_ended(job, "b", usage=Usage(cpu_s=400.0))
    assert world.order("requeue", job) == [""]
    world.ended(job, usage=Usage(cpu_s=50.0))
    (again,) = [event for event in world.events if isinstance(event, JobRequeued)]
    assert again.result is not None and again.result.usage.cpu_s == 450.0
    assert world.job(job).released_parts == () and world.job(job).part_usage == {}


def test_a_host_where_the_job_never_was_says_nothing_of_it() -> None:
    world = a_world((*HOSTS, HostConfig(name="c", max_slots=4)), resizable="y")
    (job,) = begun(world, spec(slots=8, hosts=("a", "b")))
    assert world.order("release", job, hosts=("all",)) == [""]
    world.part_ended(job, "c", usage=Usage(cpu_s=9e9))
    assert "JobPartEnded" not in world.kinds(job)
