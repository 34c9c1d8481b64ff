"""How much of what a limit or a guarantee counts is held by one part of an allocation."""

from __future__ import annotations

from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.queues.limit import GPUS, PARTS, PER_PROCESSOR, SLOTS


def amount_of(part: HostAllocation, resource: str) -> float:
    """How much of a resource is held there. `ngpus`: devices however claimed."""
    if resource in (SLOTS, PER_PROCESSOR):
        return part.slots
    if resource == GPUS:
        return len(part.gpus)
    if resource.startswith("ngpus"):
        return sum(gpu.claim == resource for gpu in part.gpus)
    return part.amounts.get(PARTS.get(resource, resource), 0.0)
