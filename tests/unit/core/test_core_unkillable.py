"""Processes that SIGKILL does not end: what a job's history says, and what stays held."""

from __future__ import annotations

import pytest
from core_world import SHARED, World, gpus, make_config, spec

from gsched.base.coded_text import sentence
from gsched.core.command import AttemptUnkillable
from gsched.model.event import JobNoted

SAID = (
    "UNKILLABLE pid 40 (train) of run 1 of job 1 of user {} on a: SIGKILL does not end it, "
    "so the job keeps its slots and GPUs there until it is gone"
)


def world_with_job() -> tuple[World, int]:
    world = World(make_config())
    world.report(gpus=gpus(2, SHARED))
    (job_id,) = world.run(spec(gpu_req="num=1:mode=shared:j_exclusive=yes"))
    assert world.state(job_id) == "RUN"
    return world, job_id


def said(world: World) -> list[str]:
    return [
        sentence(event.text)
        for event in world.events
        if isinstance(event, JobNoted) and "UNKILLABLE" in sentence(event.text)
    ]


def test_each_process_is_named_once_and_only_its_job_keeps_what_it_holds() -> None:
    """pains 21."""
    world, job_id = world_with_job()
    for processes in (((40, "train"),), ((40, "train"), (41, "load"))):
        world.do(AttemptUnkillable(job_id, 1, "a", processes))
    first, second = said(world)
    assert first == SAID.format(world.job(job_id).spec.user) and second.startswith("UNKILLABLE pid 41 (load)")
    assert list(map(sentence, world.job(job_id).notes)) == [first, second]
    (other,) = world.run(spec(gpu_req="num=1:mode=shared:j_exclusive=yes"))
    (waits,) = world.submit(spec(gpu_req="num=1:mode=shared:j_exclusive=yes"))
    world.cycle()
    assert [world.state(each) for each in (job_id, other, waits)] == ["RUN", "RUN", "PEND"]


@pytest.mark.parametrize("attempt", [(1, 2), (99, 1)])
def test_nothing_of_attempts_that_are_over(attempt: tuple[int, int]) -> None:
    world, _ = world_with_job()
    world.do(AttemptUnkillable(*attempt, "a", ((40, "train"),)))
    assert said(world) == []


def test_nothing_of_a_job_that_has_ended() -> None:
    world, job_id = world_with_job()
    world.ended(job_id)
    world.do(AttemptUnkillable(job_id, 1, "a", ((40, "train"),)))
    assert said(world) == []


def test_an_element_of_an_array_is_named_as_people_know_it() -> None:
    world = World(make_config())
    world.report()
    ids = world.run(spec(name="sweep", indices="1-2"))
    element = next(job_id for job_id in world.engine.state.jobs if job_id not in ids)
    world.do(AttemptUnkillable(element, 1, "a", ((40, "train"),)))
    assert " of job 1[" in said(world)[0]
