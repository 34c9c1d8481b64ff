"""In which order the jobs of a moment are served, by queue, turn of their user, -sp and submission."""

from __future__ import annotations

from bisect import bisect_right

from tests.support.serving_order.past_reservation import KeptPlaces
from tests.support.serving_order.serving_history import Moment, PastJob

HOUR_S = 3600.0
SAME_TURN = 1e-9
"""Dynamic priorities that differ by so small a part are equal but for rounding."""


class ServingTurns:
    """At one moment."""

    def __init__(self, moment: Moment, kept: KeptPlaces) -> None:
        """`kept`: by those that had a reservation before the moment."""
        self._moment = moment
        self._kept = kept
        self._cluster = moment.cluster
        self._turns: dict[tuple[str, str, bool], float] = {}
        self.is_fair = any(queue.shares is not None for queue in self._cluster.queues.values())
        self.started = sorted(moment.started, key=self.place)
        self._places = [self.place(job) for job in self.started]
        able = [job for job in moment.waiting.values() if not moment.is_held(job)]
        self.waiting = sorted(able, key=self.place)

    def place(self, job: PastJob) -> tuple[float, ...]:
        """The place in the serving order, after the moment."""
        queue = self._cluster.queues[job.queue]
        turn = 0.0 if queue.shares is None else -self._turn(job, before=False)
        return -queue.priority, turn, -job.priority, job.submitted, job.number

    def precedes(self, one: PastJob, other: PastJob) -> bool:
        """Whether the one comes before the other without any doubt."""
        first, second = self._cluster.queues[one.queue], self._cluster.queues[other.queue]
        if first.priority != second.priority:
            return first.priority > second.priority
        if first.shares is not None or second.shares is not None:
            if one.queue != other.queue or other.number in self._kept.perhaps:
                return False
            if one.number in self._kept.surely:
                return one.user != other.user or not is_alike(one, other)  # of equal ones the first may have it
            if one.user != other.user:
                return self._turn(one, before=False) > self._turn(other, before=True) * (1 + SAME_TURN)
        return self.is_older(one, other)

    @staticmethod
    def is_older(one: PastJob, other: PastJob) -> bool:
        """Whether the one comes first, were both of one user."""
        return (-one.priority, one.submitted, one.number) < (-other.priority, other.submitted, other.number)

    def _turn(self, job: PastJob, *, before: bool) -> float:
        """The dynamic priority of its user in its queue, before or after what was started at the moment."""
        key = job.queue, job.user, before
        if key not in self._turns:
            queue, now = self._cluster.queues[job.queue], self._moment.now
            assert queue.shares is not None
            load = queue.factors["job"]
            for other, run in self._moment.running.values():
                if (other.queue, other.user) == (job.queue, job.user) and not (before and run.start == now):
                    hours = (now - run.start) / HOUR_S
                    load += queue.factors["job"] * other.slots * other.hosts
                    load += hours * (
                        queue.factors["run_time"] + queue.factors["gpu_run_time"] * other.gpus * other.hosts
                    )
            self._turns[key] = queue.shares.get(job.user, 0) / load
        return self._turns[key]

    def later(self, job: PastJob) -> list[PastJob]:
        """Who started at this moment though the job comes before him."""
        if not self.is_fair:
            return self.started[bisect_right(self._places, self.place(job)) :]
        return [each for each in self.started if self.precedes(job, each)]

    def maybe_later(self, job: PastJob) -> list[PastJob]:
        """Who started at this moment and does not come before the job for sure."""
        return [each for each in self.started if not self.precedes(each, job)]


def is_alike(one: PastJob, other: PastJob) -> bool:
    """Whether a reservation of the one may have been of the other."""
    return all(
        getattr(one, name) == getattr(other, name) for name in ("queue", "hosts", "gpus", "slots", "limit_s", "usable")
    )
