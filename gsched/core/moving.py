"""gtop and gbot: another place in the order of a queue. Users move their own jobs among their own, administrators all.

Source of the rules: btop(1).
"""

from __future__ import annotations

from gsched.base.ids import array_of
from gsched.core.cluster import ClusterState
from gsched.core.command import ControlJobs
from gsched.core.decision import Decision
from gsched.core.job import Job
from gsched.core.targets import Caller
from gsched.model.event import JobMoved


def move(state: ClusterState, caller: Caller, job: Job, command: ControlJobs, now: float, decision: Decision) -> str:
    """Record the move; a position beyond the end is the end. Returns what is wrong, empty when nothing is."""
    if command.position < 1:
        return "Bad argument: positions count from 1"
    others = _orders(state, job, everybody=caller.is_admin)
    position = min(command.position, len(others) + 1)
    to_top = command.action == "top"
    place = position - 1 if to_top else len(others) - position + 1
    decision.record(
        JobMoved(
            at=now,
            job_id=job.job_id,
            by=command.user,
            order=_between(others, place, job.rank().order),
            position=position,
            to_top=to_top,
        )
    )
    return ""


def _orders(state: ClusterState, job: Job, *, everybody: bool) -> list[float]:
    """Orders of the other waiting jobs and arrays of the queue (of the same user unless `everybody`), ascending."""
    found = [
        state_item.rank().order
        for bucket, line in state.pending.lines()
        if bucket.queue == job.spec.queue and (everybody or bucket.user == job.spec.user)
        for entry in line.entries()
        if entry not in (job.job_id, array_of(job.job_id))
        for state_item in (_as_job(state, entry),)
    ]
    return sorted(found)


def _as_job(state: ClusterState, entry: int) -> Job:
    array = state.arrays.get(entry)
    return array.template() if array is not None else state.jobs[entry]


def _between(others: list[float], place: int, own: float) -> float:
    """An order that comes after `place` of the others and before the rest."""
    if not others:
        return own
    if place <= 0:
        return others[0] - 1.0
    if place >= len(others):
        return others[-1] + 1.0
    return (others[place - 1] + others[place]) / 2
