"""The jobs of queues first come first served: over each class of a queue, and over the classes of queues.

What is at hand are the heads that pending jobs remember, in order, and a heap of what comes after those that were
served; so a dropped class costs one step however many buckets it has. It decides nothing but who comes first.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from gsched.model.scheduling.snapshot import Bucket, Head, HeadLine, JobLine, QueueIndex, Rank, RequirementClass

ArrivalEntry = tuple[float, float, int, int, int, "HeadLine | Iterator[tuple[Rank, int]]", Bucket, "ClassInQueue"]
"""The next job of a bucket: its rank and number, its place in the line, the line, its bucket, its class. Where the
place is ITERATED, what follows stands for the line. The rank lies open because that compares in half the time; numbers
of jobs differ, so nothing beyond them is compared.
"""
ITERATED: Final = -1
JOB: Final = 3
_PLACE: Final = 4
_LINE: Final = 5
BUCKET: Final = 6
KIND: Final = 7
_VERSION: Final = 4
"""Of a head."""


class ClassInQueue:
    """The jobs of one requirement class in one queue."""

    __slots__ = ("_at", "_buckets", "_first", "_heads", "_later", "dead", "queue", "requirement")

    def __init__(self, queue: str, requirement: RequirementClass, buckets: Mapping[Bucket, JobLine]) -> None:
        self.queue = queue
        self.requirement = requirement
        self._buckets = buckets
        self._heads: list[Head] = []
        """Of lines from which nothing was served, in order from `_at` on; some are out of date."""
        self._at = 0
        self._later: list[ArrivalEntry] = []
        """Heap of what comes next in the other lines."""
        self._first: ArrivalEntry | None = None
        """What `head` has found."""
        self.dead = False

    def lines(self) -> Iterator[tuple[Bucket, JobLine]]:
        """Its buckets with their jobs."""
        queue = self.queue
        return ((bucket, line) for bucket, line in self._buckets.items() if bucket.queue == queue)

    def gather(self, index: QueueIndex | None) -> None:
        """Begin: with the heads that pending jobs remember, or by looking at all lines."""
        if index is not None:
            self._heads = index.heads(self.queue, self.requirement)
            return
        opened = (self.open(bucket, line) for bucket, line in self.lines())
        self._later = [entry for entry in opened if entry is not None]
        heapify(self._later)

    def open(self, bucket: Bucket, line: JobLine) -> ArrivalEntry | None:
        """The first job of a line that is to be served from; None when it is empty."""
        following = iter(line)
        for (priority, order, index), job_id in following:
            return priority, order, index, job_id, ITERATED, following, bucket, self
        return None

    def first_of(self, bucket: Bucket) -> ArrivalEntry | None:
        """The first job of one of its buckets, whatever was served; None when no job of it waits."""
        line = self._buckets.get(bucket)
        return None if line is None or bucket.queue != self.queue else self.open(bucket, line)

    def head(self, dropped: Container[Bucket] = ()) -> ArrivalEntry | None:
        """The first job of all, but for those of dropped buckets."""
        first = self._first
        while first is None or (dropped and first[BUCKET] in dropped):
            if first is not None:
                self.advance(dropped=True)
            first = self._first = self._next()
            if first is None:
                return None
        return first

    def advance(self, *, dropped: bool) -> None:
        """The head was served; `dropped`: its bucket goes."""
        first, self._first = self._first, None
        assert first is not None
        following = None if dropped else next_of(first)
        later = self._later
        if later and later[0] is first:
            if following is None:
                heappop(later)
            else:
                heapreplace(later, following)
            return
        self._at += 1
        if following is not None:
            heappush(later, following)

    def close(self) -> None:
        """Let go of its jobs, which hold on to it."""
        self._first = None
        self._heads = []  # they are the pending jobs' own
        self._later.clear()

    def _next(self) -> ArrivalEntry | None:
        """The least of heads and heap."""
        heads, later = self._heads, self._later
        while self._at < len(heads):
            head = heads[self._at]
            line = head[_LINE]
            if line.version == head[_VERSION]:
                if line.has_arrays:  # one may be the head: its first element need not be the first job
                    entry = self.open(line.bucket, line)
                    if entry is not None:
                        heappush(later, entry)
                elif later and later[0] < head:
                    break
                else:
                    return (*head[:_PLACE], 0, line, line.bucket, self)
            self._at += 1
        return later[0] if later else None


def next_of(entry: ArrivalEntry) -> ArrivalEntry | None:
    """The job after it in its line; None when there is none."""
    _, _, _, _, place, line, bucket, kind = entry
    if place == ITERATED:
        for (priority, order, index), job_id in line:
            return priority, order, index, job_id, ITERATED, line, bucket, kind
        return None
    found = line.entry(place + 1)  # type: ignore[union-attr]  # and a line here
    return None if found is None else (*found, place + 1, line, bucket, kind)


class Arrivals:
    """First come first served over the classes of queues: a heap of the first jobs of each."""

    def __init__(self, kinds: list[ClassInQueue], dropped: Container[Bucket], index: QueueIndex | None) -> None:
        self._dropped = dropped
        self._heap: list[ArrivalEntry] = []
        for kind in kinds:
            if not kind.dead:
                kind.gather(index)
                first = kind.head()
                if first is not None:
                    self._heap.append(first)
        heapify(self._heap)

    def head(self) -> ArrivalEntry | None:
        """The next to be served."""
        heap, dropped = self._heap, self._dropped
        while heap:
            top = heap[0]
            kind = top[KIND]
            if not kind.dead and not dropped:
                return top  # as it is nearly always
            first = None if kind.dead else kind.head(dropped)
            if first is None:
                heappop(heap)
            elif first is top:
                return first
            else:
                heapreplace(heap, first)
        return None

    def advance(self, *, dropped: bool) -> None:
        """The head was served; `dropped`: its bucket goes."""
        heap = self._heap
        kind = heap[0][KIND]
        if kind.dead:
            return
        kind.advance(dropped=dropped)
        first = kind.head(self._dropped)
        if first is None:
            heappop(heap)
        else:
            heapreplace(heap, first)
