"""When a job could start if it were submitted now: a cycle is planned with it, and nothing comes of the plan.

Starts are planned for some of those that wait, and the work is bounded: where nothing can be said of the job because of
others, it is planned for as if it were the only one, and the answer says so. It never changes the state.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace

import msgspec

from gsched.core.records.job import JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.core.state.pending_jobs import PendingJobs
from gsched.model.jobs.job import JobSpec, JobState
from gsched.model.jobs.reason import PlannedStart
from gsched.model.scheduling.snapshot import Plan, Snapshot
from gsched.model.views.view import StartForecast

MOST_WAITING = 100
"""Jobs and arrays that are planned for besides."""
BUDGET = 300
"""Steps of the cycle."""

PlanCycle = Callable[[Snapshot, int], Generator[None, None, Plan]]
"""(snapshot, budget of steps) -> what a cycle would do, in turns."""


def forecast(
    state: ClusterState, spec: JobSpec, now: float, seen: Callable[[], Snapshot], plan: PlanCycle
) -> Generator[None, None, StartForecast]:
    """The answer for a job of this spec, which was admitted. `seen`: a new snapshot each time, `plan` may use it up.

    It yields where a turn of the plan is over; until the answer is there, all that a cycle looks at must stay as it is.
    """
    job = JobRecord(job_id=state.next_job_id, spec=spec, state=JobState.PEND, submitted_at=now)
    others = waiting_jobs(state)
    if others is not None:
        is_first = not others
        others.add(job)
        planned = yield from plan(replace(seen(), pending=others), BUDGET)
        found = None if planned.truncated else _answer(job, planned)
        if found is not None and (is_first or found.starts_now or (found.planned and found.planned.at is not None)):
            return found
    alone = PendingJobs()
    alone.add(job)
    planned = yield from plan(replace(seen(), pending=alone, planned={}), BUDGET)
    return msgspec.structs.replace(_answer(job, planned), is_alone=True)


def waiting_jobs(state: ClusterState) -> PendingJobs | None:
    """Those that wait for a place, entered anew; None where there are too many."""
    found = PendingJobs()
    count = 0
    for _, line in state.pending.lines():
        for number in line.entries():
            count += 1
            if count > MOST_WAITING:
                return None
            array = state.arrays.get(number)
            if array is not None:
                found.add(array.template(), array)
            else:
                found.add(state.jobs[number])
    return found


def _answer(job: JobRecord, plan: Plan) -> StartForecast:
    bucket = job.bucket()
    number, queue = job.job_id, bucket.queue
    for placement in plan.placements:
        if placement.job_id == job.job_id:
            hosts = tuple(part.host for part in placement.allocation.parts)
            slots = placement.allocation.slots
            return StartForecast(starts_now=True, hosts=hosts, job_id=number, queue=queue, slots=slots)
    planned = plan.planned.get(job.job_id)
    return StartForecast(
        planned=planned and PlannedStart(at=planned.at, hosts=planned.hosts, text=planned.text),
        reasons=plan.reasons.get(bucket) or plan.reasons.get((queue, bucket.requirement)) or (),
        job_id=number,
        queue=queue,
        slots=bucket.requirement.slots,
    )
