"""An MPS control daemon that ends below a job, in that job's history."""

from __future__ import annotations

import msgspec
import pytest
from core_world import SHARED, World, gpus, make_config, spec

from gsched.base.coded_text import sentence
from gsched.model.event import JobNoted
from gsched.model.hosts.host import GpuReport


def losing(name: str) -> GpuReport:
    """Two GPUs; on the first one this attempt has lost its daemon."""
    report = gpus(2, SHARED)
    return msgspec.structs.replace(
        report, gpus=(msgspec.structs.replace(report.gpus[0], mps_lost=(name,)), *report.gpus[1:])
    )


def notes(world: World) -> list[str]:
    return [
        sentence(event.text) for event in world.events if isinstance(event, JobNoted) and "MPS" in sentence(event.text)
    ]


def test_it_is_told_once_for_each_run() -> None:
    world = World(make_config())
    world.report(gpus=gpus(2, SHARED))
    (job,) = world.run(spec(gpu_req="num=1:mps=yes"))
    for _ in range(2):
        world.report(gpus=losing(f"{job}.1"))
    said = "Run 1: the MPS control daemon on GPU 0 (GPU-a0) of a has ended by itself; programs that used it have failed"
    assert notes(world) == [said] == list(map(sentence, world.job(job).notes))
    assert world.state(job) == "RUN"


@pytest.mark.parametrize("name", ["{}.2", "99.1"])
def test_nothing_of_other_attempts(name: str) -> None:
    world = World(make_config())
    world.report(gpus=gpus(2, SHARED))
    (job,) = world.run(spec(gpu_req="num=1:mps=yes"))
    world.report(gpus=losing(name.format(job)))
    assert notes(world) == []
