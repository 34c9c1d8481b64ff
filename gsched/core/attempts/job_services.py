"""Services of jobs, programs with a page of their own: when they answer, and when nobody has used them for too long.

The agents say so; nothing is measured here, and nothing is kept of what they say but the first answer of an attempt.
"""

from __future__ import annotations

from gsched.base.coded_text import coded
from gsched.core.attempts.attempt_results import SYSTEM
from gsched.core.command import ServiceAnswers
from gsched.core.decision import Decision
from gsched.core.instruction import TerminateAttempt
from gsched.core.records.job import JobRecord
from gsched.model.event import JobNoted, JobServiceAnswered, JobSignalRequested
from gsched.model.jobs.job import STARTED, JobState
from gsched.model.jobs.job_service import SERVICE_IDLE
from gsched.model.ledgers.host_ledger import AttemptKey


def service_answers(command: ServiceAnswers, decision: Decision) -> None:
    """The attempt listens on its port. Told again it changes nothing."""
    job = _job_of((command.job_id, command.attempt), command.host, decision)
    if job is None or job.service_port == command.port:
        return
    at = min(max(command.at, job.dispatched_at or 0.0), decision.now)
    decision.record(JobServiceAnswered(at=at, job_id=job.job_id, attempt=job.attempt, port=command.port))


def judge_service(key: AttemptKey, host: str, idle_s: float, decision: Decision) -> None:
    """Nobody has used the attempt's service for `idle_s` seconds: end it where its queue says so (SERVICE_IDLE)."""
    job = _job_of(key, host, decision)
    if job is None or job.state is not JobState.RUN or job.kill_by or job.requeue_by:
        return
    queue = decision.config.queues.get(job.spec.queue)
    if queue is None or queue.service_idle_s is None or idle_s < queue.service_idle_s:
        return
    now, number = decision.now, job.job_id
    text = coded("service.idle", f"{idle_s / 60:.0f}", queue.name)
    decision.record(JobNoted(at=now, job_id=number, text=text))
    decision.record(JobSignalRequested(at=now, job_id=number, by=SYSTEM, signal=0, keyword=SERVICE_IDLE))
    for part in job.allocation.hosts if job.allocation is not None else ():
        decision.instruct(TerminateAttempt(part.host, number, job.attempt, SERVICE_IDLE))


def _job_of(key: AttemptKey, host: str, decision: Decision) -> JobRecord | None:
    """The job with a service whose attempt that is, as the agent of its first host tells of it."""
    job = decision.state.jobs.get(key[0])
    if job is None or job.key != key or job.state not in STARTED or not job.spec.service or job.allocation is None:
        return None
    return job if job.allocation.first_host == host else None
