"""For whoever keeps a copy of the jobs by the master's events: which have changed, and asking for those alone.

It must never keep jobs itself: what is kept of one, and of how many, is for each who asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from gsched.base.ids import array_of, index_of
from gsched.model.views.view import JobFilter, JobView
from gsched.wire.calls.client import Client

PER_QUESTION = 100


@dataclass(slots=True)
class NotedChanges:
    """Jobs that events were about since they were asked for last, `most` of them. `is_all`: too many to name."""

    most: int
    job_ids: set[int] = field(default_factory=set)
    is_all: bool = True

    def add(self, job_id: int) -> None:
        """An event was about that job, or array."""
        if not self.is_all:
            self.job_ids.add(job_id)
            if len(self.job_ids) > self.most:
                self.add_all()

    def add_all(self) -> None:
        """Whatever has been noted: any job may have changed."""
        self.job_ids, self.is_all = set(), True

    def take(self) -> tuple[set[int], bool]:
        """(numbers, whether it is all); nothing is noted afterwards."""
        taken = (self.job_ids, self.is_all)
        self.job_ids, self.is_all = set(), False
        return taken


def jobs_named(client: Client, job_ids: Collection[int]) -> Iterator[JobView]:
    """These jobs of all users, finished ones too; an array's number means all its elements. Raises GschedError."""
    numbers = sorted(job_ids)
    for start in range(0, len(numbers), PER_QUESTION):
        yield from client.jobs(JobFilter(ids=tuple(numbers[start : start + PER_QUESTION]), user="all", finished=True))


def meant_by(job_ids: Collection[int], known: Iterable[int]) -> set[int]:
    """Which of the known jobs these numbers mean: of an array all its elements."""
    asked = set(job_ids)
    arrays = {number for number in asked if not index_of(number)}
    return {job_id for job_id in known if job_id in asked or array_of(job_id) in arrays}
