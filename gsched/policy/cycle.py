"""One scheduling cycle: `schedule(snapshot, now, budget) -> Plan`.

Serve jobs in order; a class that cannot be placed is not tried again job by job. Pure: no I/O, no clock, no randomness;
bounded by `budget` steps (one step = one class looked at on one host).
"""

from __future__ import annotations

from collections.abc import Mapping

from gsched.base.errors import RequirementError
from gsched.model.allocation import Allocation, HostAllocation
from gsched.model.snapshot import Bucket, HostSnapshot, Placement, Plan, RequirementClass, Snapshot
from gsched.policy.demand import demand_of
from gsched.policy.explain import summarise
from gsched.policy.limits import SlotUse
from gsched.policy.order import ServingOrder
from gsched.policy.place import Placer

DEFAULT_BUDGET = 100_000
"""About half a second of a busy cluster; a pass that is cut short goes on in the next cycle."""


def schedule(snapshot: Snapshot, now: float, budget: int = DEFAULT_BUDGET) -> Plan:
    """Which pending jobs can start now and where, and why the others cannot."""
    use = SlotUse(snapshot)
    placer = Placer(snapshot, _accepting(snapshot, now), use)
    order = ServingOrder(snapshot)
    placements: list[Placement] = []
    reasons: dict[Bucket, tuple[str, ...]] = {}
    of_class: dict[tuple[str, RequirementClass], tuple[str, ...]] = {}
    truncated = False
    for job_id, bucket in order:
        if placer.steps >= budget:
            truncated = True
            break
        found, whole_class = _serve(bucket, snapshot, use, placer)
        if isinstance(found, HostAllocation):
            allocation = Allocation(hosts=(found,))
            snapshot.ledger.take((job_id, -1), allocation)  # a fork: the attempt's number does not matter here
            placer.placed(bucket, found)
            placements.append(Placement(job_id, allocation))
        else:
            reasons[bucket] = found
            order.drop(bucket, whole_class=whole_class)
            if whole_class:
                of_class[bucket.queue, bucket.requirement] = found
    for bucket in order.passed_over():
        if bucket not in reasons:
            reasons[bucket] = of_class[bucket.queue, bucket.requirement]
    return Plan(tuple(placements), reasons, _sentence(snapshot, placements, reasons), truncated)


def _serve(
    bucket: Bucket, snapshot: Snapshot, use: SlotUse, placer: Placer
) -> tuple[HostAllocation | tuple[str, ...], bool]:
    """The place of the bucket's next job, or reasons and whether they hold for the class whoever owns the job."""
    limit, everybody = use.queue_reason(bucket)
    if limit is not None:
        return (limit.text + (f" ({limit.detail})" if limit.detail else ""),), everybody
    try:
        demand = demand_of(bucket.requirement, snapshot.local_type)
    except RequirementError as error:
        return (f"Job has bad res req ({error.text})",), True
    found = placer.place(bucket, demand, spaced=snapshot.job_accept_interval_s > 0)
    if isinstance(found, HostAllocation):
        return found, False
    per_user = any("per-user" in reason.text for reason in found)
    return summarise(found), not per_user


def _accepting(snapshot: Snapshot, now: float) -> list[HostSnapshot]:
    """All hosts; those that started a job within JOB_ACCEPT_INTERVAL are shown as closed."""
    interval = snapshot.job_accept_interval_s
    if not interval:
        return list(snapshot.hosts.values())
    return [
        host
        if host.closed or now >= host.last_dispatch + interval
        else HostSnapshot(host.name, host.values, closed="Just started a job recently")
        for host in snapshot.hosts.values()
    ]


def _sentence(snapshot: Snapshot, placements: list[Placement], reasons: Mapping[Bucket, tuple[str, ...]]) -> str:
    usable = sum(not host.closed for host in snapshot.hosts.values())
    text = f"started {len(placements)} of the pending jobs on {usable} usable of {len(snapshot.hosts)} hosts"
    if reasons:
        text += f"; {len(reasons)} kinds of jobs wait, the first because: {next(iter(reasons.values()))[0]}"
    return text
