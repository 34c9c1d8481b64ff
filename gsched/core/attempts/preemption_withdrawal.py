"""Jobs that save their state for others which need their place, or GPUs lent to them, no more: they are not ended.

What they were asked for stands: who ends by the time that it was given is run again, as if it had been preempted, or
goes on at once with the GPUs that it had. It never spares a job that is being ended already, or whose time is over.
"""

from __future__ import annotations

from collections.abc import Sequence

from gsched.base.coded_text import CodedText, coded
from gsched.base.ids import array_of, index_of, show_job
from gsched.core.decision import Decision
from gsched.core.instruction import SpareAttempt
from gsched.core.records.array import JobArray
from gsched.core.records.job import JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.core.state.wait_index import item_id
from gsched.model.config import ClusterConfig
from gsched.model.event import JobPreemptionWithdrawn, JobRequeueRequested, JobResizeWithdrawn
from gsched.model.jobs.job import JobState
from gsched.model.ledgers.allocation import with_gpus
from gsched.policy.preempt.preemption import may_preempt


def withdraw_preemptions(decision: Decision) -> None:
    """Spare those that nobody needs to end any more, and leave to those that give back to some yet what the others were
    to get. One that is suspended is not spared: it goes on in order to save its state, and would have to be stopped in
    it.
    """
    state = decision.state
    for number in sorted(state.saving):
        job = state.jobs[number]
        if job.state is not JobState.RUN or decision.now >= (job.save_by or 0.0):
            continue
        needed = [other for other in job.saves_for if _needs(other, job, state, decision.config)]
        if not needed:
            _spare(job, decision)
        elif len(needed) < len(job.saves_for):
            _give_back_less(job, needed, decision)


def shares_of(job: JobRecord) -> dict[int, int]:
    """Jobs that a job gives lent GPUs back to -> how many each gets; 0 where that was not recorded."""
    gives = job.gives or (0,) * len(job.gives_to)
    return dict(zip(job.gives_to, gives, strict=True))


def why_resized(has: int, gets: int, by: int) -> CodedText:
    """Why a job goes on with another number of GPUs. `by`: the job that needs some of those that it has, or was to get;
    0: it gets more.
    """
    if not by:
        return coded("requeue.grows", has, gets)
    return coded("requeue.shrinks" if gets < has else "requeue.grows_less", has, gets, show_job(by))


def _spare(job: JobRecord, decision: Decision) -> None:
    at, job_id, attempt = decision.now, job.job_id, job.attempt
    if job.is_resizing:
        decision.record(JobResizeWithdrawn(at=at, job_id=job_id, attempt=attempt, gives_to=job.gives_to))
    else:
        by = job.preempted_by
        decision.record(JobPreemptionWithdrawn(at=at, job_id=job_id, attempt=attempt, preempted_by=by))
    for part in job.allocation.hosts if job.allocation is not None else ():
        decision.instruct(SpareAttempt(part.host, job_id, attempt))


def _give_back_less(job: JobRecord, needed: Sequence[int], decision: Decision) -> None:
    """It keeps what those were to get who need it no more, unless others get the same GPUs (they may share one); its
    time to save its state stays.
    """
    assert job.allocation is not None and job.resize is not None
    shares = shares_of(job)
    left = {number: shares[number] for number in needed}
    had, kept = job.allocation.hosts[0].gpus, len(job.resize.hosts[0].gpus)
    freed, most = sum(shares.values()) - sum(left.values()), len(had) - max(sum(left.values()), 1)
    keeps = max(kept, min(kept + freed, most))
    decision.record(
        JobRequeueRequested(
            at=decision.now,
            job_id=job.job_id,
            by=job.requeue_by,
            reason=why_resized(len(had), keeps, needed[0]),
            save_by=job.save_by,
            resize=with_gpus(job.allocation, had[:keeps]) if keeps > kept else job.resize,
            gives_to=tuple(left),
            gives=tuple(left.values()),
        )
    )


def repeat_sparing(job: JobRecord, host: str, decision: Decision) -> None:
    """To a host that may have missed it."""
    if job.is_spared:
        decision.instruct(SpareAttempt(host, job.job_id, job.attempt))


def _needs(number: int, job: JobRecord, state: ClusterState, config: ClusterConfig) -> bool:
    """Whether that job, or element, still waits for such a place, in a queue whose jobs may have what this one has."""
    if not state.waits.needs_changed.isdisjoint((number, array_of(number))):
        return False
    queue, own = config.queues.get(_waits_in(number, job, state)), config.queues.get(job.spec.queue)
    if queue is None or own is None:
        return queue is not None
    return queue.priority >= own.priority if job.is_resizing else may_preempt(queue, own)


def _waits_in(number: int, job: JobRecord, state: ClusterState) -> str:
    """The queue in which it waits for a place by the time that the job has saved its state; empty: it does not."""
    item = _waiting(number, state)
    if item is None:
        return ""
    known_as = item_id(item)
    is_late = state.waits.delayed.get(known_as, 0.0) > (job.save_by or 0.0)
    return "" if is_late or known_as in state.waits.blocked else item.spec.queue


def _waiting(number: int, state: ClusterState) -> JobRecord | JobArray | None:
    """The job that waits and is not held, or the array in which the element does; None: it does not."""
    job, array = state.jobs.get(number), state.arrays.get(array_of(number))
    if job is not None:
        return job if job.state is JobState.PEND else None
    is_waiting = array is not None and not array.stopped_by and array.has_waiting(index_of(number))
    return array if is_waiting else None
