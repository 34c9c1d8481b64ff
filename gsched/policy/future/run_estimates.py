"""How long jobs are expected to run: by their run limit, else by an estimate. For planning: an estimate ends no job.

Estimates come, in this order, from the job (-We), from its queue (DEFAULT_RUNLIMIT), and from how long the user's
last jobs of the same kind ran.
"""

from __future__ import annotations

from functools import cached_property

from gsched.model.scheduling.run_kind import run_kind
from gsched.model.scheduling.snapshot import Bucket, Running, Snapshot

GIVEN, OF_QUEUE, OF_HISTORY = "planned.estimate_given", "planned.estimate_of_queue", "planned.estimate_of_history"
"""Codes of where an estimate comes from; the parameter is the job."""


class RunEstimates:
    """For one cycle."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._usual = snapshot.usual_run_s
        self._of_queue = {
            queue.name: float(queue.estimate_s) for queue in snapshot.queues.values() if queue.estimate_s is not None
        }

    def may_know(self, bucket: Bucket) -> bool:
        """False where nothing can be known of a job without a run limit."""
        return bool(self._usual or self._of_queue) or bucket.requirement.estimate_s is not None

    def run_s(self, bucket: Bucket) -> float | None:
        """How long a job of the bucket is expected to run; None: nobody knows."""
        limit = bucket.requirement.run_s
        return limit if limit is not None else self.estimate_s(bucket)

    def estimate_s(self, bucket: Bucket) -> float | None:
        """The same for one without a run limit."""
        found = bucket.requirement.estimate_s
        if found is None:
            found = self._of_queue.get(bucket.queue)
        if found is None and self._usual:
            found = self._usual.get(run_kind(bucket))
        return found

    def is_by_user(self, bucket: Bucket) -> bool:
        """Whether what is expected may depend on whose job it is: nothing but the past says anything."""
        requirement = bucket.requirement
        is_said = requirement.run_s is not None or requirement.estimate_s is not None
        return bool(self._usual) and not is_said and bucket.queue not in self._of_queue

    def is_less_known(self, bucket: Bucket) -> bool:
        """Whether another user's jobs of the bucket's class are known to take less time."""
        if not self.is_by_user(bucket):
            return False
        kind, own = run_kind(bucket), self.estimate_s(bucket)
        least = self._least_of_all.get((kind.queue, kind.slots, kind.wants))
        return least is not None and (own is None or least < own)

    @cached_property
    def _least_of_all(self) -> dict[tuple[str, int, str], float]:
        """Queue, slots and wants of a kind -> the least estimate that any user has."""
        found: dict[tuple[str, int, str], float] = {}
        for kind, usual in self._usual.items():
            key = (kind.queue, kind.slots, kind.wants)
            found[key] = min(usual, found.get(key, usual))
        return found

    def source(self, bucket: Bucket) -> str:
        """Where the estimate comes from."""
        if bucket.requirement.estimate_s is not None:
            return GIVEN
        return OF_QUEUE if bucket.queue in self._of_queue else OF_HISTORY

    def end_of(self, running: Running, now: float) -> float | None:
        """When a started job without a run limit is expected to end, after `now`; None: nobody knows.

        One that has outlasted its estimate is given twice as long, and so on.
        """
        run_s = self.estimate_s(running.bucket)
        if run_s is None:
            return None
        run_s = max(1.0, run_s)
        while running.started_at + run_s <= now:
            run_s *= 2
        return running.started_at + run_s
