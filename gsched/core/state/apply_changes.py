"""Applying events that change how a job waits or holds: modified, moved, suspended, resumed, requeued.

Part of gsched.core.state.apply_events, under its rules: it computes nothing anew and decides nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from gsched.base.coded_text import has_code
from gsched.base.ids import array_of, index_of
from gsched.core.records.array import JobArray, indices_of
from gsched.core.records.job import ANYWHERE, AT_HEAD, JobRecord, bucket_of
from gsched.core.records.job_groups import add
from gsched.core.state.transitions import IllegalEvent, check_current, check_place, move, refuse
from gsched.model.event import (
    ArrayElementsRequeued,
    JobForced,
    JobGpusKept,
    JobGpusMoved,
    JobModified,
    JobMoved,
    JobPreemptionWithdrawn,
    JobReleased,
    JobRequeued,
    JobRequeueRequested,
    JobResizeWithdrawn,
    JobResumed,
    JobSuspended,
    JobSwitched,
)
from gsched.model.gpus.gpu_idle import IDLE_REQUEUE
from gsched.model.jobs.job import FINISHED, PENDING, STARTED, JobSpec, JobState
from gsched.model.ledgers.allocation import with_gpus
from gsched.model.texts_of_before import start_failure

if TYPE_CHECKING:
    from gsched.core.state.cluster_state import ClusterState


def released(state: ClusterState, event: JobReleased) -> None:
    """The condition holds: the job waits for a place from now on."""
    array = state.arrays.get(event.job_id)
    if array is not None:
        _rearranged(state, array, released=True)
        return
    job = state.job(event.job_id)
    if job.state not in PENDING:
        refuse(job, event)
    state.unqueue(job)
    job.released = True
    state.enqueue(job)


def _rearranged(state: ClusterState, array: JobArray, **changes: object) -> None:
    """The waiting elements of an array are something else from now on."""
    state.unqueue_array(array)
    for name, value in changes.items():
        setattr(array, name, value)
    state.enqueue_array(array)


def changed(state: ClusterState, event: JobModified | JobSwitched) -> None:
    """Another spec. What a started job holds, and what counts it, follows."""
    spec = state.specs.shared(event.spec)
    array = state.arrays.get(event.job_id)
    if array is not None:
        _note_needs(state, event.job_id, array.spec, spec)
        state.belong_otherwise(event.job_id, array.spec, spec)
        is_released = array.released and spec.conditions == array.spec.conditions
        _rearranged(state, array, spec=spec, released=is_released, waited_s=0.0)
        _mind(state, event.job_id, spec.terminate_at)
        return
    job = state.job(event.job_id)
    if job.state in FINISHED:
        refuse(job, event)
    is_waiting, holds = job.state in PENDING, job.state in STARTED
    if holds and isinstance(event, JobModified) and event.allocation is not None:
        check_place(state, job, job.attempt, event.allocation)
    if not index_of(job.job_id):
        state.belong_otherwise(event.job_id, job.spec, spec)
    if holds and (spec.run_limit_s, spec.limits) != (job.spec.run_limit_s, job.spec.limits):
        job.relimited = True
    if is_waiting:
        _note_needs(state, job.job_id, job.spec, spec)
        state.unqueue(job)
        job.resize = None
    elif holds:
        state.release(job)
        if isinstance(event, JobModified):
            _given_anew(state, job, event)
    job.released = job.released and spec.conditions == job.spec.conditions
    job.spec = spec
    job.waited_s = 0.0
    if is_waiting:
        state.enqueue(job)
    elif holds:
        state.hold(job)
        state.accounts.switched(job.job_id, job.spec.queue, event.at)
        if job.allocation is not None:
            state.accounts.resized(job.job_id, job.allocation.slots, event.at)
    _mind(state, job.job_id, spec.terminate_at)


def _given_anew(state: ClusterState, job: JobRecord, event: JobModified) -> None:
    """What a started job is to hold, where the event says so; the ledgers show nothing of it meanwhile."""
    if event.allocation is None:
        return
    state.give_parts_up(job, event.allocation)
    job.allocation, job.effective_req = event.allocation, event.effective_req
    if job.resize is not None:  # the GPUs alone are others then
        job.resize = with_gpus(event.allocation, job.resize.hosts[0].gpus)


def _note_needs(state: ClusterState, number: int, old: JobSpec, new: JobSpec) -> None:
    """A waiting job, or array, may want another place than the one that others are to make for it."""
    if state.saving:
        before, now = (bucket_of(each, number).requirement._replace(run_s=None, estimate_s=None) for each in (old, new))
        if before != now:
            state.waits.needs_changed.add(number)


def _mind(state: ClusterState, job_id: int, terminate_at: float | None) -> None:
    if terminate_at is None:
        state.deadlines.pop(job_id, None)
    else:
        state.deadlines[job_id] = terminate_at


def moved(state: ClusterState, event: JobMoved) -> None:
    """Another place in the order."""
    array = state.arrays.get(event.job_id)
    if array is not None:
        _rearranged(state, array, order=event.order, ages_from=event.ages_from)
        return
    job = state.job(event.job_id)
    if job.state is not JobState.PEND:
        refuse(job, event)
    state.unqueue(job)
    job.order, job.ages_from = event.order, event.ages_from
    state.enqueue(job)


def forced(state: ClusterState, event: JobForced) -> None:
    """grun."""
    job = state.job(event.job_id)
    if job.state is not JobState.PEND:
        refuse(job, event)
    state.unqueue(job)
    job.forced_hosts = event.hosts or ANYWHERE
    state.enqueue(job)


def requeue_requested(state: ClusterState, event: JobRequeueRequested) -> None:
    """The attempt is to end, and the job to wait again."""
    job = state.job(event.job_id)
    if job.state not in STARTED:
        refuse(job, event)
    job.requeue_by, job.requeue_hold = event.by, event.hold
    if event.preempted_by:
        job.preempted_by = event.preempted_by
        job.preempted += 1
    job.requeue_reason = event.reason
    job.save_by = event.save_by
    job.resize, job.gives_to, job.gives = event.resize, event.gives_to, event.gives
    if state.waits.needs_changed:
        for number in (*event.gives_to, event.preempted_by):
            state.waits.needs_changed -= {number, array_of(number)}
    job.save_s = 0 if event.save_by is None else math.ceil(event.save_by - event.at)
    if event.gpu_fault:
        job.gpu_fault = event.gpu_fault
        job.gpu_faults += 1
    if has_code(event.reason, IDLE_REQUEUE):
        job.idle_requeues += 1


def preemption_withdrawn(state: ClusterState, event: JobPreemptionWithdrawn) -> None:
    """The attempt is not to end after all. It was not preempted; until when it may save its state stays noted."""
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    if job.state not in STARTED or job.save_by is None or job.preempted_by != event.preempted_by:
        refuse(job, event)
    job.requeue_by, job.preempted_by = "", 0
    job.preempted -= 1


def resize_withdrawn(state: ClusterState, event: JobResizeWithdrawn) -> None:
    """The attempt is not to end after all. Until when it may save its state stays noted; if it ends by then all the
    same, it goes on with what it has.
    """
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    if job.state not in STARTED or job.save_by is None or not job.is_resizing:
        refuse(job, event)
    job.requeue_by, job.requeue_reason, job.gives_to, job.gives = "", "", (), ()
    job.resize = job.allocation


def requeued(state: ClusterState, event: JobRequeued) -> None:
    """The job waits again."""
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    was_over = job.state in FINISHED
    if (was_over and event.failed_start) or job.state in PENDING:
        refuse(job, event)
    move(job, JobState.PSUSP if event.hold else JobState.PEND, event)
    if not was_over:
        state.give_up(job)
    state.leaving.leave(job)
    if was_over:
        _reopen(state, job)
    else:
        state.release(job)
        state.accounts.ended(job.job_id, event.at, event.result.usage.cpu_s if event.result else 0.0)
    had = job.allocation
    _forget_attempt(job)
    if event.resized:
        job.resizes += had != job.resize
    else:
        job.resize = None
        if job.spec.resize_to:  # that was of the slots that it had
            job.spec = msgspec.structs.replace(job.spec, resize_to=0)
    if event.failed_start:
        job.failed_starts += 1
        job.start_problem = start_failure(event.reason, event.avoid_host)
    else:
        job.requeues += 1
        job.short_runs = event.short_runs
    job.avoid_host, job.not_before = event.avoid_host, event.not_before
    if event.exclude_host and event.exclude_host not in job.excluded_hosts:
        job.excluded_hosts = (*job.excluded_hosts, event.exclude_host)
    job.stopped_by = event.by if event.hold else ""
    if event.restart:
        job.restarts += 1
    if event.at_head:
        if event.retry:
            job.retries = {**job.retries, event.retry: job.retries.get(event.retry, 0) + 1}
        else:
            job.code_requeues += 1
        if job.order > -AT_HEAD / 2:
            job.order -= AT_HEAD
    state.enqueue(job)


def elements_requeued(state: ClusterState, event: ArrayElementsRequeued) -> None:
    """Elements that were never more than a number in their array's record are that again."""
    array = state.arrays.get(event.job_id)
    indices = indices_of(event.indices)
    if array is None or not set(indices) <= set(array.ended_unstarted()) or (event.hold and array.count):
        raise IllegalEvent(f"elements {event.indices} of array {event.job_id} cannot be requeued")
    state.unqueue_array(array)
    if not array.count:
        array.stopped_by = event.by if event.hold else ""
    array.put_back(indices)
    add(array.counts, JobState.EXIT.value, -indices.count)
    array.left += indices.count
    _mind(state, array.array_id, array.spec.terminate_at)
    state.want_groups(array.spec.group)
    state.enqueue_array(array)


def _forget_attempt(job: JobRecord) -> None:
    """What belonged to the attempt that is over."""
    job.allocation, job.effective_req, job.known_state = None, "", None
    job.dispatched_at = job.started_at = job.pid = None
    job.boot_id = job.exec_home = job.exec_cwd = ""
    job.finished_at, job.result, job.post_processed = None, None, False
    job.kill_by = job.kill_reason = job.kill_keyword = job.requeue_by = job.suspend_reason = job.gpu_fault = ""
    job.open_parts = job.ended_parts = job.released_parts = ()
    job.part_usage, job.parts_cpu_s = {}, {}
    job.ends_done = False
    job.requeue_hold, job.preempted_by, job.gave_slots, job.resumed_at = False, 0, False, None
    job.relimited = job.moving_off = job.moved_off = False
    job.gpus_kept = ""
    job.signals = job.owed_signals = ()
    job.last_signal = 0
    job.requeue_reason, job.idle_warning, job.save_by, job.save_s = "", None, None, 0
    job.gives_to = job.gives = ()
    job.service_port = job.service_at = None
    job.end_warned, job.ends_by = False, None


def _reopen(state: ClusterState, job: JobRecord) -> None:
    """A finished job is to run again."""
    _mind(state, job.job_id, job.spec.terminate_at)
    state.want_groups(job.spec.group)
    array = state.arrays.get(job.array_id)
    if array is not None:
        array.left += 1


def suspended(state: ClusterState, event: JobSuspended) -> None:
    """Held while pending, stopped while started."""
    array = state.arrays.get(event.job_id)
    if array is not None:
        _rearranged(state, array, stopped_by=event.by)
        return
    job = state.job(event.job_id)
    if job.state in PENDING and not event.by_system:
        # Again: an administrator's word, which the owner cannot take back, replaces the owner's.
        state.unqueue(job)
        job.state, job.stopped_by, job.resize = JobState.PSUSP, event.by, None
        if event.unrecorded:  # none gets that number again
            job.attempt = max(job.attempt, event.unrecorded)
            job.unrecorded = (*job.unrecorded, event.unrecorded)
        state.enqueue(job)
        return
    if event.by_system and job.state is JobState.RUN:
        job.state = JobState.SSUSP
        job.suspend_reason = event.reason
        _preempt(state, job, event)
    elif not event.by_system and job.state in (JobState.RUN, JobState.SSUSP, JobState.USUSP):
        is_again = job.state is JobState.USUSP  # what was said of the earlier stop is not what is said of this one
        job.state = JobState.USUSP
        job.suspend_reason = event.reason if is_again else event.reason or job.suspend_reason
    else:
        refuse(job, event)
    state.touch_hosts(job)
    job.stopped_by = event.by


def _preempt(state: ClusterState, job: JobRecord, event: JobSuspended) -> None:
    if not event.preempted_by:
        return
    assert job.allocation is not None
    job.preempted_by = event.preempted_by
    job.preempted += 1
    job.gave_slots = True
    job.moving_off = event.moves_gpus
    state.ledger.suspend(job.key, job.allocation)


def gpus_moved(state: ClusterState, event: JobGpusMoved) -> None:
    """Its GPU is free."""
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    if not job.moving_off or job.allocation is None or job.state not in STARTED:
        refuse(job, event)
    job.moving_off, job.moved_off = False, True
    state.ledger.move_off(job.key, job.allocation)
    state.touch_hosts(job)


def gpus_kept(state: ClusterState, event: JobGpusKept) -> None:
    """It keeps its GPU."""
    job = state.job(event.job_id)
    check_current(job, event.attempt, event)
    job.moving_off, job.gpus_kept = False, event.why


def resumed(state: ClusterState, event: JobResumed) -> None:
    """The suspended job goes on."""
    array = state.arrays.get(event.job_id)
    if array is not None:
        _rearranged(state, array, stopped_by="")
        return
    job = state.job(event.job_id)
    if job.state is JobState.PSUSP:
        state.unqueue(job)
        job.state, job.stopped_by = JobState.PEND, ""
        state.enqueue(job)
    elif job.state in (JobState.USUSP, JobState.SSUSP):
        if job.gave_slots and job.allocation is not None:
            state.ledger.resume(job.key, job.allocation)
            if job.moved_off:
                state.ledger.move_back(job.key, job.allocation)
            job.moving_off = job.moved_off = False
            job.resumed_at = event.at
        job.state = JobState.RUN
        job.preempted_by = job.preempted_by if job.requeue_by else 0  # it may still save its state for that one
        job.gave_slots, job.suspend_reason, job.stopped_by = False, "", ""
        state.touch_hosts(job)
    else:
        refuse(job, event)
