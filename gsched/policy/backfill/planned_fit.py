"""Whether a planned job fits where and when it is planned, and where a job would at one time on some hosts.

It asks a trial on the ledgers of that time, keeps advance reservations and limits, and enters nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gsched.model.ledgers.allocation import Allocation
from gsched.model.scheduling.snapshot import Bucket
from gsched.policy.backfill.asks_fit import AsksFit
from gsched.policy.future.advance_reservation_windows import in_the_way
from gsched.policy.future.bookings import Booking
from gsched.policy.future.future_ledgers import Future
from gsched.policy.future.future_limits import LimitsAhead
from gsched.policy.future.started_later import of_all
from gsched.policy.order.dispatch_windows import DispatchWindows
from gsched.policy.requirement.demand import Demand
from gsched.policy.requirement.reasons import Reason

MOST_DETOURS = 8
"""So often other hosts are tried, in place of those that an advance reservation keeps, or planned jobs need, when the
job has run a while."""


class PlannedFit:
    """For one cycle."""

    def __init__(self, future: Future, trial: AsksFit, ahead: LimitsAhead) -> None:
        self._future = future
        self._ahead = ahead
        self._snapshot = future.snapshot
        self._trial = trial
        self.hours = DispatchWindows(future.snapshot, future.now)
        self.tries = 0
        """Of a job at a time on some hosts."""

    def booking(self, job_id: int, bucket: Bucket, allocation: Allocation, start: float) -> Booking:
        """The job planned to start at `start`, which ends by its run limit or about when an estimate says."""
        begin = self._future.now if start <= self._future.soon else start
        end = begin + self._future.run_s(bucket)
        return Booking(job_id, bucket, self._future.priority(bucket), start, end, allocation)

    def fits(self, booking: Booking) -> bool:
        """Whether the planned job fits on all its hosts beside whatever else is planned there, and in its limits; and
        its queue is open until then.
        """
        if self.hours.closes(booking.bucket.queue) <= booking.start < math.inf:
            return False
        if not all(self._fits_on(part.host, booking) for part in booking.allocation.parts):
            return False
        return not self._barred(booking) and self._ahead.fits(booking)

    def _fits_on(self, host: str, booking: Booking) -> bool:
        """Whether the planned job fits on one of its hosts beside whatever else is planned there."""
        planned = [*self._future.booked(host), booking]
        return isinstance(self._future.settle(host, [*self._staying(host, planned), *planned]), list)

    def _barred(self, booking: Booking) -> set[str]:
        """Hosts of the planned job where it would take what an advance reservation keeps."""
        windows = self._future.windows
        return {
            part.host
            for part in booking.allocation.parts
            for window in windows.get(part.host, ())
            if booking.start < window.end
            and booking.last_end > window.start
            and in_the_way(self._future, window, part, booking.start)
        }

    def _staying(self, host: str, planned: Sequence[Booking]) -> list[Booking]:
        """Who has started since and stays when a job may start of which nobody knows when: one that is planned for a
        known time and stays too will be refused for their sake.
        """
        if all(each.start < math.inf for each in planned):
            return []
        if not any(each.start < math.inf and math.isinf(each.end) for each in planned):
            return []
        return self._future.staying(host, of_all(each.later for each in planned if math.isinf(each.start)))

    def _is_allowed(self, booking: Booking) -> bool:
        """Whether it may be planned so: without BACKFILL only where nothing is planned for afterwards."""
        return self.fits(booking) and (self._backfills(booking.bucket) or self.fits(replace(booking, end=math.inf)))

    def _backfills(self, bucket: Bucket) -> bool:
        queue = self._snapshot.queues.get(bucket.queue)
        return queue is not None and queue.backfill

    def try_at(self, job_id: int, bucket: Bucket, demand: Demand, hosts: Sequence[str], end: float) -> Booking | None:
        """The job on some of the hosts as soon as whatever ends at `end` has ended; None if it does not fit then."""
        future, at = self._future, self.start_after(end)
        self.tries += 1
        priority = future.priority(bucket)
        then = self._ahead.then(bucket, at, job_id)
        for _ in range(MOST_DETOURS):
            found = self._trial.place(bucket, demand, hosts, lambda host: future.host_ledger(host, at, priority), then)
            if isinstance(found, Reason):
                break
            booking = self.booking(job_id, bucket, found, at)
            if self._is_allowed(booking):
                return booking
            unfit = self._barred(booking) or (self._crowded(booking) if len(hosts) > 1 else ())
            hosts = [host for host in hosts if host not in unfit]
            if not unfit or not hosts:
                break
        return None

    def _crowded(self, booking: Booking) -> set[str]:
        """Hosts of the planned job where those that are planned for later would not fit beside it."""
        asked = booking if self._backfills(booking.bucket) else replace(booking, end=math.inf)
        return {part.host for part in asked.allocation.parts if not self._fits_on(part.host, asked)}

    def start_after(self, end: float) -> float:
        """When a job could start that waits for what ends then: what is being ended takes a moment."""
        future = self._future
        return end if end > future.soon else max(future.soon, future.now + self._snapshot.terminate_s)
