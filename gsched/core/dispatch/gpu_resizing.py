"""Jobs with a range of GPUs (num=2..8) go on at once where they were, with others; and from when on more may come.

Who gets how many is decided by a cycle (gsched.policy.preempt). What a job was to go on with is checked on the ledger:
a GPU that somebody else has by now, or that has failed, it does without. Where it cannot go on at once, it waits like
any job.
"""

from __future__ import annotations

from collections.abc import Iterator

from gsched.core.decision import Decision
from gsched.core.dispatch.dispatcher import Dispatcher
from gsched.core.records.job import JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig
from gsched.model.jobs.job import JobState
from gsched.model.ledgers.allocation import Allocation, with_gpus
from gsched.model.scheduling.snapshot import Snapshot
from gsched.policy.match.host_fit import misfit
from gsched.policy.requirement.gpu_range import range_of, resizable_part


def go_on_resized(dispatcher: Dispatcher, seen: Snapshot, decision: Decision) -> None:
    """Start the next attempts of jobs that have ended to have another number of GPUs, before anything else starts.
    `seen`: tells which hosts and queues are closed; what is free is asked of the state, which starts change.
    """
    for job_id in sorted(decision.state.waits.resized):
        job = dispatcher.waiting(job_id)
        if job is None or job.resize is None:
            continue
        allocation = _now_free(job, job.resize, seen, decision.state)
        if allocation is not None:
            dispatcher.start(job, allocation, "", decision)


def _now_free(job: JobRecord, wanted: Allocation, seen: Snapshot, state: ClusterState) -> Allocation | None:
    """What of it the job can have now, its least at the least; None where that is not free, or nothing may start."""
    part, asked = resizable_part(wanted), range_of(job.bucket().requirement)
    host = None if part is None else seen.hosts.get(part.host)
    if part is None or asked is None or host is None or host.closed or job.spec.queue in seen.inactive_queues:
        return None
    host_ledger = state.ledger.host(part.host)
    gpus = tuple(gpu for gpu in part.gpus if host_ledger.may_hold(gpu))
    if len(gpus) < asked.least:
        return None
    found = with_gpus(wanted, gpus)
    return None if misfit(state.ledger, (job.job_id, job.attempt + 1), found) else found


def may_grow(state: ClusterState, config: ClusterConfig, now: float) -> bool:
    """Whether a started job may get more GPUs by now, if any are idle."""
    return any(at <= now for at in _growth_times(state, config))


def growth_due(state: ClusterState, config: ClusterConfig, now: float) -> Iterator[float]:
    """When started jobs may get more, UTC seconds."""
    return (at for at in _growth_times(state, config) if at > now)


def _growth_times(state: ClusterState, config: ClusterConfig) -> Iterator[float]:
    for job_id in state.elastic:
        job = state.jobs[job_id]
        part = None if job.allocation is None else resizable_part(job.allocation)
        asked = range_of(job.bucket().requirement)
        if job.state is not JobState.RUN or job.requeue_by or job.kill_by or part is None or asked is None:
            continue
        if job.started_at is not None and len(part.gpus) < asked.most:
            yield job.started_at + config.params.gpu_grow_interval_s
