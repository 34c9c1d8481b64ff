"""Killing, signalling, stopping, resuming, requeueing, moving and forcing jobs. Texts are LSF's.

Each action is one small function on a job; an array's waiting elements are acted on as one.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gsched.base.errors import BadRequest
from gsched.base.ids import element_id, index_of, show_job
from gsched.base.indices import of
from gsched.core import attempts, moving
from gsched.core.array import JobArray
from gsched.core.cluster import ClusterState
from gsched.core.command import ControlJobs
from gsched.core.decision import Decision
from gsched.core.dispatch import slots_are_free
from gsched.core.instruction import ResumeAttempt, SignalAttempt, SuspendAttempt, TerminateAttempt
from gsched.core.job import Job
from gsched.core.observed import Observation
from gsched.core.targets import DENIED, Caller, Target, admitted, find
from gsched.model.config import ClusterConfig
from gsched.model.event import (
    ArrayElementsFinished,
    ArrayElementsRequeued,
    JobFinished,
    JobForced,
    JobMessagePosted,
    JobMoved,
    JobNoted,
    JobPostProcessed,
    JobRequeued,
    JobRequeueRequested,
    JobResumed,
    JobSignalRequested,
    JobSuspended,
)
from gsched.model.job import FINISHED, PENDING, STARTED, AttemptResult, JobSpec, JobState
from gsched.model.view import Control, JobFilter

FINISHED_TEXT = "Job has already finished"
WRONG_STATE_TEXT = "Job is not in a state that was asked for"
UNREACHABLE_TEXT = "Host of the job does not answer"
NOT_STARTED_TEXT = "Job has not started yet"
STARTED_TEXT = "Job has already started"
UNREACHABLE = (JobState.UNKWN, JobState.ZOMBI)
MOST_BOX = 128
"""MAX_JOB_MSG_NUM of LSF's lsb.params."""
MOST_TEXT = 512
PENDING_ENDS = (signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
"""Signals that end a job that has not started."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything a control needs at hand."""

    state: ClusterState
    config: ClusterConfig
    command: ControlJobs
    observed: Callable[[str], Observation]
    now: float
    decision: Decision
    moved: dict[int, moving.Place] = field(default_factory=dict)
    """Array, or job that is no element -> the place that it is given: all of an array get the same."""

    @property
    def caller(self) -> Caller:
        return Caller(self.command.user, self.command.is_admin)


def control_jobs(
    state: ClusterState,
    config: ClusterConfig,
    command: ControlJobs,
    observed: Callable[[str], Observation],
    now: float,
    decision: Decision,
) -> None:
    """Reply: a Control for each job, in order."""
    if command.action not in _ACTIONS:
        raise BadRequest(f"'{command.action}' is not something that can be done to a job")
    if command.action == "signal" and not 1 <= command.signal <= signal.SIGRTMAX:
        raise BadRequest(f"{command.signal}: Signal not supported")
    for host in command.hosts:  # before anything is recorded: a refusal must leave all as it was
        if host not in config.hosts:
            raise BadRequest(f"{host}: Bad host name, host group name or cluster name")
    if command.action == "run" and not command.hosts:
        raise BadRequest("Bad argument: -m HOST says where the job is to run")
    desk = Desk(state, config, command, observed, now, decision)
    if command.action == "post" and not 0 <= command.box <= MOST_BOX:
        raise BadRequest(f"Bad argument: message boxes are 0 to {MOST_BOX}")
    if len(command.text) > MOST_TEXT:
        raise BadRequest(
            f"Bad argument: a message has at most {MOST_TEXT} characters, this one has {len(command.text)}"
        )
    if command.action in ("top", "bottom") and command.position < 1:
        raise BadRequest("Bad argument: positions count from 1")
    if command.job_ids:  # each is looked up when its turn has come: what is done to one may change another
        targets: Iterable[Target] = (find(state, job_id) for job_id in command.job_ids)
    else:
        targets = admitted(state, desk.caller, command.wanted or JobFilter())
    decision.reply = [_carry_out(desk, target) for target in targets]


def _carry_out(desk: Desk, target: Target) -> Control:
    """An array succeeds when something could be done to one of its elements."""
    if target.ended_in is not None and desk.command.action == "requeue":
        return Control(job_id=target.job_id, error=_requeue_ended(desk, target.ended_in, [index_of(target.job_id)]))
    if target.error:
        return Control(job_id=target.job_id, error=target.error)
    act, act_on_waiting = _ACTIONS[desk.command.action]
    desk.moved.clear()
    answers = []
    if target.array is not None and (target.array.count or _has_ended_unstarted(desk, target.array)):
        may = desk.caller.may_touch(target.array.spec, desk.config)
        answers.append(act_on_waiting(desk, target.array) if may else DENIED)
    jobs = [job for job in target.jobs if target.array is None or _is_meant(desk, job)]
    for job in reversed(jobs) if desk.command.action == "top" else jobs:  # elements keep their order
        may = desk.caller.may_touch(job.spec, desk.config)
        answers.append(_act(desk, act, job) if may else DENIED)
    error = "" if not answers or "" in answers else answers[0]
    if target.array is not None and not answers:
        error = FINISHED_TEXT
    return Control(job_id=target.job_id, error=error)


def _is_meant(desk: Desk, job: Job) -> bool:
    """Of an array only those elements that the action is for; a single job is told why it is not."""
    if desk.command.action == "post":
        return True
    return job.state not in FINISHED or (desk.command.action == "requeue" and job.state.value in desk.command.states)


def _act(desk: Desk, act: Callable[[Desk, Job], str], job: Job) -> str:
    if job.state in FINISHED and desk.command.action not in ("requeue", "post"):
        return FINISHED_TEXT
    if job.state in UNREACHABLE and desk.command.action == "signal" and desk.command.signal == signal.SIGKILL:
        _remove(desk, job)
        return ""
    return act(desk, job)


# -- ending -----------------------------------------------------------------------------------------------------------


def _kill(desk: Desk, job: Job) -> str:
    if desk.command.text:
        text = f"Job termination reason: {desk.command.text}"
        desk.decision.record(JobNoted(at=desk.now, job_id=job.job_id, text=text, is_warning=False))
    if not job.kill_by or job.state is JobState.UNKWN:
        as_done = desk.command.as_done and job.state not in PENDING
        desk.decision.record(
            JobSignalRequested(at=desk.now, job_id=job.job_id, by=desk.command.user, signal=0, as_done=as_done)
        )
    if job.state in PENDING:
        end_pending(job, _ended_by("TERM", desk.command, job.spec.user), desk.now, desk.decision)
        return ""
    assert job.allocation is not None
    for part in job.allocation.hosts:
        desk.decision.instruct(TerminateAttempt(part.host, job.job_id, job.attempt, attempts.ending_reason(job)))
    return ""


def end_pending(job: Job, term_reason: str, now: float, decision: Decision, problem: str = "") -> None:
    """A job that has not started is over."""
    result = AttemptResult(started=False, ended_at=now, term_reason=term_reason, problem=problem)
    decision.record(JobFinished(at=now, job_id=job.job_id, attempt=job.attempt, result=result))
    decision.record(JobPostProcessed(at=now, job_id=job.job_id, attempt=job.attempt))


def end_waiting(array: JobArray, term_reason: str, now: float, decision: Decision, problem: str = "") -> None:
    """The elements of the array that have not started are over."""
    result = AttemptResult(started=False, ended_at=now, term_reason=term_reason, problem=problem)
    indices = str(of(list(array.waiting())))
    decision.record(ArrayElementsFinished(at=now, job_id=array.array_id, indices=indices, result=result))


def _kill_waiting(desk: Desk, array: JobArray) -> str:
    desk.decision.record(JobSignalRequested(at=desk.now, job_id=array.array_id, by=desk.command.user, signal=0))
    end_waiting(array, _ended_by("TERM", desk.command, array.spec.user), desk.now, desk.decision)
    return ""


def _ended_by(kind: str, command: ControlJobs, owner: str) -> str:
    """TERM_OWNER, TERM_FORCE_ADMIN …"""
    return f"{kind}_{'OWNER' if command.user == owner else 'ADMIN'}"


def _signal(desk: Desk, job: Job) -> str:
    # Stopping and continuing change a job's state, so they are not merely passed on.
    number = desk.command.signal
    if number in (signal.SIGSTOP, signal.SIGTSTP):
        return _stop(desk, job)
    if number == signal.SIGCONT:
        return _resume(desk, job)
    if job.state in PENDING:
        return _kill(desk, job) if number in PENDING_ENDS else NOT_STARTED_TEXT
    assert job.allocation is not None
    desk.decision.record(JobSignalRequested(at=desk.now, job_id=job.job_id, by=desk.command.user, signal=number))
    reason = attempts.ending_reason(job) or _ended_by("TERM", desk.command, job.spec.user)
    for part in job.allocation.hosts:
        desk.decision.instruct(SignalAttempt(part.host, job.job_id, job.attempt, number, reason))
    return ""


def _signal_waiting(desk: Desk, array: JobArray) -> str:
    number = desk.command.signal
    if number in (signal.SIGSTOP, signal.SIGTSTP):
        return _stop_waiting(desk, array)
    if number == signal.SIGCONT:
        return _resume_waiting(desk, array)
    return _kill_waiting(desk, array) if number in PENDING_ENDS else NOT_STARTED_TEXT


def _remove(desk: Desk, job: Job) -> None:
    """End a job whose host does not answer. It may still run there, so what it holds there stays reserved."""
    allocation, key = job.allocation, job.key
    assert allocation is not None
    number = desk.command.signal
    desk.decision.record(JobSignalRequested(at=desk.now, job_id=job.job_id, by=desk.command.user, signal=number))
    result = AttemptResult(
        started=job.started_at is not None,
        ended_at=desk.now,
        term_reason=_ended_by("TERM_FORCE", desk.command, job.spec.user),
        problem=f"removed while {allocation.first_host} did not answer; how the job ended is not known",
    )
    desk.decision.record(JobFinished(at=desk.now, job_id=job.job_id, attempt=job.attempt, result=result))
    for part in allocation.hosts:
        attempts.keep_stray(desk.state, desk.observed(part.host), part.host, key, part)
        desk.decision.instruct(SignalAttempt(part.host, *key, number))


# -- stopping and going on --------------------------------------------------------------------------------------------


def _stop(desk: Desk, job: Job) -> str:
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


def _outranks(desk: Desk, stopped_by: str, spec: JobSpec) -> bool:
    """An administrator may stop what its owner has stopped, so that the owner cannot resume it."""
    return stopped_by == spec.user != desk.command.user and desk.caller.administers(spec, desk.config)


def _may_resume(desk: Desk, stopped_by: str, spec: JobSpec) -> bool:
    """What an administrator has stopped only administrators resume."""
    return stopped_by in ("", spec.user) or desk.caller.administers(spec, desk.config)


def _stop_waiting(desk: Desk, array: JobArray) -> str:
    if not array.stopped_by or _outranks(desk, array.stopped_by, array.spec):
        desk.decision.record(JobSuspended(at=desk.now, job_id=array.array_id, by=desk.command.user))
    return ""


def _resume(desk: Desk, job: Job) -> str:
    if job.state not in (JobState.PSUSP, JobState.USUSP):
        return "" if job.state in (JobState.RUN, JobState.PEND, JobState.SSUSP) else UNREACHABLE_TEXT
    if not _may_resume(desk, job.stopped_by, job.spec):
        return DENIED
    running = job.state is JobState.USUSP
    if job.gave_slots and job.allocation is not None and not slots_are_free(desk.state, job.allocation):
        return f"its slots are taken by job {show_job(job.preempted_by)}; it goes on by itself when they are free"
    desk.decision.record(JobResumed(at=desk.now, job_id=job.job_id, by=desk.command.user))
    if running and job.allocation is not None:
        for part in job.allocation.hosts:
            desk.decision.instruct(ResumeAttempt(part.host, job.job_id, job.attempt))
    return ""


def _resume_waiting(desk: Desk, array: JobArray) -> str:
    if not _may_resume(desk, array.stopped_by, array.spec):
        return DENIED
    if array.stopped_by:
        desk.decision.record(JobResumed(at=desk.now, job_id=array.array_id, by=desk.command.user))
    return ""


# -- requeueing -------------------------------------------------------------------------------------------------------


def _requeue(desk: Desk, job: Job) -> str:
    command = desk.command
    if not _is_asked_for(command.states, job.state):
        if job.state in PENDING:
            return NOT_STARTED_TEXT
        return FINISHED_TEXT if job.state in FINISHED and not command.states else WRONG_STATE_TEXT
    if job.state in FINISHED:
        desk.decision.record(
            JobRequeued(
                at=desk.now,
                job_id=job.job_id,
                attempt=job.attempt,
                reason="Job has been requeued",
                failed_start=False,
                by=command.user,
                hold=command.hold,
            )
        )
        return ""
    if job.state in UNREACHABLE:
        return UNREACHABLE_TEXT
    assert job.allocation is not None
    if not job.requeue_by:
        desk.decision.record(JobRequeueRequested(at=desk.now, job_id=job.job_id, by=command.user, hold=command.hold))
    for part in job.allocation.hosts:
        desk.decision.instruct(TerminateAttempt(part.host, job.job_id, job.attempt, attempts.ending_reason(job)))
    return ""


def _is_asked_for(states: tuple[str, ...], state: JobState) -> bool:
    """RUN means every started job, suspended or not; nothing said means RUN."""
    return (state in STARTED and (not states or "RUN" in states)) or state.value in states


def _has_ended_unstarted(desk: Desk, array: JobArray) -> bool:
    """Whether a requeue of the array is for elements that ended without having been started."""
    command = desk.command
    return command.action == "requeue" and JobState.EXIT.value in command.states and bool(array.unstarted)


def _requeue_waiting(desk: Desk, array: JobArray) -> str:
    return _requeue_ended(desk, array, array.ended_unstarted()) if array.unstarted else NOT_STARTED_TEXT


def _requeue_ended(desk: Desk, array: JobArray, indices: list[int]) -> str:
    """Elements that ended without having been started; those that wait already are held, or not, as they were."""
    command, now, number = desk.command, desk.now, array.array_id
    if not _has_ended_unstarted(desk, array):
        return NOT_STARTED_TEXT if array.count else FINISHED_TEXT
    if not desk.caller.may_touch(array.spec, desk.config):
        return DENIED
    others, was_held = array.count, bool(array.stopped_by)
    desk.decision.record(
        ArrayElementsRequeued(
            at=now, job_id=number, indices=str(of(sorted(indices))), by=command.user, hold=command.hold and not others
        )
    )
    if others and command.hold != was_held:
        for index in indices:
            kind = JobSuspended if command.hold else JobResumed
            desk.decision.record(kind(at=now, job_id=element_id(number, index), by=command.user))
    return ""


# -- order ------------------------------------------------------------------------------------------------------------


def _move(desk: Desk, job: Job) -> str:
    if job.state is not JobState.PEND:
        return STARTED_TEXT if job.state in STARTED else "Job is suspended"
    _record_move(desk, job, job.job_id)
    return ""


def _move_waiting(desk: Desk, array: JobArray) -> str:
    if array.stopped_by:
        return "Job is suspended"
    _record_move(desk, array.template(), array.array_id, whole=True)
    return ""


def _record_move(desk: Desk, job: Job, number: int, *, whole: bool = False) -> None:
    command = desk.command
    place = desk.moved.get(job.array_id)
    if place is None:
        everybody = desk.caller.rules_queue(job.spec.queue, desk.config)
        to_top = command.action == "top"
        place = moving.place_at(desk.state, job, command.position, to_top=to_top, everybody=everybody, whole=whole)
        if whole:
            desk.moved[number] = place
    desk.decision.record(
        JobMoved(
            at=desk.now,
            job_id=number,
            by=command.user,
            order=place.order,
            position=command.position,
            to_top=command.action == "top",
            ages_from=place.ages_from or None,
        )
    )


def _run(desk: Desk, job: Job) -> str:
    """grun: administrators only, on named hosts, now."""
    if not desk.command.is_admin:
        return DENIED
    if job.state is not JobState.PEND:
        return STARTED_TEXT if job.state in STARTED else "Job is suspended"
    desk.decision.record(JobForced(at=desk.now, job_id=job.job_id, by=desk.command.user, hosts=desk.command.hosts))
    return ""


# -- messages ---------------------------------------------------------------------------------------------------------


def _post(desk: Desk, job: Job) -> str:
    command = desk.command
    desk.decision.record(
        JobMessagePosted(at=desk.now, job_id=job.job_id, user=command.user, box=command.box, text=command.text)
    )
    return ""


def _whole_array(desk: Desk, array: JobArray) -> str:
    return "Cannot operate on a whole array: name an element"


_Act = tuple[Callable[[Desk, Job], str], Callable[[Desk, JobArray], str]]
_ACTIONS: dict[str, _Act] = {
    "kill": (_kill, _kill_waiting),
    "signal": (_signal, _signal_waiting),
    "stop": (_stop, _stop_waiting),
    "resume": (_resume, _resume_waiting),
    "requeue": (_requeue, _requeue_waiting),
    "top": (_move, _move_waiting),
    "bottom": (_move, _move_waiting),
    "run": (_run, _whole_array),
    "post": (_post, _whole_array),
}
