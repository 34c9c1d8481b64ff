"""grun and qrun: start a job whatever order and limits say, where an administrator says or where there is room.

On hosts that are named loads and select[] do not count either. What cannot be shared stays so: its GPUs and amounts
must be free there, and its agent able to start jobs of that user. Where no host is named it is what would be chosen
for the only job that waits, in a queue without limits. Until there is such a place the job waits for it, and is the
first to be asked whenever something becomes free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from gsched.base.coded_text import coded
from gsched.core.decision import Decision
from gsched.core.dispatch.dispatcher import Dispatcher
from gsched.core.records.job import ANYWHERE, JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.core.state.pending_jobs import PendingJobs
from gsched.model.config import ClusterConfig
from gsched.model.event import JobNoted
from gsched.model.ledgers.allocation import Allocation
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Bucket, Placement, Snapshot
from gsched.policy.cycle import schedule
from gsched.policy.match.room_conditions import refusal_of
from gsched.policy.place.forced_placement import placed_by_force

MOST_AT_ONCE = 100
"""Jobs that are started before others have their turn."""
_BUDGET = 4
"""Steps of the cycle that places a job alone."""


def force(
    dispatcher: Dispatcher,
    snapshot: Callable[[float], Snapshot],
    decision: Decision,
) -> bool:
    """Start forced jobs that can have what they need on the hosts named for them, or anywhere; not more than
    MOST_AT_ONCE. Returns whether there may be others.
    """
    state, config = decision.state, decision.config
    in_vain: set[tuple[Bucket, tuple[str, ...]]] = set()
    """Kinds of jobs, and where they were to start, for which there is no room now."""
    started = 0
    for job_id in sorted(state.waits.forced):
        job = dispatcher.waiting(job_id)
        if job is None:
            continue
        kind = (job.bucket(), job.forced_hosts)
        if kind in in_vain:
            continue
        if started == MOST_AT_ONCE:
            return True
        found = _place(state, snapshot, job, decision)
        if found is None:
            in_vain.add(kind)
            continue
        started += 1
        if job.spec.application and job.spec.application not in config.applications:
            text = coded("note.no_application", job.spec.application)
            decision.record(JobNoted(at=decision.now, job_id=job_id, text=text))
        dispatcher.start(job, found.allocation, found.effective, decision)
    return False


def _place(
    state: ClusterState, snapshot: Callable[[float], Snapshot], job: JobRecord, decision: Decision
) -> Placement | None:
    config = decision.config
    if job.forced_hosts == ANYWHERE:
        if job.spec.queue not in config.queues:
            return None
        return _placed_alone(_without_limits(snapshot(decision.now), job, config), job, decision.now)
    if not all(host in config.hosts for host in job.forced_hosts):
        return None
    allocation = _placed_there(snapshot(decision.now), job)
    if allocation is None or not _is_free(state, job, allocation):
        return None
    return Placement(job.job_id, allocation, "")


def _placed_there(seen: Snapshot, job: JobRecord) -> Allocation | None:
    """What the job would hold on the hosts named for it; None where one of their agents could not start it."""
    hosts = [seen.hosts[name] for name in job.forced_hosts if name in seen.hosts]
    if any(host.only_user not in ("", job.spec.user) for host in hosts):
        return None
    return placed_by_force(seen, job.bucket().requirement, job.forced_hosts)


def _without_limits(seen: Snapshot, job: JobRecord, config: ClusterConfig) -> Snapshot:
    """The same hosts with this job alone, in a queue that is open and allows everything; what hosts share counts."""
    queue = config.queues[job.spec.queue]
    unlimited = msgspec.structs.replace(
        Queue(name=queue.name),
        hosts=queue.hosts,
        host_levels=queue.host_levels,
        res_req=queue.res_req,
        gpu_req=queue.gpu_req,
        exclusive=queue.exclusive,
        exclusive_units=queue.exclusive_units,
        accept_interval_s=0.0,
    )
    alone = PendingJobs()
    alone.add(job)
    return replace(
        seen,
        queues={**seen.queues, queue.name: unlimited},
        pending=alone,
        inactive_queues={},
        applications=None,
        planned={},
        shows_all_waiting=False,
        limits=seen.limits[len(config.limits) :],
        guarantees=(),
        user_limits={},
        group_limits={},
        processor_limits={},
        job_group_limits={},
        array_limits={},
    )


def _placed_alone(seen: Snapshot, job: JobRecord, now: float) -> Placement | None:
    placements = schedule(seen, now, _BUDGET).placements
    return next((each for each in placements if each.job_id == job.job_id), None)


def _is_free(state: ClusterState, job: JobRecord, allocation: Allocation) -> bool:
    """Slots are the one thing that may be given beyond their number."""
    key = (job.job_id, job.attempt + 1)
    for part in allocation.parts:
        host_ledger = state.ledger.host(part.host)
        room = host_ledger.copy()
        room.max_slots = None
        if state.ledger.holds(part.host, key) or refusal_of(part, room):
            return False
    return True
