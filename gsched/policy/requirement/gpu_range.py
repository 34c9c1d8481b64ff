"""Jobs that take a range of numbers of GPUs (num=2..8): the least and the most of it, and what of a part is lent.

It looks at no host. What is beyond the least is lent: others may have it back.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from msgspec import structs

from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import RequirementClass, Running
from gsched.policy.order.fairshare import queue_priority
from gsched.policy.requirement.demand import Demand, Devices
from gsched.resreq.combining.stored import COMBINED_GPU
from gsched.resreq.parsing.gpu import RANGE, print_gpu


class GpuRange(NamedTuple):
    """GPUs on the job's one host."""

    least: int
    most: int


def range_of(requirement: RequirementClass) -> GpuRange | None:
    """The range that the class asks for; None: it asks for no range."""
    if RANGE not in requirement.gpu:
        return None
    asked = COMBINED_GPU.of(requirement.gpu)
    return GpuRange(asked.num, asked.most) if asked is not None and asked.most else None


@lru_cache(maxsize=1024)
def exactly(requirement: RequirementClass, gpus: int) -> RequirementClass:
    """The class of jobs that are like these, and want so many GPUs and no more."""
    asked = COMBINED_GPU.of(requirement.gpu)
    assert asked is not None
    return requirement._replace(gpu=print_gpu(replace(asked, num=gpus, most=0)))


def resizable_part(allocation: Allocation) -> HostAllocation | None:
    """The part of a job with a range, of which GPUs come and go; None where it holds anything on another host."""
    return allocation.hosts[0] if len(allocation.parts) == 1 else None


def lent_of(running: Running) -> int:
    """How many GPUs the started job could give back and go on."""
    asked, part = range_of(running.bucket.requirement), resizable_part(running.allocation)
    return 0 if asked is None or part is None else max(0, len(part.gpus) - asked.least)


def claim_rank(queues: Mapping[str, Queue], running: Running) -> tuple[int, float, int]:
    """Whose claim to lent GPUs comes first: of started jobs those of higher queues, then those that started first."""
    return (-queue_priority(queues, running.bucket.queue), running.started_at, running.job_id)


def without(part: HostAllocation, gpus: int, kept_longest: Container[str] | None = None) -> HostAllocation:
    """The part without so many GPUs: those of the highest index go. All go before those in `kept_longest`."""
    left = part.gpus
    if kept_longest is not None:
        left = tuple(sorted(left, key=lambda gpu: gpu.uuid not in kept_longest))
    kept = {gpu.uuid for gpu in left[: len(left) - gpus]}
    return structs.replace(part, gpus=tuple(gpu for gpu in part.gpus if gpu.uuid in kept))


def devices_of_range(demand: Demand) -> Devices | None:
    """What of GPUs a job with a range needs at the least; None where it is no such job."""
    (choice, *others) = demand.choices
    if not demand.most_gpus or others or len(choice.terms) > 1:
        return None
    devices = choice.terms[0].need(demand.slots).devices
    return devices[0] if len(devices) == 1 else None
