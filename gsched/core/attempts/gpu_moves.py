"""Suspended jobs that are moved off their GPU by their agent (cuda-checkpoint), and what it says of that.

A GPU is given out only when its agent has seen the job off it, and the job goes on only when the GPU is free again.
"""

from __future__ import annotations

from gsched.core.attempts.attempt_notes import led_by
from gsched.core.command import AttemptMoved
from gsched.core.decision import Decision
from gsched.core.records.job import JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import JobGpusKept, JobGpusMoved


def attempt_moved(command: AttemptMoved, decision: Decision) -> None:
    """What has come of it. Told again it changes nothing; nor where the job goes on, or has ended, meanwhile."""
    job = led_by(decision.state, command.host, (command.job_id, command.attempt))
    if job is None or not job.moving_off:
        return
    if command.why:
        decision.record(JobGpusKept(at=decision.now, job_id=job.job_id, attempt=job.attempt, why=command.why))
    else:
        decision.record(JobGpusMoved(at=decision.now, job_id=job.job_id, attempt=job.attempt))


def may_go_on(state: ClusterState, job: JobRecord) -> bool:
    """Whether the GPU is free that the job was moved off; True for one that was not."""
    if not job.moved_off or job.allocation is None:
        return not job.moving_off
    return not any(
        gpu.uuid in state.ledger.host(part.host).holders for part in job.allocation.hosts for gpu in part.gpus
    )
