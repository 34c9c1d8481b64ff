"""Turns in a queue with fairshare in which jobs that something is reserved for come first, until they start.

Else each turn of another user would take the reservation away, with all that it has gathered, and a big job might never
start. Who has a reservation is said by whoever asks for the order; nothing here plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from gsched.model.scheduling.snapshot import Bucket
from gsched.policy.order.arrival_order import BUCKET, JOB, KIND, ArrivalEntry, ClassInQueue, next_of
from gsched.policy.order.fairshare_turns import ShareTurns

ReservedJob = tuple[int, Bucket]
"""A job that something is reserved for, by number."""
MOST_BEFORE = 64
"""So many equal jobs of its user may have come before one that has a reservation; behind more it waits for its turn."""


class ReservedFirst:
    """Of one share tree: those with a reservation, then all others as `turns` has them."""

    def __init__(
        self,
        turns: ShareTurns,
        kinds: Iterable[ClassInQueue],
        reserved: Iterable[ReservedJob],
        dropped: set[Bucket],
    ) -> None:
        self._turns = turns
        self._dropped = dropped
        self._first = _entries(kinds, reserved)
        self._served: set[int] = set()
        self._head: ArrivalEntry | None = next(self._first, None)

    def head(self) -> ArrivalEntry | None:
        """The next to be served."""
        while self._head is not None:
            if not self._head[KIND].dead and self._head[BUCKET] not in self._dropped:
                return self._head
            self._head = next(self._first, None)
        while (following := self._turns.head()) is not None and following[JOB] in self._served:
            self._turns.advance(dropped=False)
        return following

    def advance(self, *, dropped: bool) -> None:
        """The head was served; `dropped`: its bucket goes."""
        if self._head is None:
            self._turns.advance(dropped=dropped)
            return
        self._served.add(self._head[JOB])
        if dropped:
            self._dropped.add(self._head[BUCKET])
        self._head = next(self._first, None)


def _entries(kinds: Iterable[ClassInQueue], reserved: Iterable[ReservedJob]) -> Iterator[ArrivalEntry]:
    """One for each that still waits: of equal jobs of one user those that come first."""
    found_kinds = {(kind.queue, kind.requirement): kind for kind in kinds}
    lines: dict[Bucket, tuple[frozenset[int], Iterator[ArrivalEntry]]] = {}
    for job_id, bucket in reserved:
        kind = found_kinds.get((bucket.queue, bucket.requirement))
        if kind is None:
            continue
        if bucket not in lines:
            found = list(islice(_line(kind, bucket), MOST_BEFORE))
            lines[bucket] = frozenset(entry[JOB] for entry in found), iter(found)
        waiting, following = lines[bucket]
        if job_id in waiting:
            yield next(following)


def _line(kind: ClassInQueue, bucket: Bucket) -> Iterator[ArrivalEntry]:
    entry = kind.first_of(bucket)
    while entry is not None:
        yield entry
        entry = next_of(entry)
