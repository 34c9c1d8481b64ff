"""grun: starts a job where an administrator says, whatever order, limits, loads and select[] say.

What cannot be shared stays so: its GPUs and amounts must be free there, and its agent able to start jobs of that user.
Until that is so the job waits for its host.
"""

from __future__ import annotations

from collections.abc import Callable

from gsched.base.coded_text import coded
from gsched.core.decision import Decision
from gsched.core.dispatch.dispatcher import Dispatcher
from gsched.core.records.job import JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import JobNoted
from gsched.model.ledgers.allocation import Allocation
from gsched.model.scheduling.snapshot import Snapshot
from gsched.policy.match.room_conditions import refusal_of
from gsched.policy.place.forced_placement import placed_by_force


def force(
    dispatcher: Dispatcher,
    snapshot: Callable[[float], Snapshot],
    decision: Decision,
) -> None:
    """Start all forced jobs that can have what they need on the hosts named for them."""
    state = decision.state
    if not state.waits.forced:
        return
    for job_id in sorted(state.waits.forced):
        job = dispatcher.waiting(job_id)
        if job is None or not all(host in decision.config.hosts for host in job.forced_hosts):
            continue
        seen = snapshot(decision.now)
        if any(
            seen.hosts[host].only_user not in ("", job.spec.user) for host in job.forced_hosts if host in seen.hosts
        ):
            continue  # its agent could not start it
        allocation = placed_by_force(seen, job.bucket().requirement, job.forced_hosts)
        if allocation is not None and _is_free(state, job, allocation):
            if job.spec.application and job.spec.application not in decision.config.applications:
                text = coded("note.no_application", job.spec.application)
                decision.record(JobNoted(at=decision.now, job_id=job_id, text=text))
            dispatcher.start(job, allocation, "", decision)


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
