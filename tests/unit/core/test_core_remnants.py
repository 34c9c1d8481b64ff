"""Strangers on GPUs and what ended attempts leave there: who is told, and when a refused job tries again."""

from __future__ import annotations

from typing import Any

import msgspec
from core_world import EXCLUSIVE, World, gpu_spec, gpus, make_config

from gsched.base.coded_text import sentence
from gsched.core.command import AttemptEnded
from gsched.core.dispatch.host_queue_views import host_view
from gsched.model.event import JobNoted, JobRequeued
from gsched.model.hosts.host import GpuProcess, GpuReport
from gsched.model.jobs.job import AttemptResult

ANN = GpuProcess(pid=4711, user="ann", used_mib=700)


def report(count: int = 2, host: str = "a", **of_first: Any) -> GpuReport:
    """GPUs in exclusive mode; on the first one something is found."""
    found = gpus(count, EXCLUSIVE, host)
    first = msgspec.structs.replace(found.gpus[0], **of_first)
    return msgspec.structs.replace(found, gpus=(first, *found.gpus[1:]))


def with_ann(**more: Any) -> GpuReport:
    return report(processes=(ANN,), process_count=1, foreign_pids=(4711,), **more)


def notes(world: World) -> list[str]:
    return [sentence(event.text) for event in world.events if isinstance(event, JobNoted)]


def dispatched(world: World) -> int:
    """A job on GPU 0 that its agent has not started yet."""
    (job_id,) = world.submit(gpu_spec())
    world.settle()
    assert world.held(job_id) == [0]
    return job_id


def refuse(world: World, job_id: int, host: str = "a") -> JobRequeued:
    """Its agent has not started it, because of the GPUs."""
    result = AttemptResult(started=False, ended_at=world.now, problem="GPU 0 must not be used", gpus_unfit=True)
    world.do(AttemptEnded(host=host, job_id=job_id, attempt=world.job(job_id).attempt, result=result))
    return next(event for event in reversed(world.events) if isinstance(event, JobRequeued))


def test_a_refused_job_is_placed_elsewhere_at_once() -> None:
    """pains 4."""
    world = World()
    world.report(gpus=report())
    job_id = dispatched(world)
    world.report(gpus=with_ann(problem="foreign(ann,4711,700)"))
    event = refuse(world, job_id)
    assert (event.not_before, event.avoid_host, sentence(event.reason)) == (0.0, "", "GPU 0 must not be used")
    world.cycle()
    assert (world.state(job_id), world.job(job_id).attempt, world.held(job_id)) == ("RUN", 2, [1])
    world.check_replay()


def test_without_another_gpu_it_waits_until_the_stranger_goes() -> None:
    world = World()
    world.report(gpus=report(1))
    job_id = dispatched(world)
    world.report(gpus=report(1, problem="foreign(ann,4711,700)"))
    refuse(world, job_id)
    for _ in range(3):
        world.cycle()
    assert (world.state(job_id), world.job(job_id).attempt) == ("PEND", 1)
    assert not any("attempt" in reason for reason in world.reasons(job_id))
    world.report(gpus=report(1))
    assert world.engine.cycles.needs_cycle
    world.cycle()
    assert world.state(job_id) == "RUN"


def test_a_gpu_that_is_not_closed_is_not_tried_again_and_again() -> None:
    world = World()
    world.report(gpus=report(1))
    job_id = dispatched(world)
    assert refuse(world, job_id).not_before > world.now


def test_a_stranger_beside_a_job_is_told_once_and_nothing_else_happens() -> None:
    world = World()
    world.report(gpus=report())
    job_id = dispatched(world)
    world.report(gpus=with_ann(problem="foreign(ann,4711,700)"))
    assert notes(world) == [], "it has not started: its agent looks itself"
    world.started(job_id)
    for used in (700, 900):
        more = msgspec.structs.replace(ANN, used_mib=used)
        world.report(gpus=report(processes=(more,), process_count=1, foreign_pids=(4711,), problem=f"foreign({used})"))
    said = "A foreign process is on GPU 0 (GPU-a0) of a, which run 1 holds: process 4711 of ann (700 MiB)"
    assert notes(world) == [said]
    assert world.state(job_id) == "RUN" and not world.job(job_id).kill_by


def test_of_a_crowd_only_some_are_told() -> None:
    world = World()
    world.report(gpus=report())
    (job_id,) = world.run(gpu_spec())
    world.started(job_id)
    crowd = tuple(GpuProcess(pid=pid, user="ann", used_mib=700) for pid in range(100, 130))
    world.report(gpus=report(processes=crowd, process_count=30, foreign_pids=tuple(range(100, 130))))
    assert len(notes(world)) == 10


def test_what_a_job_leaves_is_in_its_history() -> None:
    """pains 1."""
    world = World()
    world.report(gpus=report())
    (job_id,) = world.run(gpu_spec())
    world.started(job_id)
    dirty = {"left_behind": (f"{job_id}.1", "9999.1"), "problem": "dirty(4711,700)"}
    world.report(gpus=report(**dirty))
    world.ended(job_id)
    world.report(gpus=report(**dirty | {"problem": "dirty(4711,600)"}))
    text = "GPU 0 (GPU-a0) of a is not clean after run 1: dirty(4711,700); no job gets it until it is"
    assert notes(world) == [text]
    wide, narrow = world.run(gpu_spec(2), gpu_spec(1))
    assert (world.state(wide), world.state(narrow)) == ("PEND", "RUN")
    world.report(gpus=report())
    world.ended(narrow)
    world.cycle()
    assert world.state(wide) == "RUN"


def said_of(world: World) -> tuple[str, ...]:
    seen, config = world.engine.observations.of("a"), world.engine.config
    return tuple(map(sentence, host_view(config.hosts["a"], config, world.engine.state, seen).notes))


def test_both_are_among_the_notes_of_the_host() -> None:
    world = World()
    world.report(gpus=with_ann())
    notes_of_host = said_of(world)
    assert "GPU 0 (GPU-a0) is used by processes of no job: 4711 of ann (700 MiB)" in notes_of_host
    world.report(gpus=with_ann(problem="foreign(ann,4711,700)"))
    notes_of_host = said_of(world)
    assert "GPU 0 (GPU-a0) is not offered: foreign(ann,4711,700)" in notes_of_host
    assert not any("of no job" in note for note in notes_of_host)


def test_who_is_no_part_of_a_parallel_job_is_a_stranger_on_each_of_its_hosts() -> None:
    world = World(make_config(["a", "b"]), devices=1)
    (job_id,) = world.run(gpu_spec(slots=2, res_req="span[ptile=1] rusage[ngpus_excl_p=1]"))
    assert world.held(job_id) == [0, 0]
    other = GpuProcess(pid=4712, user="bob", used_mib=700)
    both: dict[str, Any] = {"processes": (ANN, other), "process_count": 2, "foreign_pids": (4711, 4712)}
    for host in "ab":
        world.report(host, gpus=report(1, host, **both))
    where = "A foreign process is on GPU 0 (GPU-{0}0) of {0}, which run 1 holds: process {1}"
    told = [(host, whose) for host in "ab" for whose in ("4711 of ann (700 MiB)", "4712 of bob (700 MiB)")]
    assert notes(world) == [where.format(*each) for each in told]
