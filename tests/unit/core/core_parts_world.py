"""A job on three hosts, for tests of its parts."""

from __future__ import annotations

from typing import Any

from core_world import World, make_config, spec

from gsched.core.instruction import (
    Instruction,
    TerminateAttempt,
)

HOSTS = ("a", "b", "c")


def three(**changes: Any) -> tuple[World, int]:
    """A cluster of three hosts and a job that has one GPU on each; a is its first host. It has been dispatched."""
    world = World(make_config(HOSTS))
    wish = "select[ngpus>0] rusage[ngpus_excl_p=1/host] span[ptile=1]"
    (job_id,) = world.submit(spec(slots=3, res_req=wish, **changes))
    world.settle()
    allocation = world.job(job_id).allocation
    assert allocation is not None and [part.host for part in allocation.hosts] == list(HOSTS)
    assert all(len(part.gpus) == 1 for part in allocation.hosts)
    return world, job_id


def running(**changes: Any) -> tuple[World, int]:
    world, job_id = three(**changes)
    world.started(job_id)
    return world, job_id


def orders(world: World, since: int = 0) -> set[Instruction]:
    return set(world.orders(since))


def ends(job_id: int, *hosts: str, given_up: bool = True, reason: str = "", attempt: int = 1) -> set[Instruction]:
    return {TerminateAttempt(host, job_id, attempt, reason, given_up) for host in hosts}


def holding(world: World) -> str:
    """Hosts where a GPU is held, of any attempt."""
    return "".join(host for host in HOSTS if world.engine.state.ledger.host(host).holders)
