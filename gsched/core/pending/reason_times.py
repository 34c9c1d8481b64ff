"""When the reasons were found that kinds of waiting jobs are shown with.

Mostly one moment, that of the last cycle; a pass over the pending jobs that takes several cycles has reasons of several
moments. It knows no reason itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from gsched.model.jobs.reason import PendingReason
from gsched.model.scheduling.snapshot import Bucket, RequirementClass

WaitingClass = Bucket | tuple[str, RequirementClass]
"""Jobs that share their reasons: a bucket, or all of a class in a queue."""
Reasons = Mapping[WaitingClass, tuple[PendingReason, ...]]


@dataclass(frozen=True, slots=True)
class ReasonTimes:
    """When the pending reasons that are shown were found. Replaced whole with the reasons. Times are UTC seconds."""

    last_cycle: float = 0.0
    earlier: Mapping[WaitingClass, float] = field(default_factory=dict)
    """Kinds of jobs that the last cycle did not come to."""

    def of(self, waiting: WaitingClass) -> float:
        """When the reasons of these jobs were found."""
        return self.earlier.get(waiting, self.last_cycle)

    def after(self, now: float, found: Collection[WaitingClass], shown: Iterable[WaitingClass]) -> ReasonTimes:
        """The times after a cycle at `now` that found the reasons of `found`, where those of `shown` are shown."""
        return ReasonTimes(now, {waiting: self.of(waiting) for waiting in shown if waiting not in found})


def not_come_to(before: Reasons, found: Reasons) -> Reasons:
    """Reasons of before that still have to serve, since a cycle that was cut short has none of these jobs."""
    return {
        waiting: reasons
        for waiting, reasons in before.items()
        if waiting not in found
        # Of a bucket: what was found for all of its class is newer.
        and not (isinstance(waiting, Bucket) and (waiting.queue, waiting.requirement) in found)
    }
