"""The jobs of queues first come first served: over each class of a queue, and over the classes of queues.

What is at hand are the heads that pending jobs remember, in order. They are put together a stretch at a time: of each
class those before a bound; what comes after them in their lines is entered when they are served. So a dropped class
costs few steps however many buckets it has. It decides nothing but who comes first.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
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
_FIRST_STRETCH = 2
"""Heads of each class that are looked at first: most cycles serve few jobs. Each further stretch is four times that."""
_LONGEST_STRETCH = 256
Place = tuple[float, float, int, int]
"""Rank and number of a job: whatever comes before it compares as less, be it an entry or a head."""


class ClassInQueue:
    """The jobs of one requirement class in one queue."""

    __slots__ = ("_at", "_buckets", "_heads", "_opened", "dead", "queue", "requirement")

    def __init__(self, queue: str, requirement: RequirementClass, buckets: Mapping[Bucket, JobLine]) -> None:
        self.queue = queue
        self.requirement = requirement
        self._buckets = buckets
        self._heads: Sequence[Head] = ()
        """The first of its lines in order, some of them out of date; those before `_at` have been handed out."""
        self._opened: Sequence[ArrivalEntry] = ()
        """The same where nobody remembers heads."""
        self._at = 0
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
        self._opened = sorted(entry for entry in opened if entry is not None)

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

    def behind(self, count: int) -> Place | None:
        """The first job of the line that comes after so many more; None when there are no more than these."""
        firsts, at = self._heads or self._opened, self._at + count
        return firsts[at][:_PLACE] if at < len(firsts) else None

    def firsts(self, bound: Place | None) -> Iterator[ArrivalEntry]:
        """The first jobs of further lines, of those that come before the bound (None: of all); handed out once. Those
        that begin with an array may come later than that.
        """
        firsts, begin = self._heads or self._opened, self._at
        self._at = end = len(firsts) if bound is None else bisect_left(firsts, bound, lo=begin)
        yield from self._opened[begin:end]
        for priority, order, element, job_id, version, line in self._heads[begin:end]:
            if line.version != version:
                continue
            if not line.has_arrays:
                yield priority, order, element, job_id, 0, line, line.bucket, self
                continue
            entry = self.open(
                line.bucket, line
            )  # an array may be the head: its first element need not be the first job
            if entry is not None:
                yield entry

    def is_any_left(self) -> bool:
        """Whether there are lines of which nothing was handed out."""
        heads, at = self._heads, self._at
        while at < len(heads) and heads[at][_LINE].version != heads[at][_VERSION]:
            at += 1
        self._at = max(self._at, at)
        return self._at < len(heads or self._opened)

    def close(self) -> None:
        """Let go of its jobs, which hold on to it."""
        self._heads = self._opened = ()  # the heads are the pending jobs' own


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
    """First come first served over the classes of queues."""

    def __init__(self, kinds: list[ClassInQueue], dropped: set[Bucket], index: QueueIndex | None) -> None:
        """`dropped`: buckets that are passed over."""
        self._dropped = dropped
        self._gone: set[int] = set()
        """Those that were dropped when they were served, by identity, which costs less than their hash."""
        self._kinds = [kind for kind in kinds if not kind.dead]
        for kind in self._kinds:
            kind.gather(index)
        self._stretch = _FIRST_STRETCH
        self._bound: Place | None = None
        """First jobs of lines that come before it have been handed out by the classes; None: all, or none yet."""
        self._entries: list[ArrivalEntry] = []
        """What comes before the bound, in order, from `_at` on, as far as it is known: what comes after one in its line
        is entered when that is served.
        """
        self._at = 0
        self._later: list[ArrivalEntry] = []
        """What comes next in lines that have been begun, behind the bound, in no order: it is gone through once in each
        stretch, which takes less than to keep it in order.
        """

    def head(self) -> ArrivalEntry | None:
        """The next to be served."""
        while True:
            entries, at = self._entries, self._at
            while at < len(entries):
                entry = entries[at]
                if not entry[KIND].dead and not ((self._gone or self._dropped) and self._is_dropped(entry)):
                    self._at = at
                    return entry
                at += 1
            if not self._go_on():
                return None

    def advance(self, *, dropped: bool) -> None:
        """The head was served; `dropped`: its bucket goes."""
        entry = self._entries[self._at]
        self._at += 1
        if dropped:
            self._gone.add(id(entry[BUCKET]))
            return
        following = next_of(entry)
        if following is None:
            return
        if self._bound is None or following < self._bound:
            insort(self._entries, following, lo=self._at)
        else:
            self._later.append(following)

    def has(self, kind: ClassInQueue) -> bool:
        """Whether a job of the class is to be served yet, but for those of dropped buckets."""
        if kind.is_any_left():
            return True
        ahead = (self._entries[self._at :], self._later)
        return any(entry[KIND] is kind for entries in ahead for entry in entries)

    def close(self) -> None:
        """Let go of all jobs."""
        self._entries, self._later, self._at = [], [], 0

    def _go_on(self) -> bool:
        """Put the next stretch together, which may be empty; false when nothing is left."""
        entries: list[ArrivalEntry] = []
        self._entries, self._at = entries, 0
        kinds = self._kinds = [kind for kind in self._kinds if not kind.dead]
        if not self._later and not any(kind.is_any_left() for kind in kinds):
            return False
        bound = min((behind for kind in kinds if (behind := kind.behind(self._stretch)) is not None), default=None)
        self._bound = bound
        entries += self._later
        for kind in kinds:
            entries += kind.firsts(bound)
        self._later = [] if bound is None else [entry for entry in entries if not entry < bound]
        if bound is not None:
            entries[:] = [entry for entry in entries if entry < bound]
        self._stretch = min(4 * self._stretch, max(_LONGEST_STRETCH, len(self._later) // max(1, len(kinds))))
        entries.sort()
        return True

    def _is_dropped(self, entry: ArrivalEntry) -> bool:
        bucket = entry[BUCKET]
        return id(bucket) in self._gone or (bool(self._dropped) and bucket in self._dropped)
