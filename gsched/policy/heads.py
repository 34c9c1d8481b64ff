"""The first jobs of classes that a cycle passed over because they fit nowhere: those a reservation may be made for."""

from __future__ import annotations

from collections.abc import Iterable

from gsched.model.snapshot import Bucket, Rank, RequirementClass, Snapshot

MOST_LOOKED_AT = 5000
"""Buckets whose first job is looked for in one cycle."""

Kind = tuple[str, RequirementClass]
"""A class of jobs in a queue."""


def kind_of(bucket: Bucket) -> Kind:
    return bucket.queue, bucket.requirement


def first_jobs(snapshot: Snapshot, kinds: Iterable[Kind]) -> list[tuple[int, Bucket]]:
    """The first job of each class of a queue, in serving order; fairshare is left aside.

    Only so many buckets are looked at, those of queues of high priority first.
    """
    queues = snapshot.queues
    found: list[tuple[int, Rank, int, Bucket]] = []
    looked = 0
    for name, requirement in sorted(kinds, key=lambda kind: -queues[kind[0]].priority if kind[0] in queues else 0):
        best: tuple[Rank, int, Bucket] | None = None
        for bucket, line in snapshot.pending.get(requirement, {}).items():
            if bucket.queue != name:
                continue
            looked += 1
            head = next(iter(line), None)
            if head is not None and (best is None or head < best[:2]):
                best = (*head, bucket)
        if best is not None and name in queues:
            found.append((-queues[name].priority, *best))
        if looked >= MOST_LOOKED_AT:
            break
    found.sort(key=lambda each: each[:3])
    return [(job_id, bucket) for _, _, job_id, bucket in found]
