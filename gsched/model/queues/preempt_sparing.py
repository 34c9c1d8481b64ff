"""Which started jobs are not preempted: NO_PREEMPT_RUN_TIME, NO_PREEMPT_FINISH_TIME, NO_PREEMPT_INTERVAL and
MAX_JOB_PREEMPT, which cluster, queue and application profile may set.

Source: lsb.params(5), lsb.queues(5), lsb.applications(5).
"""

from __future__ import annotations

import msgspec


class SparedTime(msgspec.Struct, frozen=True):
    """A time in seconds, or so many percent of the time that a job is to run: its estimate, else its run limit."""

    amount: float
    is_percent: bool = False

    def seconds(self, total_s: float | None) -> float | None:
        """None where it is a part of a time that nobody knows."""
        if not self.is_percent:
            return self.amount
        return None if total_s is None else total_s * self.amount / 100.0

    @property
    def text(self) -> str:
        """As gqueues -l shows it."""
        return f"{self.amount:g}%" if self.is_percent else f"{self.amount / 60:g} min"


class Sparing(msgspec.Struct, frozen=True):
    """What one of the three says; None says nothing."""

    run: SparedTime | None = None
    """NO_PREEMPT_RUN_TIME: a job that has run so long is not preempted."""
    finish: SparedTime | None = None
    """NO_PREEMPT_FINISH_TIME: nor one that is to run so long yet, or shorter."""
    most: int | None = None
    """MAX_JOB_PREEMPT: nor one that was preempted so often."""
    interval_s: int | None = None
    """NO_PREEMPT_INTERVAL: nor one that has run for less, in seconds, since it started or last went on."""

    def over(self, other: Sparing) -> Sparing:
        """This, and where it says nothing the other."""
        return Sparing(
            other.run if self.run is None else self.run,
            other.finish if self.finish is None else self.finish,
            other.most if self.most is None else self.most,
            other.interval_s if self.interval_s is None else self.interval_s,
        )

    def spares(self, ran_s: float, total_s: float | None, preempted: int, unbroken_s: float) -> bool:
        """Whether a job is spared that has run for `ran_s` seconds of `total_s` (None: nobody knows), the last
        `unbroken_s` of them without having been suspended.
        """
        if self.interval_s is not None and unbroken_s < self.interval_s:
            return True
        if self.most is not None and preempted >= self.most:
            return True
        enough = self.run.seconds(total_s) if self.run is not None else None
        if enough is not None and ran_s >= enough:
            return True
        left = self.finish.seconds(total_s) if self.finish is not None else None
        return left is not None and total_s is not None and total_s - ran_s <= left


NOBODY_SPARED = Sparing()
