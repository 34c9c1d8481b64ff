"""The first jobs of classes that a cycle passed over because they fit nowhere: those a reservation may be made for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from gsched.model.snapshot import Bucket, JobLine, Rank, RequirementClass, Snapshot
from gsched.policy.order.fairshare import ShareTree
from gsched.policy.order.serving_order import ServingOrder

MOST_LOOKED_AT = 5000
"""Buckets whose first job is looked for in one cycle."""

QueueClass = tuple[str, RequirementClass]
"""A class of jobs in a queue."""


def kind_of(bucket: Bucket) -> QueueClass:
    return bucket.queue, bucket.requirement


def is_first(snapshot: Snapshot, job_id: int, bucket: Bucket) -> bool:
    """Whether the job is the first that waits in its bucket."""
    line = snapshot.pending.get(bucket.requirement, {}).get(bucket)
    head = None if line is None else next(iter(line), None)
    return head is not None and head[1] == job_id


def first_jobs(
    snapshot: Snapshot,
    kinds: Iterable[QueueClass],
    trees: Mapping[str, ShareTree] | None = None,
    started: Collection[int] = (),
) -> list[tuple[int, Bucket]]:
    """The first job of each class of a queue, in serving order. `trees`: share trees with what the cycle has placed.

    `started`: jobs that the cycle has placed; the snapshot shows them as waiting still. Only so many buckets are looked
    at, those of queues of high priority first.
    """
    kinds = list(kinds)
    if any(_is_fair(snapshot, name) for name, _ in kinds):
        return _by_turns(snapshot, kinds, trees or {}, started)
    queues = snapshot.queues
    found: list[tuple[int, Rank, int, Bucket]] = []
    looked = 0
    for name, requirement in sorted(kinds, key=lambda kind: -queues[kind[0]].priority if kind[0] in queues else 0):
        best: tuple[Rank, int, Bucket] | None = None
        for bucket, line in snapshot.pending.get(requirement, {}).items():
            if bucket.queue != name:
                continue
            looked += 1
            head = next((each for each in line if each[1] not in started), None)
            if head is not None and (best is None or head < best[:2]):
                best = (*head, bucket)
        if best is not None and name in queues:
            found.append((-queues[name].priority, *best))
        if looked >= MOST_LOOKED_AT:
            break
    found.sort(key=lambda each: each[:3])
    return [(job_id, bucket) for _, _, job_id, bucket in found]


def _is_fair(snapshot: Snapshot, name: str) -> bool:
    queue = snapshot.queues.get(name)
    return queue is not None and queue.fairshare is not None


def _by_turns(
    snapshot: Snapshot, kinds: list[QueueClass], trees: Mapping[str, ShareTree], started: Collection[int]
) -> list[tuple[int, Bucket]]:
    """The same where shares say who comes first: what a cycle would serve that had only these classes."""
    queues = snapshot.queues
    pending: dict[RequirementClass, dict[Bucket, JobLine]] = {}
    looked = 0
    for name, requirement in sorted(kinds, key=lambda kind: -queues[kind[0]].priority if kind[0] in queues else 0):
        if name not in queues:
            continue
        buckets = snapshot.pending.get(requirement, {})
        own = {bucket: line for bucket, line in buckets.items() if bucket.queue == name}
        pending.setdefault(requirement, {}).update(own)
        looked += len(own)
        if looked >= MOST_LOOKED_AT:
            break
    order = ServingOrder(replace(snapshot, pending=pending), trees=trees)
    found = []
    for job_id, bucket in order:
        if job_id in started:
            continue
        found.append((job_id, bucket))
        order.drop_class(bucket.queue, bucket.requirement)
    order.close()
    return found
