"""Jobs as they were published: views, and for those to which nothing has happened what their view is made of.

A hundred thousand pending jobs are kept so; nothing here looks at queues or reasons.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from gsched.model.jobs.job import JobSpec, JobState
from gsched.model.jobs.reason import PendingReason
from gsched.model.ledgers.allocation import Allocation
from gsched.model.scheduling.snapshot import Rank
from gsched.model.views.view import JobView


class Traits(msgspec.Struct, frozen=True, gc=False):
    """What decides on a pending job's place and reasons, and is not in its view."""

    rank: Rank
    own: tuple[PendingReason, ...] = ()
    avoid_host: str = ""
    excluded_hosts: tuple[str, ...] = ()
    waited_s: float = 0.0


_PEND = JobState.PEND.value
"""Taken out of the enumeration once: that costs as much as all else that a listing asks of such a job."""


class Untouched(msgspec.Struct, frozen=True, gc=False):
    """A job to which nothing has happened yet but its submission: a view is made of it when somebody reads."""

    job_id: int
    spec: JobSpec
    submitted_at: float

    @property
    def state(self) -> str:
        """As of every such job."""
        return _PEND

    @property
    def allocation(self) -> Allocation | None:
        """None: a job that nobody has touched holds nothing."""
        return None

    @property
    def finished_at(self) -> float | None:
        """None: it waits."""
        return None

    def view(self) -> JobView:
        """The job as readers see it."""
        return JobView(job_id=self.job_id, spec=self.spec, state=self.state, submitted_at=self.submitted_at)


FoundReasons = tuple[tuple[PendingReason, ...], float | None]
"""Why a job waits, and when a cycle found that; None: no cycle did."""


class Views:
    """Jobs of one moment, made into views one by one while they are read."""

    def __init__(self, records: Collection[JobView | Untouched]) -> None:
        self._records = records

    def __iter__(self) -> Iterator[JobView]:
        return (view_of(record) for record in self._records)


def view_of(record: JobView | Untouched) -> JobView:
    """The record as readers see it."""
    return record if isinstance(record, JobView) else record.view()
