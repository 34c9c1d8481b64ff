"""Stopping and resuming jobs: PSUSP, USUSP and back, and who may lift whose stop. Texts are LSF's.

Each action is one small function on a job; an array's waiting elements are acted on as one.
"""

from __future__ import annotations

from gsched.base.ids import show_job
from gsched.core.authorization import denied_to_all_but, of_cluster
from gsched.core.command import JobCommand
from gsched.core.control.control_context import UNREACHABLE_TEXT, ControlContext
from gsched.core.dispatch.dispatcher import slots_are_free
from gsched.core.instruction import ResumeAttempt, SuspendAttempt
from gsched.core.records.array import JobArray
from gsched.core.records.job import JobRecord
from gsched.model.event import (
    JobResumed,
    JobSuspended,
)
from gsched.model.job import JobSpec, JobState


def stop(desk: ControlContext[JobCommand], job: JobRecord) -> str:
    if job.state in (JobState.PSUSP, JobState.USUSP):
        if _outranks(desk, job.stopped_by, job.spec):
            desk.decision.record(JobSuspended(at=desk.now, job_id=job.job_id, by=desk.command.user))
        return ""
    if job.state not in (JobState.PEND, JobState.RUN, JobState.SSUSP):
        return UNREACHABLE_TEXT
    running = job.state is not JobState.PEND
    desk.decision.record(JobSuspended(at=desk.now, job_id=job.job_id, by=desk.command.user))
    if running and job.allocation is not None:
        for part in job.allocation.hosts:
            desk.decision.instruct(SuspendAttempt(part.host, job.job_id, job.attempt))
    return ""


def _outranks(desk: ControlContext[JobCommand], stopped_by: str, spec: JobSpec) -> bool:
    """An administrator may stop what its owner has stopped, so that the owner cannot resume it."""
    return stopped_by == spec.user != desk.command.user and desk.caller.administers(spec, desk.config)


def _may_resume(desk: ControlContext[JobCommand], stopped_by: str, spec: JobSpec) -> bool:
    """What an administrator has stopped only administrators resume."""
    return stopped_by in ("", spec.user) or desk.caller.administers(spec, desk.config)


def _resume_denied(desk: ControlContext[JobCommand], spec: JobSpec) -> str:
    of_queue = f"administrators of queue {spec.queue}, of whom one has stopped it"
    return denied_to_all_but(of_queue, of_cluster(desk.config))


def stop_waiting(desk: ControlContext[JobCommand], array: JobArray) -> str:
    if not array.stopped_by or _outranks(desk, array.stopped_by, array.spec):
        desk.decision.record(JobSuspended(at=desk.now, job_id=array.array_id, by=desk.command.user))
    return ""


def resume(desk: ControlContext[JobCommand], job: JobRecord) -> str:
    if job.state not in (JobState.PSUSP, JobState.USUSP):
        return "" if job.state in (JobState.RUN, JobState.PEND, JobState.SSUSP) else UNREACHABLE_TEXT
    if not _may_resume(desk, job.stopped_by, job.spec):
        return _resume_denied(desk, job.spec)
    running = job.state is JobState.USUSP
    if job.gave_slots and job.allocation is not None and not slots_are_free(desk.state, job.allocation):
        return f"its slots are taken by job {show_job(job.preempted_by)}; it goes on by itself when they are free"
    desk.decision.record(JobResumed(at=desk.now, job_id=job.job_id, by=desk.command.user))
    if running and job.allocation is not None:
        for part in job.allocation.hosts:
            desk.decision.instruct(ResumeAttempt(part.host, job.job_id, job.attempt))
    return ""


def resume_waiting(desk: ControlContext[JobCommand], array: JobArray) -> str:
    if not _may_resume(desk, array.stopped_by, array.spec):
        return _resume_denied(desk, array.spec)
    if array.stopped_by:
        desk.decision.record(JobResumed(at=desk.now, job_id=array.array_id, by=desk.command.user))
    return ""
