"""Whether a job that would start now delays a planned start: on its hosts (`delayed`), or by what it takes of a limit
(`after_limits`).

Planned are those who come before it: a cycle plans in serving order, and nobody owes anything to who comes later. It
judges one candidate at a time and places nothing; who is planned, gsched.policy.backfill.reservations says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gsched.base.coded_text import coded
from gsched.base.ids import show_job
from gsched.base.moments import shown_utc
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.scheduling.snapshot import Bucket, Running
from gsched.policy.future.bookings import CANDIDATE, Booking
from gsched.policy.future.future_ledgers import Future
from gsched.policy.future.future_limits import LimitsAhead
from gsched.policy.future.started_later import NOBODY, StartedLater, of_all
from gsched.policy.requirement.reasons import Reason


class BackfillCheck:
    """For one cycle."""

    def __init__(self, future: Future, ahead: LimitsAhead) -> None:
        self._future = future
        self._ahead = ahead

    def candidate(
        self, allocation: Allocation, ends_at: float, bucket: Bucket, beside: Iterable[Booking] = ()
    ) -> Booking:
        """A job of the bucket that starts now, as if it were planned.

        If it has no run limit, it may use what is reserved for those `beside` only for so long (`Booking.lasting`).
        """
        end = self._end(ends_at, bucket)
        if self._overstays(bucket, end, beside):
            end = math.inf
        return Booking(CANDIDATE, bucket, self._future.priority(bucket), self._future.now, end, allocation)

    @staticmethod
    def _overstays(bucket: Bucket, end: float, planned: Iterable[Booking]) -> list[Booking]:
        """The planned jobs for which its estimate lasts too long."""
        if bucket.requirement.run_s is not None or math.isinf(end):
            return []
        return [each for each in planned if each.lasting < end]

    def delayed(self, part: HostAllocation, ends_at: float, bucket: Bucket, *, goes_on: bool = False) -> Booking | None:
        """A planned job that would not fit on the host beside the candidate; None if all do.

        One that goes on after a preemption is reckoned with in the plans of its own and lower queues already; and a
        plan whose time nobody knows may wait for its very end.
        """
        candidate = self.candidate(Allocation(hosts=(part,)), ends_at, bucket)
        respected = [
            each
            for each in self._future.booked(part.host)
            if not goes_on or (each.priority > candidate.priority and each.start < math.inf)
        ]
        found = self._first_delayed(part.host, candidate, respected)
        overstayed = [] if found is not None else self._overstays(bucket, candidate.end, respected)
        return self._first_delayed(part.host, replace(candidate, end=math.inf), overstayed) if overstayed else found

    def _first_delayed(self, host: str, candidate: Booking, respected: Sequence[Booking]) -> Booking | None:
        end = candidate.end
        if all(each.start >= end and end < math.inf for each in respected):
            return None
        staying = self._future.staying(host, _later(respected)) if math.isinf(end) else []
        settled = self._future.settle(host, [candidate, *staying, *respected])
        return None if isinstance(settled, list) else settled

    def reason(self, delayed: Booking, host: str, ends_at: float, bucket: Bucket) -> Reason:
        """Why the candidate must not take something on the host."""
        wanted = delayed.part_on(host)
        gpus = f" and {len(wanted.gpus)} GPUs" if wanted.gpus else ""
        amounts = f"{wanted.slots} slots{gpus}" if wanted.slots else "all"
        return self._delays(delayed, f"{amounts} on {host}", ends_at, bucket)

    def after_limits(self, parts: Sequence[HostAllocation], ends_at: float, bucket: Bucket) -> Reason | None:
        """Whether all planned jobs still find enough left of their limits beside the candidate."""
        respected = self._ahead.sharing(bucket, self._future.bookings.values())
        if not respected:
            return None
        candidate = self.candidate(Allocation(hosts=tuple(parts)), ends_at, bucket, respected)
        later = _later(respected) if math.isinf(candidate.end) else NOBODY
        found = self._ahead.delayed(candidate, respected, later)
        return None if found is None else self._delays(*found, ends_at, bucket)

    def those_on(self, hosts: Iterable[str], victims: Iterable[Running]) -> list[Booking]:
        """The planned jobs that could wait for the end of the victims on the hosts."""
        found = {each.job_id: each for host in hosts for each in self._future.booked(host)}
        bookings = self._future.bookings.values()
        for victim in victims:
            found |= {each.job_id: each for each in self._ahead.sharing(victim.bucket, bookings)}
        return [each for each in found.values() if each.start < math.inf]

    def _end(self, ends_at: float, bucket: Bucket) -> float:
        """Until when the candidate is taken to run: without BACKFILL it takes nothing that is reserved."""
        return ends_at if self._backfills(bucket) else math.inf

    def _backfills(self, bucket: Bucket) -> bool:
        queue = self._future.snapshot.queues.get(bucket.queue)
        return queue is not None and queue.backfill

    def _delays(self, booking: Booking, wanted: str, ends_at: float, bucket: Bucket) -> Reason:
        start = coded("numbers.soon") if math.isinf(booking.start) else shown_utc(booking.start)
        if math.isinf(ends_at):
            why = coded("numbers.no_run_limit")
        elif self._backfills(bucket):
            is_limited = bucket.requirement.run_s is not None
            why = coded("numbers.runs_until" if is_limited else "numbers.expected_until", shown_utc(ends_at))
        else:
            why = coded("numbers.no_backfill")
        return Reason(
            coded("pending.reserved_for", show_job(booking.job_id)), coded("numbers.planned", wanted, start, why)
        )


def _later(respected: Iterable[Booking]) -> StartedLater:
    """Who has started since something was reserved for one of them that starts nobody knows when."""
    return of_all(each.later for each in respected if math.isinf(each.start))
