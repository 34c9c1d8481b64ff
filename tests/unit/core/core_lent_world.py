"""A world in which jobs with a range of GPUs (num=2..8) borrow what is idle and give it back."""

from __future__ import annotations

from typing import Any

from core_world import World, make_config, spec

from gsched.model.config import Params
from gsched.model.event import JobRequeueRequested
from gsched.model.hosts.host import HostConfig
from gsched.model.jobs.job import EXIT_SAVED, JobSpec
from gsched.model.queues.queue import Queue

GROWS_S = 100.0
SAVE_S = 30
SAVES: dict[str, Any] = {"warning_signal": "TERM", "warning_s": SAVE_S, "saves_on_signal": True}
QUEUES = (Queue(name="normal", priority=30), Queue(name="low", priority=1), Queue(name="high", priority=90))


def world_of(devices: int = 8, hosts: tuple[str, ...] = ("a",), **config: Any) -> World:
    params = Params(gpu_grow_interval_s=GROWS_S, gpu_req="mode=exclusive_process", gpu_req_merge=True)
    found = [HostConfig(name=host, max_slots=16) for host in hosts]
    return World(make_config(found, QUEUES, params=params, **config), devices=devices)


def elastic(least: int = 2, most: int = 8, **changes: Any) -> JobSpec:
    return spec(gpu_req=f"num={least}..{most}", **(SAVES | changes))


def plain(count: int, **changes: Any) -> JobSpec:
    return spec(gpu_req=f"num={count}", **changes)


def asked_to_end(world: World, job_id: int) -> list[JobRequeueRequested]:
    return [each for each in world.events if isinstance(each, JobRequeueRequested) and each.job_id == job_id]


def saves(world: World, job_id: int, **result: Any) -> None:
    """It saves its state and ends; what can begin then begins."""
    how = {"exit_code": EXIT_SAVED, "term_reason": "TERM_RESIZE"} | result
    host = world.job(job_id).allocation.first_host  # type: ignore[union-attr]
    world.ended(job_id, world.job(job_id).attempt, host, **how)
    world.settle()
    if world.state(job_id) == "RUN":
        world.started(job_id)
