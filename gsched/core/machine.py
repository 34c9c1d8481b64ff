"""Applying events: one small function per kind of event, and nothing else changes the state.

It computes nothing anew (times, allocations, reasons come from the event), so a replay gives the same state. It never
decides; an event that does not fit the state raises IllegalEvent and leaves the state as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from gsched.base.ids import index_of
from gsched.core.array import JobArray, UnstartedEnd, indices_of
from gsched.core.job import AT_HEAD, Job
from gsched.model.event import (
    AnyEvent,
    ArrayElementsFinished,
    ConfigApplied,
    HostClosed,
    HostOpened,
    JobDispatched,
    JobEvent,
    JobFinished,
    JobForced,
    JobForgotten,
    JobGroupMade,
    JobGroupRemoved,
    JobMessagePosted,
    JobModified,
    JobMoved,
    JobNoted,
    JobPostProcessed,
    JobReleased,
    JobRequeued,
    JobRequeueRequested,
    JobResumed,
    JobSignalRequested,
    JobStarted,
    JobStatusLost,
    JobStatusRegained,
    JobSubmitted,
    JobSuspended,
    JobSwitched,
    QueueControlled,
    ReservationMade,
    ReservationRemoved,
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
    if event.spec.indices:
        array = JobArray(
            array_id=event.job_id,
            spec=event.spec,
            submitted_at=event.at,
            token=event.token,
            place=event.place,
            order=float(event.job_id),
            left=indices_of(event.spec.indices).count,
            stopped_by=event.spec.user if event.spec.hold else "",
        )
        state.add_array(array)
        return
    job = Job(
        job_id=event.job_id,
        spec=event.spec,
        state=JobState.PSUSP if event.spec.hold else JobState.PEND,
        submitted_at=event.at,
        token=event.token,
        place=event.place,
        order=float(event.job_id),
    )
    state.add(job)


def _released(state: ClusterState, event: JobReleased) -> None:
    array = state.arrays.get(event.job_id)
    if array is not None:
        _rearranged(state, array, released=True)
        return
    job = state.job(event.job_id)
    if job.state is not JobState.PEND:
        job.released = True  # suspended while it waited: it need not wait again
        return
    state.unqueue(job)
    job.released = True
    state.enqueue(job)


def _rearranged(state: ClusterState, array: JobArray, **changes: object) -> None:
    """The waiting elements of an array are something else from now on."""
    state.unqueue_array(array)
    for name, value in changes.items():
        setattr(array, name, value)
    state.enqueue_array(array)


def _changed(state: ClusterState, event: JobModified | JobSwitched) -> None:
    """Another spec. What a started job holds, and what counts it, follows."""
    array = state.arrays.get(event.job_id)
    if array is not None:
        state.join_group(event.spec.group, 1)
        state.join_group(array.spec.group, -1)
        is_released = array.released and event.spec.conditions == array.spec.conditions
        _rearranged(state, array, spec=event.spec, released=is_released, waited_s=0.0)
        _mind(state, event.job_id, event.spec.terminate_at)
        return
    job = state.job(event.job_id)
    if job.state in FINISHED:
        _refuse(job, event)
    if not index_of(job.job_id):
        state.join_group(event.spec.group, 1)
        state.join_group(job.spec.group, -1)
    is_waiting, holds = job.state is JobState.PEND, job.state in STARTED
    if is_waiting:
        state.unqueue(job)
    elif holds:
        state.release(job)
    job.released = job.released and event.spec.conditions == job.spec.conditions
    job.spec = event.spec
    job.waited_s = 0.0
    if is_waiting:
        state.enqueue(job)
    elif holds:
        state.hold(job)
    _mind(state, job.job_id, event.spec.terminate_at)


def _mind(state: ClusterState, job_id: int, terminate_at: float | None) -> None:
    if terminate_at is None:
        state.deadlines.pop(job_id, None)
    else:
        state.deadlines[job_id] = terminate_at


def _moved(state: ClusterState, event: JobMoved) -> None:
    array = state.arrays.get(event.job_id)
    if array is not None:
        _rearranged(state, array, order=event.order)
        return
    job = state.job(event.job_id)
    if job.state is not JobState.PEND:
        _refuse(job, event)
    state.unqueue(job)
    job.order = event.order
    state.enqueue(job)


def _forced(state: ClusterState, event: JobForced) -> None:
    job = state.job(event.job_id)
    if job.state is not JobState.PEND:
        _refuse(job, event)
    state.unqueue(job)
    job.forced_hosts = event.hosts
    state.enqueue(job)


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
    job.forced_hosts = ()
    state.hold(job)
    state.accounts.started(job.job_id, job.spec, event.allocation, event.at)


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
    job.requeue_by, job.preempted_by, job.suspend_reason = "", 0, ""
    _over(state, job, event)


def _over(state: ClusterState, job: Job, event: JobFinished) -> None:
    state.deadlines.pop(job.job_id, None)
    state.accounts.ended(job.job_id, event.at, event.result.usage.cpu_s)
    array = state.arrays.get(job.array_id)
    if array is None:
        state.note_end(job.job_id, event.at)
    else:
        state.element_ended(array, event.at)


def _elements_finished(state: ClusterState, event: ArrayElementsFinished) -> None:
    """Elements that were never more than a number in their array's record end together."""
    array = state.arrays.get(event.job_id)
    indices = indices_of(event.indices)
    if array is None or not all(array.has_waiting(index) for index in indices):
        raise IllegalEvent(f"elements {event.indices} of array {event.job_id} do not all wait")
    state.unqueue_array(array)
    for index in indices:
        array.take(index)
    array.unstarted.append(UnstartedEnd(event.indices, event.at, event.result))
    array.counts["EXIT"] = array.counts.get("EXIT", 0) + indices.count
    state.enqueue_array(array)
    state.element_ended(array, event.at, indices.count)


def _post_processed(state: ClusterState, event: JobPostProcessed) -> None:
    job = state.job(event.job_id)
    _current(job, event.attempt, event)
    if job.state not in FINISHED:
        _refuse(job, event)
    job.post_processed = True


def _requeue_requested(state: ClusterState, event: JobRequeueRequested) -> None:
    job = state.job(event.job_id)
    if job.state not in STARTED:
        _refuse(job, event)
    job.requeue_by, job.requeue_hold = event.by, event.hold
    if event.preempted_by:
        job.preempted_by = event.preempted_by
        job.preempted += 1


def _requeued(state: ClusterState, event: JobRequeued) -> None:
    job = state.job(event.job_id)
    _current(job, event.attempt, event)
    was_over = job.state in FINISHED
    _move(job, JobState.PSUSP if event.hold else JobState.PEND, event)
    if was_over:
        _reopen(state, job)
    else:
        state.release(job)
        state.accounts.ended(job.job_id, event.at, event.result.usage.cpu_s if event.result else 0.0)
    _forget_attempt(job)
    if event.failed_start:
        job.failed_starts += 1
    else:
        job.requeues += 1
    job.avoid_host, job.not_before = event.avoid_host, event.not_before
    if event.exclude_host and event.exclude_host not in job.excluded_hosts:
        job.excluded_hosts = (*job.excluded_hosts, event.exclude_host)
    job.stopped_by = event.by if event.hold else ""
    if event.at_head and job.order > 0:
        job.order -= AT_HEAD
    if not event.hold:
        state.enqueue(job)


def _forget_attempt(job: Job) -> None:
    """What belonged to the attempt that is over."""
    job.allocation, job.effective_req, job.known_state = None, "", None
    job.dispatched_at = job.started_at = job.pid = None
    job.boot_id = job.exec_home = job.exec_cwd = ""
    job.finished_at, job.result, job.post_processed = None, None, False
    job.kill_by = job.requeue_by = job.suspend_reason = ""
    job.requeue_hold, job.preempted_by = False, 0


def _reopen(state: ClusterState, job: Job) -> None:
    """A finished job is to run again."""
    _mind(state, job.job_id, job.spec.terminate_at)
    array = state.arrays.get(job.array_id)
    if array is not None:
        array.left += 1


def _suspended(state: ClusterState, event: JobSuspended) -> None:
    array = state.arrays.get(event.job_id)
    if array is not None:
        state.unqueue_array(array)
        array.stopped_by = event.by
        return
    job = state.job(event.job_id)
    if job.state is JobState.PEND:
        state.unqueue(job)
        job.state = JobState.PSUSP
    elif event.by_system and job.state is JobState.RUN:
        job.state = JobState.SSUSP
        job.suspend_reason = event.reason
        _preempt(state, job, event)
    elif not event.by_system and job.state in (JobState.RUN, JobState.SSUSP):
        job.state = JobState.USUSP
    else:
        _refuse(job, event)
    state.touch_hosts(job)
    job.stopped_by = event.by


def _preempt(state: ClusterState, job: Job, event: JobSuspended) -> None:
    if not event.preempted_by:
        return
    assert job.allocation is not None
    job.preempted_by = event.preempted_by
    job.preempted += 1
    state.ledger.suspend(job.key, job.allocation)


def _resumed(state: ClusterState, event: JobResumed) -> None:
    array = state.arrays.get(event.job_id)
    if array is not None:
        array.stopped_by = ""
        state.enqueue_array(array)
        return
    job = state.job(event.job_id)
    if job.state is JobState.PSUSP:
        job.state = JobState.PEND
        state.enqueue(job)
    elif job.state in (JobState.USUSP, JobState.SSUSP):
        if job.preempted_by and job.allocation is not None:
            state.ledger.resume(job.key, job.allocation)
        job.state = JobState.RUN
        job.preempted_by, job.suspend_reason = 0, ""
        state.touch_hosts(job)
    else:
        _refuse(job, event)
    job.stopped_by = ""


def _signal_requested(state: ClusterState, event: JobSignalRequested) -> None:
    """Who asked for the end is remembered; a job whose host does not answer becomes a ZOMBI by it."""
    if event.job_id in state.arrays:
        return
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
    array = state.arrays.get(event.job_id)
    if array is not None and not array.is_over():
        raise IllegalEvent(f"array {event.job_id} is to be forgotten, and {array.left} of its elements are not over")
    if array is None:
        job = state.job(event.job_id)
        if job.state not in FINISHED:
            _refuse(job, event)
    state.remove(event.job_id)


def _stale_result(state: ClusterState, event: StaleResultRecorded) -> None:
    """Only a record, and that it was made: the job has moved on."""
    job = state.jobs.get(event.job_id)
    if job is not None and event.attempt not in job.stale:
        job.stale.append(event.attempt)


def _host_closed(state: ClusterState, event: HostClosed) -> None:
    state.closed_hosts[event.host] = (event.by, event.comment)


def _host_opened(state: ClusterState, event: HostOpened) -> None:
    state.closed_hosts.pop(event.host, None)


def _queue_controlled(state: ClusterState, event: QueueControlled) -> None:
    state.set_queue(event.queue, event.is_open, event.is_active, event.comment)


def _group_made(state: ClusterState, event: JobGroupMade) -> None:
    state.make_group(event.group, event.job_limit, event.by)


def _group_removed(state: ClusterState, event: JobGroupRemoved) -> None:
    if state.groups.pop(event.group, None) is None:
        raise IllegalEvent(f"there is no job group {event.group}")


def _reservation_made(state: ClusterState, event: ReservationMade) -> None:
    state.make_reservation(event)


def _reservation_removed(state: ClusterState, event: ReservationRemoved) -> None:
    if state.reservations.pop(event.name, None) is None:
        raise IllegalEvent(f"there is no reservation {event.name}")


def _config_applied(state: ClusterState, event: ConfigApplied) -> None:
    state.config_digest = event.digest


_APPLY: dict[type, Callable[[ClusterState, Any], None]] = {
    JobSubmitted: _submitted,
    JobReleased: _released,
    JobModified: _changed,
    JobSwitched: _changed,
    JobMoved: _moved,
    JobForced: _forced,
    JobDispatched: _dispatched,
    JobStarted: _started,
    JobMessagePosted: _message_posted,
    JobNoted: _noted,
    JobFinished: _finished,
    JobPostProcessed: _post_processed,
    ArrayElementsFinished: _elements_finished,
    JobRequeueRequested: _requeue_requested,
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
    QueueControlled: _queue_controlled,
    JobGroupMade: _group_made,
    JobGroupRemoved: _group_removed,
    ReservationMade: _reservation_made,
    ReservationRemoved: _reservation_removed,
    ConfigApplied: _config_applied,
}
