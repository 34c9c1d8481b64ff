"""A class of jobs in a queue: what a cycle plans for and drops together. It decides nothing."""

from __future__ import annotations

from gsched.model.scheduling.snapshot import Bucket, RequirementClass

QueueClass = tuple[str, RequirementClass]
"""The queue's name, the requirement class."""


def kind_of(bucket: Bucket) -> QueueClass:
    """The class in its queue that the bucket's jobs belong to."""
    return bucket.queue, bucket.requirement
