"""The rows that questions about the past read: what a job or an array looks like in the store, written with its events.

Whatever changes a row comes in the same batch as the events that brought it about. A row says by itself how long the
job waited and ran, unless something else happened to it as well: then it says that.
"""

from __future__ import annotations

from collections.abc import Iterable

from gsched.core.records.array import JobArray
from gsched.core.records.job import JobRecord
from gsched.model.efficiency.gpu_seconds import GpuSeconds, gpu_seconds
from gsched.model.event import (
    AnyEvent,
    ArrayElementsFinished,
    ArrayElementsRequeued,
    JobPartEnded,
    JobRequeued,
    JobResumed,
    JobStatusLost,
    JobStatusRegained,
    JobSubmitted,
    JobSuspended,
)
from gsched.model.jobs.job import JobState
from gsched.store.tables.schema import JobRow

_IRREGULAR = (
    *(JobRequeued, JobSuspended, JobResumed, JobStatusLost, JobStatusRegained),
    *(ArrayElementsFinished, ArrayElementsRequeued),
)


def irregular_jobs(events: Iterable[AnyEvent]) -> set[int]:
    """Jobs and arrays of which the times of submission, dispatch and end do not tell all, by these events."""
    return {event.job_id for event in events if _is_irregular(event)}  # type: ignore[union-attr]


def _is_irregular(event: AnyEvent) -> bool:
    if isinstance(event, JobSubmitted):
        return event.spec.hold
    if isinstance(event, JobPartEnded):
        return bool(event.late_cpu_s)
    return isinstance(event, _IRREGULAR)


def job_row(job: JobRecord, traits: int = 0) -> JobRow:
    """The row of a job."""
    spec, allocation, result = job.spec, job.allocation, job.result
    used = gpu_seconds(allocation, result.usage.gpus) if result is not None else GpuSeconds()
    return JobRow(
        job_id=job.job_id,
        user=spec.user,
        queue=spec.queue,
        name=spec.shown_name(job.job_id),
        project=spec.project,
        host=" ".join(dict.fromkeys(part.host for part in allocation.hosts)) if allocation else "",
        state=job.state.value,
        submitted_at=job.submitted_at,
        dispatched_at=job.dispatched_at,
        finished_at=job.finished_at,
        exit_code=result.exit_code if result else None,
        application=spec.application,
        job_group=spec.group,
        description=spec.description,
        cpu_s=result.usage.cpu_s if result else None,
        gpus=sum(gpu.share for part in allocation.hosts for gpu in part.gpus) if allocation else 0.0,
        traits=traits,
        gpu_seen_s=used.seen_s,
        gpu_busy_s=used.busy_s,
        gpu_energy_j=used.energy_j,
    )


def array_row(array: JobArray, traits: int) -> JobRow:
    """The row of the elements that are not jobs of their own; its state is empty when there are none (any more)."""
    state = ""
    if array.count:
        state = JobState.PSUSP.value if array.stopped_by else JobState.PEND.value
    elif array.unstarted:
        state = JobState.EXIT.value
    spec = array.spec
    return JobRow(
        job_id=array.array_id,
        user=spec.user,
        queue=spec.queue,
        name=spec.display_name,
        project=spec.project,
        state=state,
        submitted_at=array.submitted_at,
        finished_at=array.last_end or None if array.is_over() else None,
        application=spec.application,
        job_group=spec.group,
        description=spec.description,
        traits=traits,
    )
