"""Applying events: one small function per kind of event, and nothing else changes the state.

It computes nothing anew (times, allocations, reasons come from the event), so a replay gives the same state. It never
decides; an event that does not fit the state raises IllegalEvent and leaves the state as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from gsched.base.ids import array_of
from gsched.core.records.accepted_submissions import AcceptedSubmission
from gsched.core.records.array import JobArray, UnstartedEnd, indices_of
from gsched.core.records.host_allocations import has_released, is_part
from gsched.core.records.job import JobRecord
from gsched.core.records.run_times import ran_s
from gsched.core.state import apply_changes, apply_notices
from gsched.core.state.transitions import IllegalEvent, check_current, check_place, move, refuse
from gsched.model.event import (
    AnyEvent,
    ArrayElementsFinished,
    ArrayElementsRequeued,
    ConfigApplied,
    GpuClosed,
    GpuOpened,
    HistoryArchived,
    HostClosed,
    HostGpusKnown,
    HostOpened,
    JobDispatched,
    JobEndWarned,
    JobFinished,
    JobForced,
    JobForgotten,
    JobGpuCurves,
    JobGpusKept,
    JobGpusMoved,
    JobGroupMade,
    JobGroupRemoved,
    JobIdleActed,
    JobIdleOver,
    JobIdleWarned,
    JobMessagePosted,
    JobModified,
    JobMoved,
    JobNoted,
    JobNoticeMade,
    JobNoticeSettled,
    JobOutputRemoved,
    JobPartEnded,
    JobPartStarted,
    JobPostProcessed,
    JobPreemptionWithdrawn,
    JobReleased,
    JobRequeued,
    JobRequeueRequested,
    JobResizeWithdrawn,
    JobResumed,
    JobServiceAnswered,
    JobSignalRequested,
    JobSignalsSent,
    JobStarted,
    JobStatusLost,
    JobStatusRegained,
    JobSubmitted,
    JobSuspended,
    JobSwitched,
    NumbersRaised,
    PastJobRecorded,
    QueueControlled,
    ReservationMade,
    ReservationRemoved,
    StaleResultRecorded,
    StoreRenewed,
    SubmissionAccepted,
)
from gsched.model.gpus.gpu_closure import GpuClosure
from gsched.model.jobs.job import FINISHED, PENDING, STARTED, TRANSITIONS, JobState
from gsched.model.scheduling.run_kind import run_kind
from gsched.model.views.view import Message

__all__ = ["IllegalEvent", "apply"]

if TYPE_CHECKING:
    from gsched.core.state.cluster_state import ClusterState


ENDING = (0, 9)
"""Signals that are meant to end a job: 0 stands for "terminate"."""


def apply(state: ClusterState, event: AnyEvent) -> None:
    """Change `state` by one event. Raises IllegalEvent."""
    _APPLY[type(event)](state, event)


def _submitted(state: ClusterState, event: JobSubmitted) -> None:
    if event.job_id in state.jobs or event.job_id in state.arrays:
        raise IllegalEvent(f"job {event.job_id} was submitted twice")
    if event.token and event.place in state.tokens.get(event.token, ()):
        raise IllegalEvent(f"job {event.job_id} repeats place {event.place} of submission {event.token}")
    spec = state.specs.shared(event.spec)
    if spec.indices:
        array = JobArray(
            array_id=event.job_id,
            spec=spec,
            submitted_at=event.at,
            token=event.token,
            place=event.place,
            order=float(event.job_id),
            not_before=event.not_before,
            left=indices_of(spec.indices).count,
            stopped_by=spec.user if spec.hold else "",
        )
        state.add_array(array)
        _count_off(state, event, array.left)
        return
    job = JobRecord(
        job_id=event.job_id,
        spec=spec,
        state=JobState.PSUSP if spec.hold else JobState.PEND,
        submitted_at=event.at,
        token=event.token,
        place=event.place,
    )
    if event.not_before:
        job.not_before = event.not_before
    if spec.hold:
        job.stopped_by = spec.user
    state.add(job)
    _count_off(state, event, 1)


def _count_off(state: ClusterState, event: JobSubmitted, jobs: int) -> None:
    """If it is of a submission that was accepted before: one less is to be made."""
    first_id = event.job_id - event.place
    accepted = state.accepted.get(first_id)
    if accepted is not None:
        accepted.count_off(event.place, jobs, jobs * event.spec.slots)
        if accepted.is_over:
            del state.accepted[first_id]


def _accepted(state: ClusterState, event: SubmissionAccepted) -> None:
    if event.first_id < state.next_job_id:
        raise IllegalEvent(f"job numbers from {event.first_id} on were accepted, but {state.next_job_id} is the next")
    state.accepted[event.first_id] = AcceptedSubmission(event, 0, event.jobs, event.slots)
    state.next_job_id = event.first_id + event.count


def _dispatched(state: ClusterState, event: JobDispatched) -> None:
    job = state.job(event.job_id)
    if event.attempt != job.attempt + 1:
        raise IllegalEvent(f"attempt {event.attempt} of job {job.job_id} does not follow attempt {job.attempt}")
    if job.state is not JobState.PEND:
        refuse(job, event)
    check_place(state, job, event.attempt, event.allocation)
    state.unqueue(job)
    job.state = JobState.RUN
    job.attempt = event.attempt
    job.allocation = event.allocation
    job.effective_req = event.effective_req
    job.dispatched_at = event.at
    job.forced_hosts, job.resize = (), None
    state.hold(job)
    state.accounts.started(job.job_id, job.spec, event.allocation, event.at)


def _started(state: ClusterState, event: JobStarted) -> None:
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    if job.state not in STARTED or job.started_at is not None:
        refuse(job, event)
    job.started_at = event.at
    job.pid = event.pid
    job.exec_home, job.exec_cwd, job.boot_id = event.home, event.cwd, event.boot_id


def _part_started(state: ClusterState, event: JobPartStarted) -> None:
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    if job.state not in STARTED or not is_part(job, event.host) or event.host in (*job.open_parts, *job.ended_parts):
        refuse(job, event)
    job.open_parts = (*job.open_parts, event.host)


def _part_ended(state: ClusterState, event: JobPartEnded) -> None:
    """Of a started job its part holds on until the job has ended, too. Of a host that the job has released before, what
    was used there counts still.
    """
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    if job.state in STARTED and has_released(job, event.host):
        job.part_usage = {**job.part_usage, event.host: event.usage}
        return
    if job.state in PENDING or not is_part(job, event.host) or event.host in job.ended_parts:
        refuse(job, event)
    job.ended_parts = (*job.ended_parts, event.host)
    if job.state in STARTED:
        job.part_usage = {**job.part_usage, event.host: event.usage}
        return
    state.leaving.leave(job, event.host)
    if event.late_cpu_s and job.result is not None:
        state.accounts.used_late(job.spec, event.at, event.late_cpu_s)
    if job.result is not None:
        usage = job.result.usage.with_late(event.host, event.late_cpu_s, event.usage.gpus)
        job.result = msgspec.structs.replace(job.result, usage=usage)


def _message_posted(state: ClusterState, event: JobMessagePosted) -> None:
    job = state.job(event.job_id)
    before = next((old for old in job.messages if old.box == event.box), None)
    attached = event if event.attachment or before is None else before
    message = Message(
        box=event.box,
        user=event.user,
        posted_at=event.at,
        text=event.text,
        attachment=attached.attachment,
        attached_bytes=attached.attached_bytes,
    )
    kept = (old for old in job.messages if old.box != event.box)
    job.messages = tuple(sorted([*kept, message], key=lambda item: item.box))


def _noted(state: ClusterState, event: JobNoted) -> None:
    job = state.job(event.job_id)
    if event.is_warning:
        job.notes = (*job.notes, event.text)


def _idle_warned(state: ClusterState, event: JobIdleWarned) -> None:
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    job.idle_warning, job.idle_warnings = event.warning, event.warning.number


def _idle_acted(state: ClusterState, event: JobIdleActed) -> None:
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    if job.idle_warning is None or job.idle_warning.number != event.number:
        refuse(job, event)
    job.idle_warning = msgspec.structs.replace(job.idle_warning, acted=event.action, acted_text=event.text)


def _idle_over(state: ClusterState, event: JobIdleOver) -> None:
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    job.idle_warning = None


def _end_warned(state: ClusterState, event: JobEndWarned) -> None:
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    job.end_warned, job.ends_by = True, event.ends_by


def _service_answered(state: ClusterState, event: JobServiceAnswered) -> None:
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    job.service_port, job.service_at = event.port, event.at


def _finished(state: ClusterState, event: JobFinished) -> None:
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    was_pending = job.state in PENDING
    new = JobState.DONE if event.result.succeeded and event.result.started else JobState.EXIT
    if new not in TRANSITIONS[job.state]:
        refuse(job, event)
    state.give_up(job)
    if was_pending:
        state.unqueue(job)
    else:
        state.release(job)
    job.state = new
    job.known_state = None
    job.result, job.parts_cpu_s = event.result, event.parts_cpu_s
    job.finished_at = event.at
    job.requeue_by, job.preempted_by, job.gave_slots, job.suspend_reason = "", 0, False, ""
    job.part_usage, job.released_parts, job.resize = {}, (), None
    job.signals = job.owed_signals = ()
    job.gives_to = job.gives = ()
    lasted_s = ran_s(event.result, job.started_at, was_asked=bool(job.kill_by))
    if lasted_s is not None:
        state.run_times.note(run_kind(job.bucket()), lasted_s)
    job.post_processed = event.post_processed
    if not event.post_processed:
        state.leaving.enter(job)
    _over(state, job, event)


def _over(state: ClusterState, job: JobRecord, event: JobFinished) -> None:
    state.deadlines.pop(job.job_id, None)
    state.accounts.ended(job.job_id, event.at, event.result.usage.cpu_s)
    array = state.arrays.get(job.array_id)
    if array is None:
        state.retention.note_end(job.job_id, event.at)
    else:
        state.element_ended(array, event.at)


def _elements_finished(state: ClusterState, event: ArrayElementsFinished) -> None:
    """Elements that were never more than a number in their array's record end together."""
    array = state.arrays.get(event.job_id)
    indices = indices_of(event.indices)
    whole = array is not None and event.indices == str(array.remaining())  # a million at once, at the cost of one
    if array is None or not (whole or all(array.has_waiting(index) for index in indices)):
        raise IllegalEvent(f"elements {event.indices} of array {event.job_id} do not all wait")
    state.unqueue_array(array)
    if whole:
        array.take_all()
    for index in () if whole else indices:
        array.take(index)
    array.unstarted.append(UnstartedEnd(event.indices, event.at, event.result))
    array.counts["EXIT"] = array.counts.get("EXIT", 0) + indices.count
    state.enqueue_array(array)
    state.element_ended(array, event.at, indices.count)


def _post_processed(state: ClusterState, event: JobPostProcessed) -> None:
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    if job.state not in FINISHED:
        refuse(job, event)
    job.post_processed = True
    state.leaving.leave(job)


def _signal_requested(state: ClusterState, event: JobSignalRequested) -> None:
    """Who asked for the end is remembered; a job whose host does not answer becomes a ZOMBI by it. A step's end changes
    nothing of its job.
    """
    if event.job_id in state.arrays or (event.step is not None and event.owed is None):
        return
    job = state.job(event.job_id)
    if job.state in FINISHED:
        refuse(job, event)
    if event.owed is not None:
        job.owed_signals, job.last_signal = (*job.owed_signals, event.owed), event.owed.number
    if event.step is not None:
        return
    if event.signal and job.state in STARTED and event.signal not in job.signals:
        job.signals = (*job.signals, event.signal)
    if event.signal not in ENDING:
        return
    job.kill_by, job.kill_reason, job.ends_done = event.by, event.reason, event.as_done
    job.kill_keyword = event.keyword
    job.gpu_fault = event.gpu_fault or job.gpu_fault
    if job.state is JobState.UNKWN:
        job.state = JobState.ZOMBI
        job.known_state = None


def _signals_sent(state: ClusterState, event: JobSignalsSent) -> None:
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    told = (
        msgspec.structs.replace(owed, hosts=tuple(host for host in owed.hosts if host != event.host))
        if owed.number <= event.number
        else owed
        for owed in job.owed_signals
    )
    job.owed_signals = tuple(owed for owed in told if owed.hosts)


def _status_lost(state: ClusterState, event: JobStatusLost) -> None:
    job = state.job(event.job_id)
    before = job.state
    move(job, JobState.UNKWN, event)
    job.known_state = before
    state.touch_hosts(job)


def _status_regained(state: ClusterState, event: JobStatusRegained) -> None:
    job = state.job(event.job_id)
    if job.state is not JobState.UNKWN or job.known_state is None:
        refuse(job, event)
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
            refuse(job, event)
    state.remove(event.job_id)


def _stale_result(state: ClusterState, event: StaleResultRecorded) -> None:
    """Only a record, and that it was made: the job has moved on."""
    job = state.jobs.get(event.job_id)
    if job is not None and event.attempt not in job.stale:
        job.stale = (*job.stale, event.attempt)


def _for_history(state: ClusterState, event: JobGpuCurves | JobOutputRemoved) -> None:
    """The state has nothing to do with it."""


def _host_closed(state: ClusterState, event: HostClosed) -> None:
    state.closed_hosts[event.host] = (event.by, event.comment)


def _host_opened(state: ClusterState, event: HostOpened) -> None:
    state.closed_hosts.pop(event.host, None)


def _gpu_closed(state: ClusterState, event: GpuClosed) -> None:
    state.closed_gpus[event.host, event.uuid] = GpuClosure(
        host=event.host,
        uuid=event.uuid,
        index=event.index,
        by=event.by,
        at=event.at,
        comment=event.comment,
        until=event.until,
    )


def _gpu_opened(state: ClusterState, event: GpuOpened) -> None:
    state.closed_gpus.pop((event.host, event.uuid), None)


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
    state.accounts.configure(event.hist_hours, event.at, event.queue_hist_hours)


def _gpus_known(state: ClusterState, event: HostGpusKnown) -> None:
    state.gpu_hosts = state.gpu_hosts | {event.host} if event.has_gpus else state.gpu_hosts - {event.host}


def _numbers_raised(state: ClusterState, event: NumbersRaised) -> None:
    state.skip_numbers(event.next_job_id)


def _past_job(state: ClusterState, event: PastJobRecorded) -> None:
    # It is over: nothing of it is kept here but that its number is taken.
    state.next_job_id = max(state.next_job_id, array_of(event.job_id) + 1)


def _archived(_: ClusterState, __: HistoryArchived) -> None:
    """Only a record: what leaves the store has left the state long ago."""


def _store_renewed(state: ClusterState, event: StoreRenewed) -> None:
    state.generation = event.generation
    state.lost_store.attempts = {job.job_id: job.attempt for job in state.jobs.values() if job.attempt}
    is_under_way = any(job.state not in FINISHED for job in state.jobs.values()) or bool(state.arrays)
    state.lost_store.renewed_at = event.at if is_under_way else float("-inf")


_APPLY: dict[type, Callable[[ClusterState, Any], None]] = {
    JobSubmitted: _submitted,
    SubmissionAccepted: _accepted,
    JobReleased: apply_changes.released,
    JobModified: apply_changes.changed,
    JobSwitched: apply_changes.changed,
    JobMoved: apply_changes.moved,
    JobForced: apply_changes.forced,
    JobDispatched: _dispatched,
    JobStarted: _started,
    JobPartStarted: _part_started,
    JobPartEnded: _part_ended,
    JobMessagePosted: _message_posted,
    JobNoted: _noted,
    JobIdleWarned: _idle_warned,
    JobIdleActed: _idle_acted,
    JobIdleOver: _idle_over,
    JobServiceAnswered: _service_answered,
    JobFinished: _finished,
    JobPostProcessed: _post_processed,
    ArrayElementsFinished: _elements_finished,
    ArrayElementsRequeued: apply_changes.elements_requeued,
    JobRequeueRequested: apply_changes.requeue_requested,
    JobEndWarned: _end_warned,
    JobSignalsSent: _signals_sent,
    JobPreemptionWithdrawn: apply_changes.preemption_withdrawn,
    JobResizeWithdrawn: apply_changes.resize_withdrawn,
    JobRequeued: apply_changes.requeued,
    JobSuspended: apply_changes.suspended,
    JobGpusMoved: apply_changes.gpus_moved,
    JobGpusKept: apply_changes.gpus_kept,
    JobResumed: apply_changes.resumed,
    JobSignalRequested: _signal_requested,
    JobStatusLost: _status_lost,
    JobStatusRegained: _status_regained,
    JobForgotten: _forgotten,
    StaleResultRecorded: _stale_result,
    JobGpuCurves: _for_history,
    JobOutputRemoved: _for_history,
    JobNoticeMade: apply_notices.made,
    JobNoticeSettled: apply_notices.settled,
    HostClosed: _host_closed,
    HostOpened: _host_opened,
    GpuClosed: _gpu_closed,
    GpuOpened: _gpu_opened,
    QueueControlled: _queue_controlled,
    JobGroupMade: _group_made,
    JobGroupRemoved: _group_removed,
    ReservationMade: _reservation_made,
    ReservationRemoved: _reservation_removed,
    ConfigApplied: _config_applied,
    HostGpusKnown: _gpus_known,
    NumbersRaised: _numbers_raised,
    HistoryArchived: _archived,
    PastJobRecorded: _past_job,
    StoreRenewed: _store_renewed,
}
