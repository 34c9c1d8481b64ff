"""The first rule that decides between a job that waits and another one, in the order in which a cycle asks.

Each rule is a function of the pair that says None where it does not decide. What a rule says is true of the two jobs at
that moment; what was when the other one started is not known any more. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gsched.base.coded_text import AnyText, CodedText, coded, has_code
from gsched.base.errors import RequirementError
from gsched.base.ids import show_job
from gsched.core.records.job import JobRecord
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.scheduling.snapshot import Running, Snapshot
from gsched.model.views.view import ShareView
from gsched.policy.future.future_ledgers import Future
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.limits.limit_claims import LimitClaim
from gsched.policy.match.host_refusals import host_refusals
from gsched.policy.order import order_rules
from gsched.policy.order.fairshare import queue_priority
from gsched.policy.order.order_rules import OrderVerdict
from gsched.policy.requirement.demand_cache import Demands
from gsched.policy.requirement.reasons import Reason


class Decided(NamedTuple):
    """A rule, and what it says of the two jobs."""

    rule: str
    text: CodedText


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """`job` waits; `other` does too, or has been started (`running`)."""

    snapshot: Snapshot
    now: float
    job: JobRecord
    other: JobRecord
    running: Running | None
    order: OrderVerdict | None
    """Who of them is served first; None: one of them waits for something else than a place."""
    waits_for: str
    """See JobExplanation."""
    reasons: tuple[PendingReason, ...]
    """Why `job` waits."""
    other_reasons: tuple[PendingReason, ...]
    """What `other` waits for that is no place."""
    planned: PlannedStart | None
    preempted: int
    """A job that was preempted for `other`; 0: none."""

    def says(self, rule: str, code: str, *values: str | int | float | CodedText) -> Decided:
        """A verdict whose text names the two jobs first."""
        return Decided(rule, coded(f"why_not.{code}", show_job(self.job.job_id), show_job(self.other.job_id), *values))


def deciding_rule(pair: ComparedPair) -> Decided:
    """The first that decides."""
    return next(found for found in (rule(pair) for rule in _RULES) if found is not None)


def plain_reason(planned: PlannedStart) -> PlannedStart:
    """The start without what cycles keep beside it."""
    return PlannedStart(at=planned.at, hosts=planned.hosts, text=planned.text)


def order_text(order: OrderVerdict, snapshot: Snapshot, now: float, *jobs: JobRecord) -> CodedText:
    """What the rule of the order says of the two, with the numbers that it compares."""
    first, second = order.first, order.second
    names = (show_job(first.job_id), show_job(second.job_id))
    values: tuple[str | float, ...] = ()
    if order.rule == order_rules.QUEUE_PRIORITY:
        queues = (first.bucket.queue, second.bucket.queue)
        priorities = [queue_priority(snapshot.queues, queue) for queue in queues]
        values = (queues[0], priorities[0], queues[1], priorities[1])
    elif order.rule == order_rules.FAIRSHARE and order.shares is not None:
        one, other = order.shares
        values = (_place(one), one.priority, _place(other), other.priority)
    elif order.rule == order_rules.JOB_PRIORITY:
        aging = {job.job_id: job.spec.aging_per_s * now for job in jobs}
        values = tuple(aging[each.job_id] - each.rank.priority for each in (first, second))
    return coded(f"why_not.{order.rule}", *names, *values)


def _place(share: ShareView) -> str:
    """`/GROUP/USER`."""
    return f"/{share.path.partition('/')[2]}{share.name}"


def _whole(reason: PendingReason | Reason) -> AnyText:
    return coded("reason.with_numbers", reason.text, reason.detail) if reason.detail else reason.text


def _main_reason(pair: ComparedPair) -> AnyText:
    return _whole(pair.reasons[0])


# -- rules, in order --------------------------------------------------------------------------------------------------


def _own(pair: ComparedPair) -> Decided | None:
    if not pair.waits_for:
        return None
    return Decided(pair.waits_for, coded("why_not.own", show_job(pair.job.job_id), _main_reason(pair)))


def _other_not_ready(pair: ComparedPair) -> Decided | None:
    if not pair.other_reasons:
        return None
    return pair.says("other_not_ready", "other_not_ready", _whole(pair.other_reasons[0]))


def _started_before(pair: ComparedPair) -> Decided | None:
    ready = max(pair.job.submitted_at, pair.job.spec.begin_at or 0.0, pair.job.not_before)
    is_before = pair.running is not None and pair.other.held_since < ready
    return pair.says("started_before", "started_before") if is_before else None


def _queue(pair: ComparedPair) -> Decided | None:
    queue = pair.job.spec.queue
    inactive = pair.snapshot.inactive_queues.get(queue)
    return None if inactive is None else pair.says("queue", "queue", queue, inactive)


def _limit(pair: ComparedPair) -> Decided | None:
    """One that stops the job and does not count the other."""
    limits = LimitUse(pair.snapshot, Demands(pair.snapshot.local_type).least)
    bucket = pair.job.bucket()
    denial = limits.reason(bucket)
    if denial is None:
        return None
    text = _whole(denial.reason)
    full = list(_exceeded(limits, pair))
    if not full or not all(_counts_other(pair, claim) for claim in full):
        return pair.says("limit", "limit", text)
    is_behind = pair.order is None or pair.order.first.job_id != pair.job.job_id
    return None if is_behind else pair.says("limit", "limit_too_small", text)


def _exceeded(limits: LimitUse, pair: ComparedPair) -> Iterator[LimitClaim]:
    bucket = pair.job.bucket()
    parts = (HostAllocation(host="", slots=bucket.requirement.slots),)
    claims = limits.claims(bucket, parts, pair.snapshot.minute_of_week)
    return (claim for claim in claims if claim.used + claim.take > claim.allowed)


def _counts_other(pair: ComparedPair, claim: LimitClaim) -> bool:
    bucket = pair.other.bucket()
    parts: Sequence[HostAllocation] = (HostAllocation(host="", slots=bucket.requirement.slots),)
    if pair.running is not None:
        parts = pair.running.allocation.parts
    return claim.counter.amount_of(bucket, parts) > 0


def _own_reservation(pair: ComparedPair) -> Decided | None:
    if not has_code(pair.reasons[0].text, "pending.reservation_inactive"):
        return None
    return pair.says("reservation", "own_reservation", _main_reason(pair))


def _hosts(pair: ComparedPair) -> Decided | None:
    """The other runs only where the job never can."""
    refused = _refused(pair)
    if not refused or any(reason is None or reason.candidate for _, reason in refused):
        return None
    host, reason = refused[0]
    assert reason is not None
    return pair.says("hosts", "hosts", host, _whole(reason))


def _order(pair: ComparedPair) -> Decided | None:
    """The other one comes first, or both wait."""
    order = pair.order
    if order is None or (pair.running is not None and order.first.job_id == pair.job.job_id):
        return None
    return Decided(order.rule, order_text(order, pair.snapshot, pair.now, pair.job, pair.other))


def _rights(pair: ComparedPair) -> Decided | None:
    if pair.running is None:
        return None
    limits, bucket = LimitUse(pair.snapshot), pair.job.bucket()
    hosts = [part.host for part in pair.running.allocation.parts]
    if not all(limits.bars(bucket, host) for host in hosts):
        return None
    return pair.says("rights", "rights", hosts[0], pair.snapshot.hosts[hosts[0]].only_user)


def _preemption(pair: ComparedPair) -> Decided | None:
    return pair.says("preemption", "preemption", show_job(pair.preempted)) if pair.preempted else None


def _reservation(pair: ComparedPair) -> Decided | None:
    name = pair.other.spec.reservation
    return pair.says("reservation", "reservation", name) if name and name != pair.job.spec.reservation else None


def _backfill(pair: ComparedPair) -> Decided | None:
    """The job has a planned start, which the other one does not put off."""
    planned, running = pair.planned, pair.running
    if planned is None or planned.at is None or running is None:
        return None
    if not {part.host for part in running.allocation.parts} & set(planned.hosts):
        return pair.says("backfill", "backfill_beside")
    end = Future(pair.snapshot, pair.now).end_of_running(running)
    return pair.says("backfill", "backfill_ends") if end <= planned.at else None


def _needs_less(pair: ComparedPair) -> Decided | None:
    """No host of the other one has room for the job even without it."""
    refused = _refused(pair)
    if not refused or any(reason is None for _, reason in refused):
        return None
    host, reason = refused[0]
    assert reason is not None
    return pair.says("needs_less", "needs_less", host, _whole(reason))


def _place_of_other(pair: ComparedPair) -> Decided | None:
    return pair.says("place", "place", _main_reason(pair))


def _refused(pair: ComparedPair) -> list[tuple[str, Reason | None]]:
    """Each host of the other one, and why the job has no place there even if that one were gone."""
    running = pair.running
    if running is None or pair.job.spec.queue not in pair.snapshot.queues:
        return []
    ledger = pair.snapshot.ledger.fork()
    ledger.give(running.key, running.allocation)
    hosts = [part.host for part in running.allocation.parts if part.host in pair.snapshot.hosts]
    freed = replace(pair.snapshot, ledger=ledger, columns=None)
    try:
        return list(host_refusals(freed, pair.now, pair.job.bucket(), dict.fromkeys(hosts)))
    except RequirementError:
        return []


_RULES: tuple[Callable[[ComparedPair], Decided | None], ...] = (
    _own,
    _other_not_ready,
    _started_before,
    _queue,
    _limit,
    _own_reservation,
    _hosts,
    _order,
    _rights,
    _preemption,
    _reservation,
    _backfill,
    _needs_less,
    _place_of_other,
)
