"""What advance reservations lack for the sake of one job, when they begin or when it starts. It judges one part of one
host and places nothing; several planned jobs are looked at together in gsched.policy.backfill.future_ledgers.
"""

from __future__ import annotations

from gsched.model.allocation import HostAllocation
from gsched.model.snapshot import AdvanceReservation
from gsched.policy.backfill.future_ledgers import Future, idle_gpus


def in_the_way(future: Future, window: AdvanceReservation, part: HostAllocation, start: float, inside: str = "") -> str:
    """What the advance reservation, and those that it overlaps but for `inside`, would lack if the part was held
    from `start` on; empty if nothing.
    """
    at = max(start, window.start)
    host_ledger = (
        future.snapshot.ledger.host(part.host) if at <= future.now else future.held(part.host, at, by_limits=True)
    )
    slots, gpus, names = future.kept_at(host_ledger, at, inside)
    keep = "keep" if " and " in names else "keeps"
    if part.exclusive and (slots or gpus):
        return f"{names} {keep} {slots} slots and {gpus} GPUs on {part.host}, which is wanted alone"
    free, idle = host_ledger.free_slots, len(idle_gpus(host_ledger)) - part.whole_gpus
    if free is not None and free - part.slots < slots:
        return f"{names} {keep} {slots} slots on {part.host}, {free} free; {part.slots} wanted"
    if idle < gpus and part.whole_gpus:
        kept = f"{gpus} GPU{'s' if gpus > 1 else ''}"
        return f"{names} {keep} {kept} on {part.host}, {idle + part.whole_gpus} idle"
    return ""
