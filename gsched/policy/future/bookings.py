"""A planned job as it is entered for a later time, and under which numbers such entries stand in ledgers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.model.scheduling.snapshot import Bucket
from gsched.policy.future.started_later import NOBODY, StartedLater

BOOKED = -2
"""Attempt number under which planned jobs stand in ledgers."""
KEPT = -3
"""Attempt number under which advance reservations stand in ledgers."""
RESIZED = -4
"""Attempt number under which the next attempts of jobs stand there that go on with another number of GPUs."""
CANDIDATE = 0
"""Job id of a candidate that is looked at as if it were planned; no job has it, nor any that is less."""
NEVER_ENDS = math.inf


@dataclass(frozen=True, slots=True)
class Booking:
    """A planned job: what it will hold from `start` to `end` (UTC seconds, infinite when unknown)."""

    job_id: int
    bucket: Bucket
    priority: int
    """Of its queue."""
    start: float
    end: float
    allocation: Allocation
    later: StartedLater = NOBODY
    """Who has started since something was reserved for it."""
    first_told: float = math.inf
    """The earliest start that was ever told for it."""
    told: float | None = None
    """The start that is told, where jobs of queues of equal priority may put it off until `start`; None: `start`."""
    latest: float | None = None
    """Until when they may, once that was said."""

    @property
    def lasting(self) -> float:
        """Until when jobs without a run limit may use what is reserved for it, by their estimates: a time that was told
        once, or estimates that err again and again would put it off for ever.
        """
        return self.first_told if self.latest is None else self.latest

    def strict(self) -> Booking:
        """The same as it is told, put off by nobody."""
        start = self.start if self.told is None else self.told
        return replace(self, start=start, end=self.end - self.start + start, told=None, latest=None)

    @property
    def key(self) -> AttemptKey:
        return (self.job_id, BOOKED)

    @property
    def last_end(self) -> float:
        """The end that its run limit makes certain; infinite without one, whatever an estimate says."""
        return NEVER_ENDS if self.bucket.requirement.run_s is None else self.end

    def part_on(self, host: str) -> HostAllocation:
        """What it will hold on `host`. Raises StopIteration if that is nothing."""
        return next(part for part in self.allocation.parts if part.host == host)

    def is_active(self, at: float) -> bool:
        """Whether it runs at the time. At infinity those do that have no known end."""
        return self.start <= at and (at < self.end or math.isinf(self.end))

    def with_part(self, part: HostAllocation) -> Booking:
        """The same with another part on the part's host."""
        hosts, kept = (
            tuple(part if each.host == part.host else each for each in parts)
            for parts in (self.allocation.hosts, self.allocation.kept)
        )
        return replace(self, allocation=Allocation(hosts=hosts, kept=kept))
