"""Would a job start now if it were another one? A cycle is planned with it in its place, and nothing comes of the plan.

What waits besides is all there where the kinds of jobs that wait are few; else only those for which something is
reserved: the last cycle has found that no other starts. It never changes the state.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import merge

from gsched.base.errors import GschedError
from gsched.core.command_turns import Turn
from gsched.core.dispatch.start_forecast import PlanCycle
from gsched.core.records.job import JobRecord
from gsched.core.scheduling_cycles import SchedulingCycles, SeeAnew
from gsched.core.state.cluster_state import ClusterState
from gsched.model.jobs.job import JobSpec
from gsched.model.scheduling.snapshot import Bucket, JobLine, Plan, Rank, RequirementClass, Snapshot
from gsched.policy.backfill.reserved_start import ReservedStart

MOST_KINDS = 200
"""Lines of equal jobs that are planned for besides."""
BUDGET = 2_000
"""Steps of the plan."""
Pending = Mapping[RequirementClass, Mapping[Bucket, JobLine]]
AlterCluster = Callable[[Snapshot], Snapshot]
"""A snapshot -> the same, changed; its ledger is a fork that may be written to."""
Admitted = Callable[[JobSpec, JobSpec | None], JobSpec]
"""(spec, what the job is now) -> the completed spec. Raises GschedError."""


@dataclass(frozen=True, slots=True)
class TrialContext:
    """The engine's parts that a trial asks."""

    state: ClusterState
    cycles: SchedulingCycles
    command: object
    turn: Turn
    admitted: Admitted


def try_start(
    context: TrialContext, job: JobRecord, spec: JobSpec, *, is_new: bool = False
) -> Generator[None, None, tuple[str, ...] | None]:
    """The hosts on which the job starts with the next cycle if it asks for this; None: it waits, or is refused.

    `is_new`: it has not been submitted. Raises nothing of what the job asks for.
    """
    try:
        spec = context.admitted(spec, None if is_new else job.spec)
    except GschedError:
        return None
    plan = yield from plan_with(context, None if is_new else job, _otherwise(job, spec))
    if plan.truncated:
        return None
    return start_hosts(plan, job.job_id)


def start_hosts(plan: Plan, job_id: int) -> tuple[str, ...] | None:
    """Where the job starts by that plan; None: it does not."""
    for placement in plan.placements:
        if placement.job_id == job_id:
            return tuple(part.host for part in placement.allocation.hosts)
    return None


def plan_with(context: TrialContext, old: JobRecord | None, new: JobRecord | None) -> Generator[None, None, Plan]:
    """What a cycle would do if `new` waited instead of `old`."""
    pending = _waiting(context.state, context.cycles)
    requirement = new.spec.combined_req if new is not None else ""
    return (
        yield from plan_changed(context, requirement, lambda seen: replace(seen, pending=exchanged(pending, old, new)))
    )


def plan_changed(context: TrialContext, requirement: str, change: AlterCluster) -> Generator[None, None, Plan]:
    """What a cycle would do in the changed cluster. `requirement`: of the job that is asked about."""

    def work(seen: SeeAnew, plan: PlanCycle) -> Generator[None, None, Plan]:
        return plan(change(seen()), BUDGET)

    return (yield from context.cycles.ask(context.command, context.turn, requirement, work))


def _otherwise(job: JobRecord, spec: JobSpec) -> JobRecord:
    """The job as it is after gmod: in the same place, with another spec."""
    made = copy.copy(job)
    made.course = job.course if job.is_untouched() else copy.copy(job.course)
    made.spec, made.waited_s = spec, 0.0
    return made


def _waiting(state: ClusterState, cycles: SchedulingCycles) -> Pending:
    if state.pending.kinds <= MOST_KINDS:
        return state.pending
    planned = [each.bucket for each in cycles.planned.values() if isinstance(each, ReservedStart)]
    found: dict[RequirementClass, dict[Bucket, JobLine]] = {}
    for bucket in planned:
        line = state.pending.get(bucket.requirement, {}).get(bucket)
        if line is not None:
            found.setdefault(line.bucket.requirement, {})[line.bucket] = line
    return found


def exchanged(pending: Pending, old: JobRecord | None, new: JobRecord | None) -> Pending:
    """Those that wait, with one job instead of another; their lines are shared."""
    found: dict[RequirementClass, dict[Bucket, JobLine]] = {key: dict(lines) for key, lines in pending.items()}
    if old is not None:
        _take_out(found, old)
    if new is not None:
        _put_in(found, new)
    return found


def _take_out(pending: dict[RequirementClass, dict[Bucket, JobLine]], job: JobRecord) -> None:
    bucket = job.bucket()
    line = pending.get(bucket.requirement, {}).get(bucket)
    if line is None:
        return
    if len(line) > 1:
        pending[bucket.requirement][bucket] = LineWithout(line, job.job_id)
        return
    del pending[bucket.requirement][bucket]
    if not pending[bucket.requirement]:
        del pending[bucket.requirement]


def _put_in(pending: dict[RequirementClass, dict[Bucket, JobLine]], job: JobRecord) -> None:
    bucket = job.bucket()
    lines = pending.setdefault(bucket.requirement, {})
    shared = next((each.requirement for each in lines), bucket.requirement)  # all buckets of a class share one object
    bucket = bucket._replace(requirement=shared)
    lines[bucket] = LineWith(lines.get(bucket), job.rank(), job.job_id)


class LineWithout:
    """A line without one of its jobs. Satisfies JobLine."""

    def __init__(self, line: JobLine, job_id: int) -> None:
        self._line, self._job_id = line, job_id

    def __iter__(self) -> Iterator[tuple[Rank, int]]:
        return (entry for entry in self._line if entry[1] != self._job_id)

    def __len__(self) -> int:
        return len(self._line) - 1


class LineWith:
    """A line, perhaps empty, with one job more. Satisfies JobLine."""

    def __init__(self, line: JobLine | None, rank: Rank, job_id: int) -> None:
        self._line, self._entry = line, (rank, job_id)

    def __iter__(self) -> Iterator[tuple[Rank, int]]:
        return merge(self._line or (), (self._entry,))

    def __len__(self) -> int:
        return 1 + (0 if self._line is None else len(self._line))
