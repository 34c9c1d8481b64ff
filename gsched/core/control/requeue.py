"""grequeue: jobs that run, or have ended, wait again. Texts are LSF's.

Each action is one small function on a job; an array's waiting elements are acted on as one.
"""

from __future__ import annotations

from gsched.base.coded_text import coded
from gsched.base.ids import element_id
from gsched.base.indices import of
from gsched.core.attempts import attempt_results
from gsched.core.authorization import job_denied
from gsched.core.command import JobCommand, RequeueJobs
from gsched.core.control.control_context import (
    FINISHED_TEXT,
    NOT_STARTED_TEXT,
    UNREACHABLE,
    UNREACHABLE_TEXT,
    WRONG_STATE_TEXT,
    ControlContext,
)
from gsched.core.instruction import TerminateAttempt
from gsched.core.records.array import JobArray
from gsched.core.records.job import JobRecord
from gsched.model.event import (
    ArrayElementsRequeued,
    JobRequeued,
    JobRequeueRequested,
    JobResumed,
    JobSuspended,
)
from gsched.model.jobs.job import FINISHED, PENDING, STARTED, JobState

INTERACTIVE_TEXT = "Interactive job cannot be rerunnable"
"""The command that was its terminal is gone."""


def requeue(context: ControlContext[RequeueJobs], job: JobRecord) -> str:
    command = context.command
    if not _is_asked_for(command.states, job.state):
        if job.state in PENDING:
            return NOT_STARTED_TEXT
        return FINISHED_TEXT if job.state in FINISHED and not command.states else WRONG_STATE_TEXT
    if job.state in FINISHED:
        if job.spec.interactive:
            return INTERACTIVE_TEXT
        context.decision.record(
            JobRequeued(
                at=context.now,
                job_id=job.job_id,
                attempt=job.attempt,
                reason=coded("requeue.asked"),
                failed_start=False,
                by=command.user,
                hold=command.hold,
            )
        )
        return ""
    if job.state in UNREACHABLE:
        return UNREACHABLE_TEXT
    assert job.allocation is not None
    if not job.requeue_by or job.saves_for_another or job.is_resizing:
        context.decision.record(
            JobRequeueRequested(at=context.now, job_id=job.job_id, by=command.user, hold=command.hold)
        )
    for part in job.allocation.hosts:
        context.decision.instruct(
            TerminateAttempt(part.host, job.job_id, job.attempt, attempt_results.ending_reason(job))
        )
    return ""


def _is_asked_for(states: tuple[str, ...], state: JobState) -> bool:
    """RUN means every started job, suspended or not; nothing said means RUN."""
    return (state in STARTED and (not states or "RUN" in states)) or state.value in states


def has_ended_unstarted(context: ControlContext[JobCommand], array: JobArray) -> bool:
    """Whether a requeue of the array is for elements that ended without having been started."""
    command = context.command
    return isinstance(command, RequeueJobs) and JobState.EXIT.value in command.states and bool(array.unstarted)


def requeue_waiting(context: ControlContext[RequeueJobs], array: JobArray) -> str:
    return requeue_ended(context, array, array.ended_unstarted()) if array.unstarted else NOT_STARTED_TEXT


def requeue_ended(context: ControlContext[RequeueJobs], array: JobArray, indices: list[int]) -> str:
    """Elements that ended without having been started; those that wait already are held, or not, as they were."""
    command, now, number = context.command, context.now, array.array_id
    if not has_ended_unstarted(context, array):
        return NOT_STARTED_TEXT if array.count else FINISHED_TEXT
    if not context.caller.may_touch(array.spec, context.config):
        return job_denied(array.spec, context.config)
    others, was_held = array.count, bool(array.stopped_by)
    context.decision.record(
        ArrayElementsRequeued(
            at=now, job_id=number, indices=str(of(sorted(indices))), by=command.user, hold=command.hold and not others
        )
    )
    if others and command.hold != was_held:
        for index in indices:
            kind = JobSuspended if command.hold else JobResumed
            context.decision.record(kind(at=now, job_id=element_id(number, index), by=command.user))
    return ""
