"""Stopping and resuming jobs: PSUSP, USUSP and back, and who may lift whose stop. Texts are LSF's.

Each action is one small function on a job; an array's waiting elements are acted on as one.
"""

from __future__ import annotations

from gsched.base.coded_text import coded
from gsched.base.ids import show_job
from gsched.core.attempts.gpu_moves import may_go_on
from gsched.core.authorization import denied_to_all_but, of_cluster
from gsched.core.command import JobCommand, ResumeJobs, StopJobs
from gsched.core.control.control_context import UNREACHABLE_TEXT, ControlContext
from gsched.core.dispatch.dispatcher import slots_are_free
from gsched.core.instruction import ResumeAttempt, SuspendAttempt
from gsched.core.records.array import JobArray
from gsched.core.records.job import JobRecord
from gsched.model.event import (
    JobResumed,
    JobSuspended,
)
from gsched.model.jobs.job import JobSpec, JobState


def stop(context: ControlContext[JobCommand], job: JobRecord) -> str:
    if job.state in (JobState.PSUSP, JobState.USUSP):
        if _outranks(context, job.stopped_by, job.spec):
            context.decision.record(_suspended(context, job.job_id))
        return ""
    if job.state not in (JobState.PEND, JobState.RUN, JobState.SSUSP):
        return UNREACHABLE_TEXT
    # One that saves its state to make room goes on with that, else it would be ended in the midst of it.
    is_to_freeze = job.state is not JobState.PEND and not job.has_time_to_save(context.now)
    context.decision.record(_suspended(context, job.job_id))
    if is_to_freeze and job.allocation is not None:
        for part in job.allocation.hosts:
            context.decision.instruct(SuspendAttempt(part.host, job.job_id, job.attempt))
    return ""


def _outranks(context: ControlContext[JobCommand], stopped_by: str, spec: JobSpec) -> bool:
    """An administrator may stop what its owner has stopped, so that the owner cannot resume it."""
    return stopped_by == spec.user != context.command.user and context.caller.administers(spec, context.config)


def _may_resume(context: ControlContext[JobCommand], stopped_by: str, spec: JobSpec) -> bool:
    """What an administrator has stopped only administrators resume, and with ENABLE_USER_RESUME whose job it is."""
    is_own = context.config.params.users_resume and context.command.user == spec.user
    return is_own or stopped_by in ("", spec.user) or context.caller.administers(spec, context.config)


def _resume_denied(context: ControlContext[JobCommand], spec: JobSpec) -> str:
    of_queue = f"administrators of queue {spec.queue}, of whom one has stopped it"
    return denied_to_all_but(of_queue, of_cluster(context.config))


def stop_waiting(context: ControlContext[JobCommand], array: JobArray) -> str:
    if not array.stopped_by or _outranks(context, array.stopped_by, array.spec):
        context.decision.record(_suspended(context, array.array_id))
    return ""


def resume(context: ControlContext[JobCommand], job: JobRecord) -> str:
    if job.state not in (JobState.PSUSP, JobState.USUSP):
        return "" if job.state in (JobState.RUN, JobState.PEND, JobState.SSUSP) else UNREACHABLE_TEXT
    if not _may_resume(context, job.stopped_by, job.spec):
        return _resume_denied(context, job.spec)
    running = job.state is JobState.USUSP
    if job.gave_slots and job.allocation is not None and not slots_are_free(context.state, job.allocation):
        return f"its slots are taken by job {show_job(job.preempted_by)}; it goes on by itself when they are free"
    if not may_go_on(context.state, job):
        return "its GPU is another job's now; it goes on by itself when that is free"
    context.decision.record(_resumed(context, job.job_id))
    if running and job.allocation is not None:
        for part in job.allocation.hosts:
            context.decision.instruct(ResumeAttempt(part.host, job.job_id, job.attempt))
    return ""


def resume_waiting(context: ControlContext[JobCommand], array: JobArray) -> str:
    if not _may_resume(context, array.stopped_by, array.spec):
        return _resume_denied(context, array.spec)
    if array.stopped_by:
        context.decision.record(_resumed(context, array.array_id))
    return ""


def _suspended(context: ControlContext[JobCommand], job_id: int) -> JobSuspended:
    text = context.command.text if isinstance(context.command, StopJobs) else ""
    reason = coded("suspend.by_user_because", text) if text else ""
    return JobSuspended(at=context.now, job_id=job_id, by=context.command.user, reason=reason)


def _resumed(context: ControlContext[JobCommand], job_id: int) -> JobResumed:
    text = context.command.text if isinstance(context.command, ResumeJobs) else ""
    return JobResumed(at=context.now, job_id=job_id, by=context.command.user, reason=text)
