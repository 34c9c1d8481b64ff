"""A job array: one record for all elements that have not started; an element becomes a job when anything happens to it.

Plain and mutable like a job; changed only by applying events. However many elements there are, the record stays small:
elements start in order, and only those out of order are written down one by one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile

import msgspec

from gsched.base.ids import element_id
from gsched.base.indices import Indices, of
from gsched.core.records.job import JobRecord
from gsched.model.jobs.job import AttemptResult, JobSpec, JobState


@lru_cache(maxsize=4096)
def indices_of(text: str) -> Indices:
    """The indices of a text that `gsched.base.indices` printed: what people may not write for its length, it may be."""
    ranges = []
    for part in text.split(","):
        span, _, step = part.partition(":")
        start, _, end = span.partition("-")
        ranges.append((int(start), int(end or start), int(step or 1)))
    return Indices(tuple(ranges))


class UnstartedEnd(msgspec.Struct, frozen=True):
    """Elements that ended together without having been started."""

    indices: str
    at: float
    result: AttemptResult


class JobArray(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One array. Times are UTC seconds. `left` counts elements that have no end yet, started or not."""

    array_id: int
    spec: JobSpec
    submitted_at: float
    token: str = ""
    place: int = 0
    order: float = 0.0
    ages_from: float | None = None
    left: int = 0
    first: int = 0
    """All indices up to this one are jobs of their own, or over."""
    taken: set[int] = msgspec.field(default_factory=set)
    """The same for these indices above `first`."""
    unstarted: list[UnstartedEnd] = msgspec.field(default_factory=list)
    stopped_by: str = ""
    """Who suspended the elements that have not started; empty when they are not suspended."""
    released: bool = False
    """The dependency condition has come true."""
    not_before: float = 0.0
    waited_s: float = 0.0
    last_end: float = 0.0
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    """State -> elements in it, of those that are jobs of their own or ended unstarted."""
    told: tuple[str, ...] = ()
    """Keys of the notices that were made about it (gsched.model.event.JobNoticeMade)."""

    @property
    def indices(self) -> Indices:
        return indices_of(self.spec.indices)

    def waiting(self) -> Iterator[int]:
        """Indices of the elements that are not jobs of their own yet, ascending."""
        return (index for index in self.indices.after(self.first) if index not in self.taken)

    def begun(self) -> Iterator[int]:
        """Indices up to `first`, ascending."""
        return takewhile(lambda index: index <= self.first, self.indices)

    def has_waiting(self, index: int) -> bool:
        """Whether the element of that index is still only part of this record."""
        return index > self.first and index not in self.taken and index in self.indices

    @property
    def count(self) -> int:
        """How many elements are waiting in this record."""
        return self._beyond() - len(self.taken)

    def _beyond(self) -> int:
        if not self.first:
            return self.indices.count
        return sum((end - start) // step + 1 for start, end, step in _after(self.indices, self.first))

    def remaining(self) -> Indices:
        """The same as ranges, however many they are; two arrays alike give ranges alike."""
        gone, ranges = sorted(self.taken), []
        for start, end, step in _after(self.indices, self.first):
            left = start
            for index in gone[bisect_left(gone, start) : bisect_right(gone, end)]:
                if index > left:
                    ranges.append((left, index - step, step))
                left = index + step
            if left <= end:
                ranges.append((left, end, step))
        return Indices(tuple(ranges))

    def take_all(self) -> None:
        """All elements leave the record."""
        self.first, self.taken = self.indices.largest, set()

    def take(self, index: int) -> None:
        """The element leaves the record."""
        self.taken.add(index)
        for following in self.indices.after(self.first):
            if following not in self.taken:
                return
            self.taken.discard(following)
            self.first = following

    def take_back(self, index: int, first: int) -> None:
        """The element, which left the record last, is back in it; `first` is what it was before."""
        if self.first != first:
            for each in self.indices.after(first):
                if each > self.first:
                    break
                self.taken.add(each)
            self.first = first
        self.taken.discard(index)

    def put_back(self, indices: Indices) -> None:
        """Elements that ended without having been started are back in the record."""
        again = set(indices)
        gone = {index for index in self.indices if index <= self.first or index in self.taken} - again
        self.first, self.taken = 0, gone
        for index in self.indices:
            if index not in gone:
                break
            gone.discard(index)
            self.first = index
        ends = [(end, [index for index in indices_of(end.indices) if index not in again]) for end in self.unstarted]
        self.unstarted = [msgspec.structs.replace(end, indices=str(of(left))) for end, left in ends if left]

    def ended_unstarted(self) -> list[int]:
        """Indices of the elements that ended without having been started."""
        return [index for end in self.unstarted for index in indices_of(end.indices)]

    def element(self, index: int) -> JobRecord:
        """The job that the element is from now on; still as it was in the record."""
        job = JobRecord(
            job_id=element_id(self.array_id, index),
            spec=self.spec,
            state=JobState.PSUSP if self.stopped_by else JobState.PEND,
            submitted_at=self.submitted_at,
        )
        job.order = self.order
        job.ages_from = self.ages_from
        job.released = self.released
        job.not_before = self.not_before
        job.waited_s = self.waited_s
        job.stopped_by = self.stopped_by
        return job

    def template(self) -> JobRecord:
        """A job that stands for all waiting elements: their bucket and rank."""
        return self.element(0)

    def is_over(self) -> bool:
        """Whether every element has ended."""
        return self.left == 0


def _after(indices: Indices, first: int) -> Iterator[tuple[int, int, int]]:
    for start, end, step in indices.ranges:
        if end > first:
            yield (start if start > first else start + ((first - start) // step + 1) * step, end, step)
