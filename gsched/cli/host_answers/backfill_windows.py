"""For how long slots are free that nobody holds: until a planned start, or an advance reservation, needs them.

It counts what the master shows of hosts, waiting jobs and reservations, and asks nothing. A host whose slots have no
limit counts by its processors. Source: bslots(1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gsched.model.views.room_view import ReservationView
from gsched.model.views.view import HostView, JobView


@dataclass(frozen=True, slots=True)
class IdleSlots:
    """So many slots of a host are free until `until`, UTC seconds; infinite: nobody is known to need them."""

    host: str
    slots: int
    until: float


@dataclass(frozen=True, slots=True)
class BackfillWindow:
    """The slots that are free for at least `seconds`."""

    seconds: float
    slots: tuple[tuple[str, int], ...]
    """(host, slots)."""

    @property
    def total(self) -> int:
        return sum(count for _, count in self.slots)


def free_slots_of(
    hosts: Iterable[HostView], waiting: Iterable[JobView], reservations: Iterable[ReservationView], now: float
) -> list[IdleSlots]:
    """The free slots of hosts that take jobs, those that are needed first before the others."""
    starts: dict[str, float] = {}
    for job in waiting:
        if job.planned is not None and job.planned.at is not None:
            for host in job.planned.hosts:
                starts[host] = min(starts.get(host, math.inf), max(job.planned.at, now))
    reserved = list(reservations)
    return [each for host in hosts if host.status == "ok" for each in _of_host(host, starts, reserved, now)]


def _of_host(
    host: HostView, starts: dict[str, float], reserved: Sequence[ReservationView], now: float
) -> Iterable[IdleSlots]:
    left = host.slots_free if host.slots_free is not None else max(0, host.ncpus - host.njobs)
    claims = [(starts[host.name], host.rsv)] if host.name in starts else []
    for each in reserved:
        unused = each.slots.get(host.name, 0) - each.used.get(host.name, 0)
        claims.append((each.start if not each.active else now, unused))
    for until, wanted in sorted(claims):
        taken = max(0, min(left, wanted))
        left -= taken
        if taken and until > now:
            yield IdleSlots(host.name, taken, until)
    if left > 0:
        yield IdleSlots(host.name, left, math.inf)


def windows_of(free: Sequence[IdleSlots], now: float) -> list[BackfillWindow]:
    """A window for each length that there is, the longest first; a longer one counts in a shorter one, too."""
    found = []
    for until in sorted({each.until for each in free}, reverse=True):
        slots: dict[str, int] = {}
        for each in free:
            if each.until >= until:
                slots[each.host] = slots.get(each.host, 0) + each.slots
        found.append(BackfillWindow(until - now, tuple(slots.items())))
    return found
