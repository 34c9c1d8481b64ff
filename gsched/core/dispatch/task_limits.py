"""TASKLIMIT of a job's application profile and of its queue: the slots that it may have, at first and when it grows.

It knows no hosts and no other limits, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gsched.base.coded_text import CodedText, coded
from gsched.model.config import ClusterConfig

_OF_PROFILE = ("refusal.profile_most_tasks", "refusal.profile_fewest_tasks", "refusal.profile_job_sizes")
_OF_QUEUE = ("refusal.most_tasks", "refusal.fewest_tasks", "refusal.job_sizes")


class TaskLimit(NamedTuple):
    """One TASKLIMIT, and how a refusal is said."""

    name: str
    fewest: int
    most: int
    codes: tuple[str, str, str]
    sizes: tuple[int, ...] = ()
    """JOB_SIZE_LIST: the only ones; empty: all from `fewest` to `most`."""

    def too_many(self, slots: int) -> CodedText | None:
        """Why so many slots are more than it allows; None: they are not."""
        return coded(self.codes[0], self.name, slots, self.most) if slots > self.most else None

    def too_few(self, slots: int) -> CodedText | None:
        """Why so many slots are fewer than it wants; None: they are not."""
        return coded(self.codes[1], self.name, slots, self.fewest) if slots < self.fewest else None

    def wrong_size(self, least: int, most: int) -> CodedText | None:
        """Why slots from `least` to `most` are no size of JOB_SIZE_LIST, which takes one number; None: they are."""
        if not self.sizes or (least == most and least in self.sizes):
            return None
        asked = f"{least}" if least == most else f"{least},{most}"
        return coded(self.codes[2], self.name, asked, " ".join(str(size) for size in self.sizes))


def task_limits(application: str, queue: str, config: ClusterConfig) -> Iterator[TaskLimit]:
    """Those that are set: of the profile, then of the queue."""
    for limited, codes in ((config.applications.get(application), _OF_PROFILE), (config.queues.get(queue), _OF_QUEUE)):
        if limited is not None and limited.task_limit is not None:
            fewest, _, most = limited.task_limit
            yield TaskLimit(limited.name, fewest, most, codes, limited.job_sizes)
