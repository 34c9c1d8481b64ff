"""The exceptions of LSF that a job shows: it overran, underran, is idle, or takes longer than was estimated.

They follow from the job and from what its queue says now; nothing is kept of them, so that jobs that ended are judged
by today's thresholds, too. Source: bjobs(1), -x; lsb.queues(5).
"""

from __future__ import annotations

from collections.abc import Iterator

from gsched.model.jobs.job import FINISHED, PENDING
from gsched.model.queues.exception_thresholds import ExceptionThresholds
from gsched.model.views.view import JobView

OVERRUN, UNDERRUN, IDLE, OVER_ESTIMATE = "overrun", "underrun", "idle", "runtime_est_exceeded"


def job_exceptions(job: JobView, limits: ExceptionThresholds, now: float) -> tuple[str, ...]:
    """Those of a job in the queue with these thresholds, in bjobs' words and order; none of one that waits."""
    return tuple(_exceptions(job, limits, now)) if _has_run(job) else ()


def _has_run(job: JobView) -> bool:
    return job.dispatched_at is not None and job.state not in PENDING


def _exceptions(job: JobView, limits: ExceptionThresholds, now: float) -> Iterator[str]:
    ended = job.state in FINISHED
    run_s = ((job.finished_at or now) if ended else now) - (job.dispatched_at or now)
    if limits.overrun_s is not None and run_s > limits.overrun_s:
        yield OVERRUN
    if limits.underrun_s is not None and job.state == "EXIT" and run_s < limits.underrun_s:
        yield UNDERRUN
    if limits.idle is not None and _is_idle(job, limits.idle, limits.idle_after_s, run_s if ended else None):
        yield IDLE
    if job.spec.estimate_s is not None and run_s > job.spec.estimate_s:
        yield OVER_ESTIMATE


def _is_idle(job: JobView, least: float, after_s: float, ran_s: float | None) -> bool:
    """Whether it had less CPU time than `least` in each second, up to its end (`ran_s`) or to the last look at it; what
    nobody has looked at is not idle.
    """
    if ran_s is not None:
        usage = job.result.usage if job.result is not None and job.result.started else None
    else:
        usage = job.usage if job.usage is not None and job.usage.sampled_at is not None else None
        ran_s = 0.0 if usage is None else (usage.sampled_at or 0.0) - (job.dispatched_at or 0.0)
    return usage is not None and ran_s >= max(after_s, 1.0) and usage.cpu_s / ran_s < least
