"""A compute mode that somebody changes under a job, in that job's history."""

from __future__ import annotations

import msgspec
from core_world import EXCLUSIVE, SHARED, World, gpus, make_config, spec

from gsched.base.coded_text import sentence
from gsched.model.event import JobNoted
from gsched.model.hosts.host import ComputeMode, GpuReport


def changed(mode: ComputeMode) -> GpuReport:
    """Two GPUs; the first is no longer in the mode in which its jobs got it."""
    report = gpus(2, EXCLUSIVE)
    first = msgspec.structs.replace(report.gpus[0], mode=mode, mode_given=EXCLUSIVE)
    return msgspec.structs.replace(report, gpus=(first, *report.gpus[1:]))


def notes(world: World) -> list[str]:
    return [
        sentence(event.text)
        for event in world.events
        if isinstance(event, JobNoted) and "compute mode" in sentence(event.text)
    ]


def test_each_change_is_told_once_to_those_who_have_the_gpu() -> None:
    world = World(make_config())
    world.report(gpus=gpus(2, EXCLUSIVE))
    first, second = world.run(*[spec(gpu_req="num=1:mode=exclusive_process")] * 2)
    assert [world.state(job) for job in (first, second)] == ["RUN", "RUN"]
    for mode in (SHARED, SHARED, ComputeMode.PROHIBITED):
        world.report(gpus=changed(mode))
    said = (
        "Somebody has changed the compute mode of GPU 0 (GPU-a0) on a from exclusive_process to {} while run 1 uses it"
    )
    assert (
        notes(world)
        == [said.format("default"), said.format("prohibited")]
        == list(map(sentence, world.job(first).notes))
    )
    assert tuple(map(sentence, world.job(second).notes)) == ()
    assert world.state(first) == "RUN"


def test_nothing_is_told_where_nobody_has_it() -> None:
    world = World(make_config())
    world.report(gpus=changed(SHARED))
    assert notes(world) == []
