"""What would become of a job if it were submitted now: where it starts or when, what would start it, what it takes.

It is planned for as the next cycle would with it at the end of those that wait. Nothing is submitted: there is no
event, and no number is used up.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial

from gsched.core.command_turns import Turn
from gsched.core.explaining.expected_start import ExpectedStart
from gsched.core.explaining.job_explanation import ExplainingContext, PlannedAnswer, planned_for
from gsched.core.explaining.start_suggestions import suggestions
from gsched.core.explaining.start_trial import TrialContext, plan_with
from gsched.core.records.job import JobRecord
from gsched.model.jobs.job import JobSpec, JobState
from gsched.model.jobs.reason import PendingReason
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.scheduling.snapshot import Plan, Snapshot
from gsched.model.views.explanation import JobDryRun, JobExplanation, LimitTake, PlacedPart, StartSuggestion
from gsched.policy.backfill.reserved_start import ReservedStart
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.limits.limit_sections import GPU_HOURS, seems_to_want_gpus

_HOUR_S = 3600.0
BEHIND = 1_000_000
"""The job's number is so much behind the last one: others may be submitted while one plans for it."""


def dry_run(
    context: ExplainingContext, command: object, spec: JobSpec, waits_for: str, turn: Turn
) -> Generator[None, None, JobDryRun]:
    """`spec` was admitted. `waits_for`: what comes before it waits for a place, see JobExplanation; the rest is told as
    if that had come.
    """
    number = context.state.next_job_id + BEHIND
    job = JobRecord(job_id=number, spec=spec, state=JobState.PEND, submitted_at=turn.now)
    trial = TrialContext(context.state, context.cycles, command, turn, context.admitted)
    plan = yield from plan_with(trial, None, job)
    parts = _parts(plan, number)
    starts_now = plan.starts(number)
    reasons: tuple[PendingReason, ...] = ()
    told: tuple[StartSuggestion, ...] = ()
    if starts_now:
        found = PlannedAnswer(ExpectedStart(starts_now=True))
    else:
        reasons = _reasons(plan, job)
        known = {number: plan.planned[number]} if number in plan.planned else {}
        found = yield from context.cycles.ask(
            command, turn, spec.combined_req, partial(planned_for, context.state, job, reasons, known, turn, True)
        )
        told = yield from suggestions(trial, job, _nothing, is_new=True)
    usual = None
    if not starts_now and not waits_for:
        usual = context.estimates.of(spec, job.bucket().requirement, turn.now)
    limits = tuple(_limits(context.cycles.snapshot(turn.decision.config, turn.now), job, parts))
    return JobDryRun(
        explanation=JobExplanation(
            job_id=0,
            user=spec.user,
            queue=spec.queue,
            at=turn.now,
            reasons=reasons,
            waits_for=waits_for,
            waits_until=spec.begin_at if waits_for == "time" else None,
            hosts=found.hosts,
            higher_queues=found.higher_queues,
            starts_now=starts_now,
            planned=found.start.planned,
            is_reserved=found.start.is_reserved,
            is_alone=found.start.is_alone,
            awaits=found.start.awaits,
            suggestions=told,
            p50_at=None if usual is None else turn.now + usual.p50_s,
            p90_at=None if usual is None else turn.now + usual.p90_s,
            such_jobs=0 if usual is None else usual.jobs,
        ),
        parts=tuple(_placed(each) for each in parts if each.host) if starts_now else (),
        limits=limits,
        warnings=spec.warnings,
    )


def _nothing() -> None:
    """It cannot leave those that wait."""


def _reasons(plan: Plan, job: JobRecord) -> tuple[PendingReason, ...]:
    bucket = job.bucket()
    return plan.reasons.get(bucket) or plan.reasons.get((bucket.queue, bucket.requirement)) or ()


def _parts(plan: Plan, number: int) -> Sequence[HostAllocation]:
    """What it would hold now, or at its planned start; empty where that is not known."""
    for placement in plan.placements:
        if placement.job_id == number:
            return placement.allocation.parts
    planned = plan.planned.get(number)
    if isinstance(planned, ReservedStart) and planned.allocation is not None:
        return planned.allocation.parts
    return ()


def _placed(part: HostAllocation) -> PlacedPart:
    return PlacedPart(host=part.host, slots=part.slots, gpus=tuple(gpu.index for gpu in part.gpus))


def _limits(snapshot: Snapshot, job: JobRecord, parts: Sequence[HostAllocation]) -> Iterator[LimitTake]:
    """What it takes of limits; where its place is not known, of those alone that look at no hosts, by its slots."""
    bucket = job.bucket()
    if bucket.queue not in snapshot.queues:
        return
    known = parts or (HostAllocation(host="", slots=bucket.requirement.slots),)
    use = LimitUse(snapshot)
    for claim in use.claims(bucket, known, snapshot.minute_of_week):
        counter = claim.counter
        yield LimitTake(
            limit=counter.section.name if counter.section is not None else "",
            kind=counter.kind,
            name=counter.name,
            resource=counter.resource or ("slots" if counter.counts_slots else "jobs"),
            host=counter.on_host,
            takes=claim.take,
            used=claim.used,
            allowed=None if claim.allowed == float("inf") else claim.allowed,
            text=claim.text,
        )
    if seems_to_want_gpus(bucket.requirement):
        for limit, text, used in use.budgets(bucket):
            yield LimitTake(
                limit=limit.name,
                kind="budget",
                resource=GPU_HOURS,
                takes=_gpu_hours(job, parts),
                used=used,
                allowed=limit.gpu_hours,
                text=text,
            )


def _gpu_hours(job: JobRecord, parts: Sequence[HostAllocation]) -> float | None:
    """What it uses by its run limit; None where it has none, or its GPUs are not known."""
    limit = job.spec.run_limit_s
    return (
        None if limit is None or not parts else sum(gpu.share for part in parts for gpu in part.gpus) * limit / _HOUR_S
    )
