"""Who is served first: queues by priority, within a queue first come first served.

Buckets are merged lazily, so that a bucket that cannot be placed costs nothing more, however many jobs wait in it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

from gsched.model.queue import Queue
from gsched.model.snapshot import Bucket, RequirementClass, Snapshot


class ServingOrder:
    """Iterates over (job id, bucket) in serving order; `drop` takes a whole requirement class of a queue out."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._dropped: set[tuple[str, RequirementClass]] = set()
        self._dropped_buckets: set[Bucket] = set()
        self._passed_over: list[Bucket] = []
        self._heap: list[tuple[int, int, int, Bucket, Iterator[int]]] = []
        for number, (bucket, ids) in enumerate(snapshot.pending.items()):
            iterator = iter(ids)
            first = next(iterator, None)
            if first is not None:
                self._heap.append((-_priority(snapshot.queues, bucket.queue), first, number, bucket, iterator))
        heapq.heapify(self._heap)

    def drop(self, bucket: Bucket, *, whole_class: bool) -> None:
        """Serve no more jobs of this bucket, or of this requirement class in this queue (whoever owns them)."""
        self._dropped_buckets.add(bucket)
        if whole_class:
            self._dropped.add((bucket.queue, bucket.requirement))

    def __iter__(self) -> Iterator[tuple[int, Bucket]]:
        while self._heap:
            priority, job_id, number, bucket, iterator = self._heap[0]
            if self._is_dropped(bucket):
                heapq.heappop(self._heap)
                self._passed_over.append(bucket)
                continue
            following = next(iterator, None)
            if following is None:
                heapq.heappop(self._heap)
            else:
                heapq.heapreplace(self._heap, (priority, following, number, bucket, iterator))
            yield job_id, bucket

    def passed_over(self) -> list[Bucket]:
        """Buckets that were dropped, or are of a class that was, and hold jobs that were not served."""
        return [*self._passed_over, *(entry[3] for entry in self._heap if self._is_dropped(entry[3]))]

    def _is_dropped(self, bucket: Bucket) -> bool:
        return bucket in self._dropped_buckets or (bucket.queue, bucket.requirement) in self._dropped


def _priority(queues: Mapping[str, Queue], name: str) -> int:
    queue = queues.get(name)
    return queue.priority if queue else 0
