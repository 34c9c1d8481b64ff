"""Who else has a right to a host's slots and GPUs: advance reservations and preempted jobs that are to go on.

It judges one candidate at a time and places nothing. Source: brsvadd(8), bsub(1) option -U.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gsched.base.coded_text import coded
from gsched.base.moments import shown_utc
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.scheduling.snapshot import Bucket, Running
from gsched.policy.future.advance_reservation_windows import in_the_way
from gsched.policy.future.future_ledgers import Future
from gsched.policy.requirement.reasons import Reason

INACTIVE = coded("pending.reservation_inactive")
SUSPENDED_FIRST = coded("pending.suspended_first")
KEPT_FOR_WINDOW = coded("pending.kept_for_reservation")
SLOTS = coded("pending.too_few_slots")


class AdvanceReservationGuard:
    """The rights of others, for one cycle."""

    def __init__(self, future: Future) -> None:
        self._future = future
        self._snapshot = future.snapshot
        self._now = future.now
        self._windows = {window.name: window for window in future.snapshot.reservations}
        self._suspended: dict[str, list[tuple[int, int]]] = {}
        """Host -> (queue's priority, slots) of each preempted job that is to go on there."""
        running = self._snapshot.running
        keys = self._snapshot.ledger.suspended
        self.suspended(each for key in keys if (each := running.get(key[0])) is not None and not each.is_ending)

    def hosts(self) -> Iterable[str]:
        """Hosts that somebody has a right to."""
        return [*self._future.windows, *self._suspended]

    def refusal(self, bucket: Bucket) -> Reason | None:
        """Why no job of the bucket may start on any host now: its advance reservation (-U) is not usable."""
        name = bucket.requirement.reservation
        if not name:
            return None
        window = self._windows.get(name)
        if window is None:
            return Reason(INACTIVE, coded("numbers.no_reservation", name))
        if bucket.user not in window.users:
            return Reason(INACTIVE, coded("numbers.not_a_user", bucket.user, name))
        if self._now < window.start:
            return Reason(INACTIVE, coded("numbers.begins", name, shown_utc(window.start)))
        if self._now >= window.end:
            return Reason(INACTIVE, coded("numbers.ended", name, shown_utc(window.end)))
        return None

    def only_hosts(self, bucket: Bucket) -> frozenset[str] | None:
        """The hosts that the bucket's jobs are bound to by -U; None when they are not."""
        name = bucket.requirement.reservation
        if not name:
            return None
        window = self._windows.get(name)
        return frozenset() if window is None else frozenset([*window.slots, *window.gpus])

    def after_windows(self, part: HostAllocation, ends_at: float, inside: str) -> Reason | None:
        for window in self._future.windows.get(part.host, ()):
            if window.name != inside and ends_at > window.start:
                text = in_the_way(self._future, window, part, self._now, inside)
                if text:
                    return Reason(KEPT_FOR_WINDOW, text)
        return None

    def within(self, bucket: Bucket, part: HostAllocation) -> Reason | None:
        """A job with -U takes no more than its reservation has left on the host; and one without a run limit nothing
        that others need later: an estimate of its run time is not enough to promise them that.
        """
        refused = self._within_own(bucket, part)
        if refused is None and bucket.requirement.run_s is None:
            return self.after_windows(part, math.inf, bucket.requirement.reservation)
        return refused

    def _within_own(self, bucket: Bucket, part: HostAllocation) -> Reason | None:
        name = bucket.requirement.reservation
        window = self._windows.get(name)
        if window is None:
            return Reason(INACTIVE, coded("numbers.no_reservation", name)) if name else None
        slots, gpus = self._future.left_of(window, self._snapshot.ledger.host(part.host))
        if part.slots > slots:
            return Reason(SLOTS, coded("numbers.reservation_slots", part.slots, window.name, slots, part.host))
        if len(part.gpus) > gpus:
            return Reason(INACTIVE, coded("numbers.reservation_gpus", len(part.gpus), window.name, gpus, part.host))
        return None

    def suspended(self, jobs: Iterable[Running]) -> None:
        """These have given their slots, before the cycle or in it, and are to have them again."""
        for running in jobs:
            priority = self._future.priority(running.bucket)
            for part in running.allocation.hosts:
                self._suspended.setdefault(part.host, []).append((priority, part.slots))

    def after_suspended(self, part: HostAllocation, bucket: Bucket) -> Reason | None:
        waiting = self._suspended.get(part.host)
        free = self._snapshot.ledger.host(part.host).free_slots
        if not waiting or free is None:
            return None
        priority = self._future.priority(bucket)
        slots = sum(slots for other, slots in waiting if other >= priority)
        if slots == 0 or free - part.slots >= slots:
            return None
        return Reason(SUSPENDED_FIRST, coded("numbers.for_preempted", slots, part.host, free))
