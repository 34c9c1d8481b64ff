"""Can this host take one job of this class now? Either what it would hold there, or the reason why not."""

from __future__ import annotations

from gsched.model.allocation import HostAllocation
from gsched.model.ledger import HostLedger
from gsched.model.resource import GPU_COUNTERS
from gsched.model.snapshot import HostSnapshot, HostValues
from gsched.policy import gpus
from gsched.policy.demand import Demand
from gsched.policy.explain import Reason, Shortage, reserving


def live_values(host: HostSnapshot, ledger: HostLedger) -> HostValues:
    """The host's values with what is left of reserved resources, GPU counters and slots."""
    values = dict(host.values)
    for name in GPU_COUNTERS:
        if name in values:
            counter = ledger.counter(name)
            values[name] = None if counter is None else counter.total
    for name, amount in ledger.reserved.items():
        reported = values.get(name)
        if isinstance(reported, float | int):
            values[name] = reported - amount
    values["slots"] = ledger.free_slots if ledger.free_slots is not None else float("inf")
    return values


def try_host(demand: Demand, host: HostSnapshot, ledger: HostLedger, values: HostValues) -> HostAllocation | Reason:
    """What one job would hold on an open host, or why it cannot run there now."""
    if demand.asked_hosts and host.name not in demand.asked_hosts:
        return Reason("Not specified in job submission")
    verdict = demand.select(values)
    if not verdict:
        return Reason("Job's resource requirements not satisfied", f"{verdict.reason} on {host.name}")
    free = ledger.free_slots
    if free is not None and free < demand.slots:
        text = "Job slot limit reached" if demand.slots == 1 else "Not enough job slot(s)"
        return Reason(text, f"{demand.slots} wanted, {free} of {ledger.max_slots} free on {host.name}")
    for name, amount in demand.amounts.items():
        if name not in values:
            return Reason(reserving(name), f"{amount:.10g} wanted, {host.name} has no {name}")
        left = values[name]
        known = float(left) if isinstance(left, float | int) else None
        if known is None or known < amount:
            return Shortage(name, amount, known, None).reason(host.name)
    for name, wanted in demand.claims.items():
        if name not in values:
            return Reason(reserving(name), f"{wanted} wanted, {host.name} has no {name}")
    held = gpus.choose(ledger, demand.claims) if demand.claims else gpus.choose_any(ledger) if demand.auto_gpu else ()
    if isinstance(held, Shortage):
        return held.reason(host.name)
    return HostAllocation(host=host.name, slots=demand.slots, gpus=held, amounts=dict(demand.amounts))
