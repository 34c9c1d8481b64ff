"""Applying events: one small function per kind of event, and nothing else changes the state.

It computes nothing anew (times, allocations, reasons come from the event), so a replay gives the same state. It never
decides; an event that does not fit the state raises IllegalEvent and leaves the state as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from gsched.core.job import Job
from gsched.model.event import (
    AnyEvent,
    ConfigApplied,
    HostClosed,
    HostOpened,
    JobDispatched,
    JobEvent,
    JobFinished,
    JobForgotten,
    JobMessagePosted,
    JobNoted,
    JobPostProcessed,
    JobRequeued,
    JobResumed,
    JobSignalRequested,
    JobStarted,
    JobStatusLost,
    JobStatusRegained,
    JobSubmitted,
    JobSuspended,
    StaleResultRecorded,
)
from gsched.model.job import FINISHED, PENDING, STARTED, TRANSITIONS, JobState
from gsched.model.view import Message

if TYPE_CHECKING:
    from gsched.core.cluster import ClusterState


ENDING = (0, 9)
"""Signals that are meant to end a job: 0 stands for "terminate"."""


class IllegalEvent(Exception):
    """The event cannot follow what the state holds; the text names the job and both."""


def apply(state: ClusterState, event: AnyEvent) -> None:
    """Change `state` by one event. Raises IllegalEvent."""
    _APPLY[type(event)](state, event)


def _move(job: Job, new: JobState, event: JobEvent) -> None:
    if new not in TRANSITIONS[job.state]:
        raise IllegalEvent(f"job {job.job_id} is {job.state} and cannot become {new} by {type(event).__name__}")
    job.state = new


def _current(job: Job, attempt: int, event: JobEvent) -> None:
    if job.attempt != attempt:
        raise IllegalEvent(
            f"{type(event).__name__} is about attempt {attempt} of job {job.job_id}, which is at {job.attempt}"
        )


def _refuse(job: Job, event: JobEvent) -> NoReturn:
    raise IllegalEvent(f"{type(event).__name__} does not fit job {job.job_id}, which is {job.state}")


def _submitted(state: ClusterState, event: JobSubmitted) -> None:
    if event.job_id in state.jobs:
        raise IllegalEvent(f"job {event.job_id} was submitted twice")
    if event.token and event.place in state.tokens.get(event.token, {}):
        raise IllegalEvent(f"job {event.job_id} repeats place {event.place} of submission {event.token}")
    job = Job(
        job_id=event.job_id,
        spec=event.spec,
        state=JobState.PSUSP if event.spec.hold else JobState.PEND,
        submitted_at=event.at,
        token=event.token,
        place=event.place,
    )
    state.add(job)


def _dispatched(state: ClusterState, event: JobDispatched) -> None:
    job = state.job(event.job_id)
    if event.attempt != job.attempt + 1:
        raise IllegalEvent(f"attempt {event.attempt} of job {job.job_id} does not follow attempt {job.attempt}")
    if job.state is not JobState.PEND:
        _refuse(job, event)
    if not event.allocation.hosts or len({part.host for part in event.allocation.hosts}) < len(event.allocation.hosts):
        raise IllegalEvent(f"job {job.job_id} is given {event.allocation}, which is not one part on each host")
    for part in event.allocation.hosts:
        if state.ledger.holds(part.host, (job.job_id, event.attempt)):
            raise IllegalEvent(f"attempt {event.attempt} of job {job.job_id} already holds something on {part.host}")
    state.unqueue(job)
    job.state = JobState.RUN
    job.attempt = event.attempt
    job.allocation = event.allocation
    job.effective_req = event.effective_req
    job.dispatched_at = event.at
    state.hold(job)


def _started(state: ClusterState, event: JobStarted) -> None:
    job = state.job(event.job_id)
    _current(job, event.attempt, event)
    if job.state not in STARTED or job.started_at is not None:
        _refuse(job, event)
    job.started_at = event.at
    job.pid = event.pid
    job.exec_home, job.exec_cwd, job.boot_id = event.home, event.cwd, event.boot_id


def _message_posted(state: ClusterState, event: JobMessagePosted) -> None:
    job = state.job(event.job_id)
    message = Message(box=event.box, user=event.user, posted_at=event.at, text=event.text)
    job.messages = sorted([*(old for old in job.messages if old.box != event.box), message], key=lambda item: item.box)


def _noted(state: ClusterState, event: JobNoted) -> None:
    job = state.job(event.job_id)
    if event.is_warning:
        job.notes.append(event.text)


def _finished(state: ClusterState, event: JobFinished) -> None:
    job = state.job(event.job_id)
    _current(job, event.attempt, event)
    was_pending = job.state in PENDING
    new = JobState.DONE if event.result.succeeded and event.result.started else JobState.EXIT
    if new not in TRANSITIONS[job.state]:
        _refuse(job, event)
    if job.state is JobState.PEND:
        state.unqueue(job)
    elif not was_pending:
        state.release(job)
    job.state = new
    job.known_state = None
    job.result = event.result
    job.finished_at = event.at
    state.note_end(job)


def _post_processed(state: ClusterState, event: JobPostProcessed) -> None:
    job = state.job(event.job_id)
    _current(job, event.attempt, event)
    if job.state not in FINISHED:
        _refuse(job, event)
    job.post_processed = True


def _requeued(state: ClusterState, event: JobRequeued) -> None:
    job = state.job(event.job_id)
    _current(job, event.attempt, event)
    if job.state not in STARTED:
        _refuse(job, event)
    _move(job, JobState.PEND, event)
    state.release(job)
    job.allocation, job.effective_req, job.known_state = None, "", None
    job.dispatched_at = job.started_at = job.pid = None
    job.boot_id = job.exec_home = job.exec_cwd = ""
    job.failed_starts += 1
    job.avoid_host, job.not_before = event.avoid_host, event.not_before
    job.kill_by = job.stopped_by = ""
    state.enqueue(job)


def _suspended(state: ClusterState, event: JobSuspended) -> None:
    job = state.job(event.job_id)
    if job.state is JobState.PEND:
        state.unqueue(job)
        job.state = JobState.PSUSP
    elif job.state in (JobState.RUN, JobState.SSUSP):
        job.state = JobState.USUSP
        state.touch_hosts(job)
    else:
        _refuse(job, event)
    job.stopped_by = event.by


def _resumed(state: ClusterState, event: JobResumed) -> None:
    job = state.job(event.job_id)
    if job.state is JobState.PSUSP:
        job.state = JobState.PEND
        state.enqueue(job)
    elif job.state is JobState.USUSP:
        job.state = JobState.RUN
        state.touch_hosts(job)
    else:
        _refuse(job, event)
    job.stopped_by = ""


def _signal_requested(state: ClusterState, event: JobSignalRequested) -> None:
    """Who asked for the end is remembered; a job whose host does not answer becomes a ZOMBI by it."""
    job = state.job(event.job_id)
    if job.state in FINISHED:
        _refuse(job, event)
    if event.signal not in ENDING:
        return
    job.kill_by = event.by
    if job.state is JobState.UNKWN:
        job.state = JobState.ZOMBI
        job.known_state = None


def _status_lost(state: ClusterState, event: JobStatusLost) -> None:
    job = state.job(event.job_id)
    before = job.state
    _move(job, JobState.UNKWN, event)
    job.known_state = before
    state.touch_hosts(job)


def _status_regained(state: ClusterState, event: JobStatusRegained) -> None:
    job = state.job(event.job_id)
    if job.state is not JobState.UNKWN or job.known_state is None:
        _refuse(job, event)
    job.state = job.known_state
    job.known_state = None
    state.touch_hosts(job)


def _forgotten(state: ClusterState, event: JobForgotten) -> None:
    job = state.job(event.job_id)
    if job.state not in FINISHED:
        _refuse(job, event)
    state.remove(job)


def _stale_result(state: ClusterState, event: StaleResultRecorded) -> None:
    """Only a record, and that it was made: the job has moved on."""
    job = state.jobs.get(event.job_id)
    if job is not None and event.attempt not in job.stale:
        job.stale.append(event.attempt)


def _host_closed(state: ClusterState, event: HostClosed) -> None:
    state.closed_hosts[event.host] = (event.by, event.comment)


def _host_opened(state: ClusterState, event: HostOpened) -> None:
    state.closed_hosts.pop(event.host, None)


def _config_applied(state: ClusterState, event: ConfigApplied) -> None:
    state.config_digest = event.digest


_APPLY: dict[type, Callable[[ClusterState, Any], None]] = {
    JobSubmitted: _submitted,
    JobDispatched: _dispatched,
    JobStarted: _started,
    JobMessagePosted: _message_posted,
    JobNoted: _noted,
    JobFinished: _finished,
    JobPostProcessed: _post_processed,
    JobRequeued: _requeued,
    JobSuspended: _suspended,
    JobResumed: _resumed,
    JobSignalRequested: _signal_requested,
    JobStatusLost: _status_lost,
    JobStatusRegained: _status_regained,
    JobForgotten: _forgotten,
    StaleResultRecorded: _stale_result,
    HostClosed: _host_closed,
    HostOpened: _host_opened,
    ConfigApplied: _config_applied,
}
