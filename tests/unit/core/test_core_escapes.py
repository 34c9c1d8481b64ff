"""Processes of jobs on GPUs that are not their own: what a job's history says of them."""

from __future__ import annotations

import msgspec
import pytest
from core_world import SHARED, World, gpus, make_config, spec

from gsched.base.coded_text import sentence
from gsched.model.event import JobNoted
from gsched.model.hosts.host import GpuProcess, GpuReport


def showing(*processes: GpuProcess, gpu: int = 1) -> GpuReport:
    """Three GPUs; one of them has these processes."""
    report = gpus(3, SHARED)
    seen = list(report.gpus)
    seen[gpu] = msgspec.structs.replace(seen[gpu], process_count=len(processes), processes=processes)
    return msgspec.structs.replace(report, gpus=tuple(seen))


def world_with_job() -> tuple[World, int]:
    world = World(make_config())
    world.report(gpus=gpus(3, SHARED))
    (job_id,) = world.run(spec(gpu_req="num=1:mode=shared"))
    assert world.state(job_id) == "RUN"
    return world, job_id


def said(world: World) -> list[str]:
    return [sentence(event.text) for event in world.events if isinstance(event, JobNoted)]


def test_said_once_for_each_gpu() -> None:
    """pains 3."""
    world, job_id = world_with_job()
    first, second = (GpuProcess(pid=pid, user="ann", job=f"{job_id}.1", escaped=True) for pid in (40, 41))
    for report in (showing(first), showing(first, second), showing(), showing(second), showing(second, gpu=2)):
        world.report(gpus=report)
    assert said(world) == [
        "ESCAPED: of run 1 process 40 of user ann uses GPU 1 (GPU-a1) on a, which is not its own",
        "ESCAPED: of run 1 process 41 of user ann uses GPU 2 (GPU-a2) on a, which is not its own",
    ]
    assert list(map(sentence, world.job(job_id).notes)) == said(world)
    assert world.state(job_id) == "RUN"


@pytest.mark.parametrize(
    "process",
    [
        GpuProcess(pid=40, job="{}.1"),
        GpuProcess(pid=40, job="{}.2", escaped=True),
        GpuProcess(pid=40, job="99.1", escaped=True),
        GpuProcess(pid=40),
    ],
    ids=["on its own GPU", "another run", "another job", "nobody's"],
)
def test_nothing_of_others(process: GpuProcess) -> None:
    world, job_id = world_with_job()
    world.report(gpus=showing(msgspec.structs.replace(process, job=process.job.format(job_id))))
    assert said(world) == []
