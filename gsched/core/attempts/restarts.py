"""How often a job may be run again by the system, and whether an attempt that has ended asks for that. Nothing is
decided here.
"""

from __future__ import annotations

from gsched.core.records.job import JobRecord
from gsched.model.config import ClusterConfig
from gsched.model.jobs.failure import death
from gsched.model.jobs.job import EXIT_SAVED, MOST_RESTARTS, AttemptResult

RUN_LIMIT = "TERM_RUNLIMIT"


def asks_for_another_run(job: JobRecord, result: AttemptResult) -> bool:
    """Whether the attempt has saved the job's state and wants it to be run again: by `gsched requeue-me`, or by its
    exit code where the job has said that it saves its state. What a person, or a limit but that of run time, has ended
    asks for nothing.
    """
    if job.spec.interactive or not result.started or result.term_reason not in ("", RUN_LIMIT):
        return False
    if result.wants_requeue:
        return death(result) not in job.signals
    return job.spec.saves_itself and result.exit_code == EXIT_SAVED


def most_requeues(job: JobRecord, config: ClusterConfig) -> int | None:
    """MAX_JOB_REQUEUE of its profile, else of its queue; None: there is no limit."""
    queue, profile = config.queues.get(job.spec.queue), config.applications.get(job.spec.application)
    if profile is not None and profile.max_requeue is not None:
        return profile.max_requeue
    return queue.max_requeue if queue is not None else None


def most_restarts(job: JobRecord, config: ClusterConfig) -> int:
    """--max-restarts, else MAX_JOB_REQUEUE, else MOST_RESTARTS; never more than MAX_JOB_REQUEUE."""
    allowed, asked = most_requeues(job, config), job.spec.max_restarts
    if allowed is None:
        return MOST_RESTARTS if asked is None else asked
    return allowed if asked is None else min(asked, allowed)
