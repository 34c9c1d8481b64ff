"""A planned start as one cycle hands it to the next. It says what was found, and decides nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import structs

from gsched.base.coded_text import coded
from gsched.model.jobs.reason import UNKNOWN, PlannedStart
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.scheduling.snapshot import Bucket

NOT_LOOKED_AT = coded(UNKNOWN, coded("planned.not_looked_at"))


Obstacle = tuple[int, tuple[str, ...], bool]
"""Number of a planned job, its hosts, and whether its time is known."""


class ReservedStart(PlannedStart, frozen=True, kw_only=True):
    """A planned start with what a later cycle needs to keep it. One without time, hosts and text says nothing: the job
    was looked at, and others come first.
    """

    bucket: Bucket
    allocation: Allocation | None
    """None when nothing is reserved."""
    since: float
    """When something was reserved first."""
    has_gathered: bool = False
    """Some of what is reserved has been free since then, and was left to it."""
    later: frozenset[int] = frozenset()
    """Jobs that come after it, have started since then where it is planned, and of which nobody knows when they end."""
    first_told: float = math.inf
    """The earliest start that was ever told, by this cycle or one before."""
    latest: float | None = None
    """Until then others may put it off while its time rests on estimates; None: nobody may."""
    searched_at: float
    was_sought: bool = True
    """Whether a place was looked for, and not only whether the hosts could ever take the job."""
    victims_at: float = -math.inf
    """When it was looked in vain for jobs to displace."""
    open_hosts: int = 0
    """How many hosts were open when a search found no place: it is looked again as soon as that changes."""
    obstacles: frozenset[Obstacle] = frozenset()
    """The planned jobs that stood in its way then: it is looked again as soon as one of them is gone, is elsewhere, or
    it becomes known when it starts.
    """


def looked_at_by_nobody(planned: Mapping[int, PlannedStart]) -> dict[int, PlannedStart]:
    """The same plans, but that nobody has looked yet for a better place or for jobs to displace: what was found in vain
    may be there under other rules.
    """
    never = -math.inf
    return {
        job_id: structs.replace(each, searched_at=never, victims_at=never) if isinstance(each, ReservedStart) else each
        for job_id, each in planned.items()
    }


def is_partly_free(ledger: HostLedger, part: HostAllocation) -> bool:
    """Whether a GPU of the part is free on its host; of one without GPUs, a slot."""
    if part.gpus:
        return any(gpu.uuid not in ledger.holders for gpu in part.gpus)
    free = ledger.free_slots
    return free is None or free > 0


def start_of(reserved: ReservedStart) -> float:
    """UTC seconds, infinite when unknown."""
    return math.inf if reserved.at is None else reserved.at
