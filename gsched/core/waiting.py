"""The waiting room: jobs that may start, by requirement class and bucket, each bucket in serving order.

Its shape is what a snapshot shows, so that taking one copies nothing. An array stands in it as one entry, however many
of its elements wait. It never decides who may wait here: dependencies, begin times and holds are the state's.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappush, merge
from itertools import count, groupby

from gsched.base.ids import element_id
from gsched.core.array import JobArray
from gsched.core.job import Job
from gsched.model.snapshot import Bucket, Head, Rank, RequirementClass

_SPARE_HEADS = 64
"""Entries of a heap of heads that may be out of date, beyond as many as it has lines."""


class WaitingLine:
    """The jobs of one bucket. Satisfies gsched.model.snapshot.HeadLine."""

    __slots__ = ("_arrays", "_entries", "bucket", "version")

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.version = 0
        """Another one whenever another entry becomes the first."""
        self._entries: list[tuple[Rank, int]] = []
        self._arrays: dict[int, JobArray] = {}

    def __iter__(self) -> Iterator[tuple[Rank, int]]:
        return self._laid_out() if self._arrays else iter(self._entries)

    def _laid_out(self) -> Iterator[tuple[Rank, int]]:
        """Arrays element by element."""
        for _, entries in groupby(self._entries, key=lambda entry: entry[0][:2]):
            # Elements that have become jobs keep their place among those of their array.
            equals = list(entries)
            if len(equals) == 1:
                yield from self._each(*equals[0])
            else:
                yield from merge(*(self._each(*entry) for entry in equals))

    def _each(self, rank: Rank, job_id: int) -> Iterator[tuple[Rank, int]]:
        array = self._arrays.get(job_id)
        if array is None:
            yield rank, job_id
            return
        for index in array.waiting():
            yield Rank(rank.priority, rank.order, index), element_id(job_id, index)

    def __len__(self) -> int:
        if not self._arrays:
            return len(self._entries)
        return len(self._entries) - len(self._arrays) + sum(array.count for array in self._arrays.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WaitingLine) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def is_empty(self) -> bool:
        """Whether nothing is entered; an array without waiting elements is taken out by whoever empties it."""
        return not self._entries

    def add(self, rank: Rank, job_id: int, array: JobArray | None = None) -> None:
        """Enter a job, or an array under its number."""
        entry = (rank, job_id)
        if self._entries and self._entries[-1] > entry:
            insort(self._entries, entry)
        else:
            self._entries.append(entry)
        if array is not None:
            self._arrays[job_id] = array

    def remove(self, rank: Rank, job_id: int) -> None:
        """Take a job or an array out. Raises KeyError if it is not entered under that rank."""
        place = bisect_left(self._entries, (rank, job_id))
        if place >= len(self._entries) or self._entries[place] != (rank, job_id):
            raise KeyError(job_id)
        del self._entries[place]
        self._arrays.pop(job_id, None)

    def first(self) -> tuple[Rank, int] | None:
        """The first entry; an array stands under its own rank, which is that of none of its elements or before them."""
        return self._entries[0] if self._entries else None

    def entries(self) -> Iterator[int]:
        """Numbers of jobs and arrays as entered, in order."""
        return (job_id for _, job_id in self._entries)


class WaitingRoom(Mapping[RequirementClass, Mapping[Bucket, WaitingLine]]):
    """All lines, by class and bucket; neither is kept empty."""

    def __init__(self) -> None:
        self._classes: dict[RequirementClass, dict[Bucket, WaitingLine]] = {}
        self._queues: dict[RequirementClass, dict[str, int]] = {}
        """Class -> queue -> buckets in it."""
        self._heads: dict[RequirementClass, dict[str, list[Head]]] = {}
        """Class -> queue -> heap of the first entries of its lines, among those that have been first."""
        self._versions = count(1)
        """No two heads have the same: heaps never compare lines."""
        self._shared: dict[RequirementClass, RequirementClass] = {}
        """Class -> the one object that all its buckets hold."""

    def __getitem__(self, requirement: RequirementClass) -> Mapping[Bucket, WaitingLine]:
        return self._classes[requirement]

    def __iter__(self) -> Iterator[RequirementClass]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def queues_of(self, requirement: RequirementClass) -> Iterable[str]:
        """Queues with jobs of the class."""
        return self._queues.get(requirement, {})

    def heads(self, queue: str, requirement: RequirementClass) -> list[Head]:
        """The first jobs of the buckets of a class in a queue, as a heap; see gsched.model.snapshot.Head."""
        return self._heads.get(requirement, {}).get(queue, []).copy()

    def lines(self) -> Iterator[tuple[Bucket, WaitingLine]]:
        """Every bucket with its line."""
        for buckets in self._classes.values():
            yield from buckets.items()

    def add(self, job: Job, array: JobArray | None = None) -> None:
        """Enter a job; with `array`, the array that `job` is the template of."""
        bucket = job.bucket()
        buckets = self._classes.get(bucket.requirement)
        if buckets is None:
            buckets = self._classes[bucket.requirement] = {}
            self._queues[bucket.requirement] = {}
            self._heads[bucket.requirement] = {}
            self._shared[bucket.requirement] = bucket.requirement
        line = buckets.get(bucket)
        if line is None:
            bucket = bucket._replace(requirement=self._shared[bucket.requirement])
            line = buckets[bucket] = WaitingLine(bucket)
            queues = self._queues[bucket.requirement]
            queues[bucket.queue] = queues.get(bucket.queue, 0) + 1
        before = line.first()
        line.add(job.rank(), job.job_id, array)
        if line.first() is not before:
            self._note_head(line)

    def remove(self, job: Job) -> None:
        """Take a job (or the array that `job` is the template of) out. Raises KeyError if it does not wait here."""
        bucket = job.bucket()
        buckets = self._classes[bucket.requirement]
        line = buckets[bucket]
        before = line.first()
        line.remove(job.rank(), job.job_id)
        if line.first() is not before:
            self._note_head(line)
        if line.is_empty():
            del buckets[bucket]
            queues = self._queues[bucket.requirement]
            queues[bucket.queue] -= 1
            if not queues[bucket.queue]:
                del queues[bucket.queue]
                self._heads[bucket.requirement].pop(bucket.queue, None)
            if not buckets:
                del self._classes[bucket.requirement]
                del self._queues[bucket.requirement]
                del self._heads[bucket.requirement]
                del self._shared[bucket.requirement]

    def _note_head(self, line: WaitingLine) -> None:
        """Another entry of the line is the first now, or none."""
        line.version = next(self._versions)
        first = line.first()
        if first is None:
            return
        queue, requirement = line.bucket.queue, line.bucket.requirement
        (priority, order, element), job_id = first
        heap = self._heads[requirement].setdefault(queue, [])
        if len(heap) > 2 * self._queues[requirement][queue] + _SPARE_HEADS:
            heap[:] = [head for head in heap if head[5].version == head[4]]
            heapify(heap)
        heappush(heap, (priority, order, element, job_id, line.version, line))
