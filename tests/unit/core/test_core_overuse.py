"""Pains 15. GMEM_ACTION: jobs that use more of a GPU's memory than their gmem=."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from core_world import SHARED, World, gpus, make_config, spec

from gsched.base.coded_text import sentence
from gsched.core.attempts.attempt_notes import MOST_NOTES
from gsched.core.command import AttemptUnkillable
from gsched.core.instruction import TerminateAttempt
from gsched.model.config import GmemAction, Params
from gsched.model.event import JobNoted
from gsched.model.hosts.host import GpuReport


def accusing(name: str) -> GpuReport:
    """Two GPUs; on the first one this attempt is beyond its gmem=."""
    report = gpus(2, SHARED, memory_mib=80_000)
    first = msgspec.structs.replace(report.gpus[0], over_gmem=(name,))
    return msgspec.structs.replace(report, gpus=(first, *report.gpus[1:]))


def world_with_job(action: GmemAction, **changes: Any) -> tuple[World, int]:
    world = World(make_config(params=Params(gmem_action=action)))
    world.report(gpus=gpus(2, SHARED, memory_mib=80_000))
    (job_id,) = world.run(spec(**({"gpu_req": "num=1:mode=shared:gmem=1000M"} | changes)))
    assert world.state(job_id) == "RUN"
    return world, job_id


def notes(world: World) -> list[str]:
    return [
        sentence(event.text) for event in world.events if isinstance(event, JobNoted) and "gmem" in sentence(event.text)
    ]


def test_it_is_told_once() -> None:
    world, job_id = world_with_job(GmemAction.NOTIFY)
    for _ in range(2):
        world.report(gpus=accusing(f"{job_id}.1"))
    said = ["Run 1 uses more memory of GPU 0 (GPU-a0) on a than its gmem=1000M"]
    assert notes(world) == said and list(map(sentence, world.job(job_id).notes)) == said
    assert world.state(job_id) == "RUN" and not world.job(job_id).kill_by


@pytest.mark.parametrize("name", ["{}.2", "99.1"])
def test_nothing_of_other_attempts(name: str) -> None:
    world, job_id = world_with_job(GmemAction.KILL)
    world.report(gpus=accusing(name.format(job_id)))
    assert notes(world) == [] and not world.job(job_id).kill_by


def test_nothing_where_it_is_turned_off() -> None:
    world, job_id = world_with_job(GmemAction.NONE)
    world.report(gpus=accusing(f"{job_id}.1"))
    assert notes(world) == []


def test_it_is_ended_where_that_is_configured() -> None:
    world, job_id = world_with_job(GmemAction.KILL)
    world.report(gpus=accusing(f"{job_id}.1"))
    assert TerminateAttempt("a", job_id, 1, "TERM_MEMLIMIT") in world.instructions
    world.ended(job_id, exit_code=None, signal=9, term_reason="TERM_MEMLIMIT")
    result = world.job(job_id).result
    assert world.state(job_id) == "EXIT" and result is not None and result.term_reason == "TERM_MEMLIMIT"
    assert len(notes(world)) == 1


def ends(world: World, job_id: int) -> int:
    return world.instructions.count(TerminateAttempt("a", job_id, 1, "TERM_MEMLIMIT"))


def test_one_that_was_noted_before_is_ended_after_a_reconfiguration_to_kill() -> None:
    world, job_id = world_with_job(GmemAction.NOTIFY)
    world.report(gpus=accusing(f"{job_id}.1"))
    world.reconfigure(world.with_params(gmem_action=GmemAction.KILL))
    assert not ends(world, job_id)
    for _ in range(2):
        world.report(gpus=accusing(f"{job_id}.1"))
    assert ends(world, job_id) == 1 and len(notes(world)) == 1


def test_one_of_which_no_more_can_be_noted_is_ended() -> None:
    world, job_id = world_with_job(GmemAction.KILL)
    for number in range(MOST_NOTES):
        world.do(AttemptUnkillable(job_id, 1, "a", ((number + 1, "init"),)))
    assert len(world.job(job_id).notes) == MOST_NOTES
    world.report(gpus=accusing(f"{job_id}.1"))
    assert notes(world) == [] and ends(world, job_id) == 1
