"""Why one job waits and another runs, or stands before it: the first rule that decides, with the numbers of both.

What decides is asked, not judged anew: what a job waits for itself, the limits of a cycle, the conditions that a host
must meet, the order in which jobs are served. It is one look at a snapshot of its own, and changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from functools import partial

from gsched.base.errors import BadRequest, Conflict, NotFound
from gsched.base.ids import array_of, show_job
from gsched.core.command import CompareJobs
from gsched.core.command_turns import UNLIMITED, Turn
from gsched.core.control.job_targets import find
from gsched.core.dispatch.start_forecast import PlanCycle
from gsched.core.explaining.comparison_rules import ComparedPair, deciding_rule, order_text, plain_reason
from gsched.core.explaining.hosts_in_way import ExpectedEnd, expected_end
from gsched.core.explaining.job_explanation import ExplainingContext, waiting_job, what_comes_first
from gsched.core.pending.pending_reasons import own_reasons, pending_reasons
from gsched.core.records.job import JobRecord
from gsched.core.scheduling_cycles import SeeAnew
from gsched.core.state.cluster_state import ClusterState
from gsched.model.jobs.job import PENDING
from gsched.model.scheduling.snapshot import Running, Snapshot
from gsched.model.views.job_comparison import ComparedJob, JobComparison
from gsched.model.views.view import ShareView
from gsched.policy.backfill.reservation_table import coming_first
from gsched.policy.future.future_ledgers import Future
from gsched.policy.order.fairshare import queue_priority
from gsched.policy.order.order_rules import OrderedJob, OrderVerdict, who_is_first
from gsched.policy.requirement.demand_cache import Demands

LOOKING = 1_500
"""Steps of it."""


def compare(context: ExplainingContext, command: CompareJobs, turn: Turn) -> Generator[None, None, JobComparison]:
    """Raises NotFound, Conflict for a job that does not wait or another that is over, BadRequest for one job twice."""
    if turn.left < UNLIMITED // 2:
        yield
    job = waiting_job(context.state, command.job_id)
    other = _waiting_or_started(context.state, command.other_id)
    if job.job_id == other.job_id:
        raise BadRequest(f"Job <{show_job(job.job_id)}> is compared with itself")
    turn.spend(LOOKING)
    work = partial(_compared, context, job, other, turn.now)
    return (yield from context.cycles.ask(command, turn, job.spec.combined_req, work))


def _waiting_or_started(state: ClusterState, job_id: int) -> JobRecord:
    """The job; of an array that is meant as a whole, an element that has been started, or else the first that waits."""
    target, shown = find(state, job_id), show_job(job_id)
    if target.error:
        raise NotFound(f"Job <{shown}>: {target.error}")
    job = target.job
    if target.array is not None and job is None:
        started = min((each for each in state.running if array_of(each) == job_id), default=None)
        index = next(target.array.waiting(), None)
        if started is None and index is None:
            raise Conflict(f"Job <{shown}>: no element of the array waits or runs")
        job = target.array.element(index or 0) if started is None else state.jobs[started]
    if job is None or not (job.state in PENDING or job.job_id in state.running):
        raise Conflict(f"Job <{shown}> neither waits nor runs" + (f": it is in {job.state.value}" if job else ""))
    return job


def _compared(
    context: ExplainingContext, job: JobRecord, other: JobRecord, now: float, seen: SeeAnew, plan: PlanCycle
) -> Generator[None, None, JobComparison]:
    """All in one turn: it plans nothing."""
    yield from ()
    state, snapshot = context.state, seen()
    running = snapshot.running.get(other.job_id)
    waits_for = what_comes_first(context, job.job_id)
    reasons = pending_reasons(state, context.dependents, context.cycles.reasons, job.job_id)
    others = own_reasons(state, context.dependents, other.job_id) if running is None else ()
    order = None
    if not waits_for and not others:
        seen_for_both = _with_waiting(state, snapshot, other, now)
        reserved = coming_first(snapshot) if running is None else ()  # what was reserved when it started is not known
        order = who_is_first(seen_for_both, _ordered(job), _ordered(other), reserved)
    planned = context.cycles.planned.get(job.job_id)
    found = deciding_rule(
        ComparedPair(
            snapshot, now, job, other, running, order, waits_for, reasons, others, planned, _robbed(state, other)
        )
    )
    return JobComparison(
        at=now,
        job=_told(snapshot, now, job, None, _share_of(order, job)),
        other=_told(snapshot, now, other, running, _share_of(order, other)),
        rule=found.rule,
        text=found.text,
        first=0 if order is None else order.first.job_id,
        order_rule="" if order is None else order.rule,
        order_text="" if order is None else order_text(order, snapshot, now, job, other),
        reasons=reasons,
        planned=planned and plain_reason(planned),
    )


def _ordered(job: JobRecord) -> OrderedJob:
    return OrderedJob(job.job_id, job.bucket(), job.rank())


def _with_waiting(state: ClusterState, snapshot: Snapshot, other: JobRecord, now: float) -> Snapshot:
    """The snapshot in which the other job, if it has been started, counts for nobody's share."""
    queue = other.spec.queue
    if other.job_id not in snapshot.running or queue not in snapshot.shares:
        return snapshot
    shares = {**snapshot.shares, queue: state.accounts.shares_without(queue, other.job_id, now)}
    return replace(snapshot, shares=shares)


def _robbed(state: ClusterState, other: JobRecord) -> int:
    """A job that was preempted for the other's sake; 0: none is known."""
    victims = (*state.suspended, *state.running)
    return next((each for each in victims if each in state.jobs and _is_robbed(state.jobs[each], other)), 0)


def _is_robbed(job: JobRecord, other: JobRecord) -> bool:
    return job.preempted_by == other.job_id


def _share_of(order: OrderVerdict | None, job: JobRecord) -> ShareView | None:
    if order is None or order.shares is None:
        return None
    return order.shares[0 if order.first.job_id == job.job_id else 1]


def _told(
    snapshot: Snapshot, now: float, job: JobRecord, running: Running | None, share: ShareView | None
) -> ComparedJob:
    bucket, spec = job.bucket(), job.spec
    end = ExpectedEnd(None) if running is None else expected_end(running, Future(snapshot, now))
    if running is None:
        slots, gpus = bucket.requirement.slots, Demands(snapshot.local_type).least(bucket.requirement).get("ngpus", 0)
        hosts: tuple[str, ...] = ()
    else:
        parts = running.allocation.parts
        slots, gpus = running.allocation.slots, sum(len(part.gpus) for part in parts)
        hosts = tuple(dict.fromkeys(part.host for part in parts))
    return ComparedJob(
        job_id=job.job_id,
        user=spec.user,
        queue=spec.queue,
        state=job.state.value,
        queue_priority=queue_priority(snapshot.queues, spec.queue),
        priority=spec.aging_per_s * now - job.rank().priority if spec.aging_per_s or spec.priority else 0.0,
        submitted_at=job.submitted_at,
        started_at=None if running is None or math.isinf(job.held_since) else job.held_since,
        ends_at=end.at,
        is_limit=end.is_limit,
        hosts=hosts,
        slots=slots,
        gpus=int(gpus),
        share=share,
    )
