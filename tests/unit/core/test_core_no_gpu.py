"""-gpu num=0: a job that is to have no GPU, whatever others get."""

from __future__ import annotations

import pytest
from core_world import SHARED, World, gpus, make_config, spec

from gsched.base.coded_text import has_code
from gsched.model.config import GpuUnrequested, Params
from gsched.model.event import JobNoted
from gsched.model.queues.queue import Queue


def world_of(
    queue: str = "", cluster: str = "", unrequested: GpuUnrequested = GpuUnrequested.HIDE, *, merges: bool = False
) -> World:
    params = Params(gpu_req=cluster, gpu_unrequested=unrequested, gpu_req_merge=merges)
    world = World(make_config(queues=(Queue(name="normal", gpu_req=queue),), params=params))
    world.report(gpus=gpus(4, SHARED))
    return world


def held(world: World, **changes: str) -> int:
    (job_id,) = world.run(spec(**changes))
    assert world.state(job_id) == "RUN"
    return len(world.held(job_id))


@pytest.mark.parametrize("merges", [False, True])
def test_what_the_queue_or_the_cluster_gives_is_not_taken(merges: bool) -> None:
    for world in (world_of("num=1:mode=shared", merges=merges), world_of("num=2", "num=1", merges=merges)):
        assert held(world, gpu_req="num=0") == 0
        assert held(world) > 0


def test_nor_is_one_that_is_given_unasked() -> None:
    assert held(world_of(unrequested=GpuUnrequested.AUTO), gpu_req="num=0") == 0
    assert held(world_of(unrequested=GpuUnrequested.AUTO)) == 1


def test_it_is_not_told_how_to_ask_for_one() -> None:
    told = []
    for asked in ("num=0", ""):
        world = world_of()
        held(world, gpu_req=asked)
        told.append(
            any(isinstance(event, JobNoted) and has_code(event.text, "note.no_gpu_asked") for event in world.events)
        )
    assert told == [False, True]
