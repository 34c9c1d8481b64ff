"""Everything that is known of why one job waits: its reasons, the hosts by reason, and when it is expected to start.

It puts together what others find out, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from gsched.base.errors import Conflict, NotFound, RequirementError
from gsched.base.ids import array_of, show_job
from gsched.core.command_turns import UNLIMITED, Turn
from gsched.core.control.job_targets import find
from gsched.core.dispatch.snapshot_builder import local_type_of
from gsched.core.dispatch.start_estimates import StartEstimates
from gsched.core.dispatch.start_forecast import PlanCycle
from gsched.core.explaining.admin_measures import FoundMeasures, admin_measures
from gsched.core.explaining.expected_start import (
    MOST_AWAITED,
    ExpectedStart,
    awaited_end,
    expected_start,
    higher_queues,
)
from gsched.core.explaining.hosts_in_way import MOST_HOSTS, refusing_hosts
from gsched.core.explaining.start_suggestions import suggestions
from gsched.core.explaining.start_trial import Admitted, TrialContext
from gsched.core.pending.dependent_jobs import Dependents
from gsched.core.pending.pending_reasons import is_pausing, own_reasons, pending_reasons
from gsched.core.records.dependency_condition import parents_of
from gsched.core.records.job import JobRecord
from gsched.core.scheduling_cycles import SchedulingCycles, SeeAnew
from gsched.core.state.cluster_state import ClusterState
from gsched.model.jobs.job import PENDING
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.scheduling.snapshot import Bucket, Snapshot
from gsched.model.views.explanation import AwaitedEnd, JobExplanation, RefusingHosts, StartSuggestion
from gsched.policy.future.future_ledgers import Future
from gsched.policy.requirement.demand_cache import Demands

MOST_QUEUES = 4
"""Higher queues that are named."""
LOOKING = 20
"""Steps of looking at a host."""


@dataclass(frozen=True, slots=True)
class ExplainingContext:
    """What is asked of the rest of the engine."""

    state: ClusterState
    dependents: Dependents
    cycles: SchedulingCycles
    admitted: Admitted
    estimates: StartEstimates


@dataclass(frozen=True, slots=True)
class PlannedAnswer:
    """What planning says."""

    start: ExpectedStart = field(default_factory=ExpectedStart)
    hosts: tuple[RefusingHosts, ...] = ()
    higher_queues: tuple[str, ...] = ()
    """Queues whose jobs would come before it at that start, if some were submitted."""


def explain(
    context: ExplainingContext, command: object, job_id: int, turn: Turn
) -> Generator[None, None, JobExplanation]:
    """Raises NotFound, and Conflict for a job that does not wait."""
    if turn.left < UNLIMITED // 2:
        yield  # its plan begins with a turn
    job = waiting_job(context.state, job_id)
    waits_for = what_comes_first(context, job_id)
    reasons = pending_reasons(context.state, context.dependents, context.cycles.reasons, job_id)
    found = PlannedAnswer()
    if not waits_for:
        found = yield from context.cycles.ask(
            command,
            turn,
            job.spec.combined_req,
            partial(planned_for, context.state, job, reasons, context.cycles.planned, turn, False),
        )
    found_changes: tuple[StartSuggestion, ...] = ()
    measures = FoundMeasures()
    if not waits_for and not found.start.starts_now:
        trial = TrialContext(context.state, context.cycles, command, turn, context.admitted)
        check = partial(waiting_job, context.state, job_id)
        found_changes = yield from suggestions(trial, job, check)
        measures = yield from admin_measures(trial, job, check)
    usual = None
    if not waits_for:
        usual = context.estimates.of(job.spec, job.bucket().requirement, turn.now, job)
    number = job.job_id if job.job_id in context.state.waits.delayed else array_of(job.job_id)
    return JobExplanation(
        job_id=job_id,
        user=job.spec.user,
        queue=job.spec.queue,
        state=job.state.value,
        at=turn.now,
        reasons=reasons,
        waits_for=waits_for,
        waits_until=context.state.waits.delayed.get(number) if waits_for in ("time", "retry", "pause") else None,
        hosts=found.hosts,
        higher_queues=found.higher_queues,
        starts_now=found.start.starts_now,
        planned=found.start.planned,
        is_reserved=found.start.is_reserved,
        is_alone=found.start.is_alone,
        awaits=_awaited_by_condition(context, job, turn) if waits_for == "condition" else found.start.awaits,
        suggestions=found_changes,
        gpus=Demands(local_type_of(turn.decision.config)).least(job.bucket().requirement).get("ngpus", 0.0),
        submitted_at=job.submitted_at,
        measures=measures.measures,
        measures_cut=measures.is_cut,
        p50_at=None if usual is None else job.submitted_at + usual.p50_s,
        p90_at=None if usual is None else job.submitted_at + usual.p90_s,
        such_jobs=0 if usual is None else usual.jobs,
    )


def _awaited_by_condition(context: ExplainingContext, job: JobRecord, turn: Turn) -> tuple[AwaitedEnd, ...]:
    """The expected ends, where known, of the started jobs that its dependency condition names, the last first."""
    future = Future(context.cycles.snapshot(turn.decision.config, turn.now), turn.now)
    started = (context.state.running.get(parent) for parent in sorted(parents_of(job.spec.conditions)))
    found: list[AwaitedEnd] = []
    for each in started:
        if each is not None:
            found += awaited_end(each, future, each.allocation.first_host)
    return tuple(sorted(found, key=lambda end: -end.at)[:MOST_AWAITED])


def planned_for(
    state: ClusterState,
    job: JobRecord,
    reasons: tuple[PendingReason, ...],
    told: Mapping[int, PlannedStart],
    turn: Turn,
    is_new: bool,
    seen: SeeAnew,
    plan: PlanCycle,
) -> Generator[None, None, PlannedAnswer]:
    """When a job that waits for a place, or would (`is_new`), starts, and the hosts that do not take it."""
    start = yield from expected_start(state, job, turn.now, told, seen, plan, is_new=is_new)
    if not turn.has_room(LOOKING * MOST_HOSTS):
        yield
    snapshot, bucket = seen(), job.bucket()
    if bucket.queue not in snapshot.queues:
        return PlannedAnswer(start)
    above = _above(snapshot, bucket, start.planned)
    turn.spend(LOOKING * min(len(snapshot.hosts), MOST_HOSTS))
    try:
        return PlannedAnswer(start, refusing_hosts(snapshot, turn.now, bucket, reasons), above)
    except RequirementError:
        return PlannedAnswer(start, higher_queues=above)


def _above(snapshot: Snapshot, bucket: Bucket, planned: PlannedStart | None) -> tuple[str, ...]:
    """Higher queues that may use hosts of the planned start."""
    if planned is None or planned.at is None:
        return ()
    found = (
        queue.name
        for queue in higher_queues(snapshot, bucket.queue)
        if queue.hosts is None or not set(planned.hosts).isdisjoint(queue.hosts)
    )
    return tuple(islice(found, MOST_QUEUES))


def waiting_job(state: ClusterState, job_id: int) -> JobRecord:
    """The job; of an array that is meant as a whole, the first of its waiting elements. Raises NotFound, Conflict."""
    target, shown = find(state, job_id), show_job(job_id)
    if target.error:
        raise NotFound(f"Job <{shown}>: {target.error}")
    job = target.job
    if target.array is not None and job is None:
        index = next(target.array.waiting(), None)
        if index is None:
            raise Conflict(f"Job <{shown}>: no element of the array waits")
        job = target.array.element(index)
    if job is None or job.state not in PENDING:
        raise Conflict(f"Job <{shown}> does not wait" + (f": it is in {job.state.value}" if job else ""))
    return job


def what_comes_first(context: ExplainingContext, job_id: int) -> str:
    """See JobExplanation.waits_for."""
    state, number = context.state, job_id if job_id in context.state.jobs else array_of(job_id)
    if not own_reasons(state, context.dependents, job_id):
        return ""
    if number in state.waits.blocked:
        return "condition"
    if number in state.waits.forced:
        return "force"
    if number in state.waits.delayed:
        job = state.jobs.get(number)
        if job is not None and is_pausing(job):
            return "pause"
        return "retry" if job is not None and job.failed_starts else "time"
    return "hold"
