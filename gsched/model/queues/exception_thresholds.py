"""From when on a queue's jobs count as exceptions: they run too long, end too soon, or use too little of a processor.

JOB_OVERRUN, JOB_UNDERRUN and JOB_IDLE of lsb.queues, DETECT_IDLE_JOB_AFTER of lsb.params. Nothing is done to such a
job; who looks is told. Pure: which numbers a job has is told by gsched.model.views.job_exceptions.
"""

from __future__ import annotations

import msgspec

DETECT_IDLE_AFTER_S = 1200
"""DETECT_IDLE_JOB_AFTER by default."""


class ExceptionThresholds(msgspec.Struct, frozen=True, kw_only=True):
    """Of one queue; None: it has no such exceptions. Times in seconds."""

    overrun_s: int | None = None
    """JOB_OVERRUN: who runs longer runs too long."""
    underrun_s: int | None = None
    """JOB_UNDERRUN: who fails before ends too soon."""
    idle: float | None = None
    """JOB_IDLE: who has less CPU time in each second of its run time is idle."""
    idle_after_s: int = DETECT_IDLE_AFTER_S
    """DETECT_IDLE_JOB_AFTER: nobody is idle before."""

    def __bool__(self) -> bool:
        """Whether any is set."""
        return (self.overrun_s, self.underrun_s, self.idle) != (None, None, None)
