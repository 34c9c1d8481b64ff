"""A cluster of two hosts for tests of slots that come and go while jobs run."""

from __future__ import annotations

from typing import Any

from core_world import World, make_config

from gsched.model.config import Params
from gsched.model.hosts.host import HostConfig
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.queue import Queue

BAD_HOST = "Bad host name, host group name or cluster name"
HOSTS = (HostConfig(name="a", max_slots=4), HostConfig(name="b", max_slots=4))


def a_world(hosts: tuple[HostConfig, ...] = HOSTS, params: Params | None = None, **queue: Any) -> World:
    return World(make_config(hosts, (Queue(name="normal", priority=3, **queue),), params=params or Params()))


def slots(world: World, job_id: int) -> dict[str, int]:
    allocation = world.job(job_id).allocation
    assert allocation is not None
    return {part.host: part.slots for part in allocation.hosts}


def begun(world: World, *specs: JobSpec) -> list[int]:
    """The jobs, where they have a place with their commands running."""
    jobs = world.run(*specs)
    for job in jobs:
        if world.state(job) == "RUN":
            world.started(job)
    return jobs
