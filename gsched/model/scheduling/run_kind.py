"""What makes jobs alike as far as their run times go: whose they are, where they wait and what they ask for."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from gsched.model.scheduling.snapshot import Bucket


class RunKind(NamedTuple):
    """Jobs of one kind are expected to run about as long as each other."""

    user: str
    queue: str
    application: str
    slots: int
    wants: str
    """Digest of the combined requirements: short, since checkpoints hold it."""


def run_kind(bucket: Bucket) -> RunKind:
    """The kind of the jobs of a bucket. Limits and estimates do not count: they say how long, not what."""
    requirement = bucket.requirement
    wants = _digest(requirement.requirement, requirement.gpu)
    return RunKind(bucket.user, bucket.queue, bucket.application, requirement.slots, wants)


@lru_cache(maxsize=16384)
def _digest(requirement: str, gpu: str) -> str:
    return blake2b(f"{requirement}\0{gpu}".encode(), digest_size=8).hexdigest()
