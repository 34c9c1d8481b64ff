"""Whether a job's part on one host would take what an advance reservation needs, and how much. It places nothing;
several planned jobs are looked at together in gsched.policy.future.future_ledgers.
"""

from __future__ import annotations

from gsched.base.coded_text import AnyText, coded
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.scheduling.snapshot import AdvanceReservation
from gsched.policy.future.future_ledgers import Future, idle_gpus


def in_the_way(
    future: Future, window: AdvanceReservation, part: HostAllocation, start: float, inside: str = ""
) -> AnyText:
    """What the advance reservation, and those that it overlaps but for `inside`, would lack if the part was held
    from `start` on; empty if nothing.
    """
    at = max(start, window.start)
    host_ledger = (
        future.snapshot.ledger.host(part.host) if at <= future.now else future.held(part.host, at, by_limits=True)
    )
    slots, gpus, names = future.kept_at(host_ledger, at, inside)
    are_several, told = len(names) > 1, " and ".join(names)
    if part.exclusive and (slots or gpus):
        code = "numbers.windows_keep_all" if are_several else "numbers.window_keeps_all"
        return coded(code, told, slots, gpus, part.host)
    free, idle = host_ledger.free_slots, len(idle_gpus(host_ledger)) - part.whole_gpus
    if free is not None and free - part.slots < slots:
        code = "numbers.windows_keep_slots" if are_several else "numbers.window_keeps_slots"
        return coded(code, told, slots, part.host, free, part.slots)
    if idle < gpus and part.whole_gpus:
        code = "numbers.windows_keep_gpus" if are_several else "numbers.window_keeps_gpus"
        return coded(code, told, gpus, part.host, idle + part.whole_gpus)
    return ""
