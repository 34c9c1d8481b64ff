"""Quarantine: a job, an array or one element of it is set aside because of a record that cannot be read.

What else the state holds goes on as if the job were not there. To be used during recovery only. What it held need not
be kept: nothing is started on a host before its agent's hello, and that tells of whatever runs there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsched.base.ids import array_of, index_of
from gsched.core.records.job import JobRecord
from gsched.core.records.job_groups import add
from gsched.model.jobs.job import FINISHED, PENDING, STARTED, JobSpec

if TYPE_CHECKING:
    from gsched.core.state.cluster_state import ClusterState


def set_aside(state: ClusterState, job_id: int, reason: str) -> None:
    """Put a job into quarantine: it is neither scheduled nor shown as a job; later events of it are passed over."""
    state.next_job_id = max(state.next_job_id, array_of(job_id) + 1)
    if job_id in state.quarantined or array_of(job_id) in state.quarantined:
        return
    array = state.arrays.get(array_of(job_id))
    if array is not None and not index_of(job_id):
        for member in [each for each in state.jobs if array_of(each) == job_id]:
            _drop(state, state.jobs[member])
        state.unqueue_array(array)
        del state.arrays[job_id]
        state.deadlines.pop(job_id, None)
        _leave(state, job_id, array.spec)
    else:
        if array is not None and array.has_waiting(index_of(job_id)):
            state.job(job_id)  # it leaves the array's record by this
        job = state.jobs.get(job_id)
        if job is not None:
            _drop(state, job)
    state.quarantined[job_id] = reason
    state.notices.drop_job(job_id)
    state.touched.add(job_id)


def _drop(state: ClusterState, job: JobRecord) -> None:
    """Only its token stays: the same submission, repeated, must not make a second job."""
    if job.state in PENDING:
        state.unqueue(job)
    elif job.state in STARTED:
        state.release(job)
        state.accounts.drop(job.job_id)
    del state.jobs[job.job_id]
    state.deadlines.pop(job.job_id, None)
    state.hide_running(job.job_id)
    state.touched.add(job.job_id)
    array = state.arrays.get(job.array_id)
    if array is None:
        _leave(state, job.job_id, job.spec)
        return
    if job.counted_as:
        add(array.counts, job.counted_as, -1)
    if job.state not in FINISHED:
        state.element_ended(array, array.submitted_at)


def _leave(state: ClusterState, number: int, spec: JobSpec) -> None:
    """What it was given to read stays, as all that is known of it does."""
    state.belong_no_more(number, spec)
    if spec.spooled_input and state.inputs.aside is not None:
        state.inputs.aside.add(spec.spooled_input)
