"""What planned jobs are owed by one that could start now: the room on its hosts, and what limits leave to them.

It judges one candidate at a time and places nothing; who is planned, gsched.policy.backfill.reservation_table says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gsched.base.coded_text import coded
from gsched.base.ids import show_job
from gsched.model.allocation import Allocation, HostAllocation
from gsched.model.snapshot import Bucket, Running
from gsched.policy.backfill.future_ledgers import CANDIDATE, Booking, Future
from gsched.policy.backfill.future_limits import LimitsAhead
from gsched.policy.backfill.planned_reasons import show_time
from gsched.policy.backfill.reservation_table import ReservationTable
from gsched.policy.order.blocked_heads import kind_of
from gsched.policy.requirement.reasons import Reason


class Respect:
    """For one cycle."""

    def __init__(self, future: Future, ahead: LimitsAhead, places: ReservationTable) -> None:
        self._future = future
        self._ahead = ahead
        self._places = places

    def after_planned(
        self, part: HostAllocation, ends_at: float, bucket: Bucket, *, goes_on: bool = False
    ) -> Reason | None:
        """Whether all planned jobs that the candidate must respect still fit on the host beside it.

        One that goes on after a preemption is reckoned with in the plans of its own and lower queues already; and a
        plan whose time nobody knows may wait for its very end.
        """
        priority = self._future.priority(bucket)
        booked = self._future.booked(part.host)
        end = self._end(booked, ends_at, bucket)
        respected = [
            each
            for each in self._respected(booked, bucket)
            if not goes_on or (each.priority > priority and each.start < math.inf)
        ]
        if all(each.start >= end and end < math.inf for each in respected):
            return None
        candidate = Booking(CANDIDATE, bucket, priority, self._future.now, end, Allocation(hosts=(part,)))
        since = self._since(respected)
        staying = self._future.staying(part.host, since) if since < math.inf and math.isinf(end) else []
        settled = self._future.settle(part.host, [candidate, *staying, *respected])
        if isinstance(settled, list):
            return None
        wanted = settled.part_on(part.host)
        gpus = f" and {len(wanted.gpus)} GPUs" if wanted.gpus else ""
        amounts = f"{wanted.slots} slots{gpus}" if wanted.slots else "all"
        return self._delays(settled, f"{amounts} on {part.host}", ends_at, bucket)

    def after_limits(self, parts: Sequence[HostAllocation], ends_at: float, bucket: Bucket) -> Reason | None:
        """Whether all planned jobs that the candidate must respect still find enough left of their limits beside it."""
        booked = self._ahead.sharing(bucket, self._future.bookings.values())
        if not booked:
            return None
        end = self._end(booked, ends_at, bucket)
        respected = self._respected(booked, bucket)
        priority, now = self._future.priority(bucket), self._future.now
        candidate = Booking(CANDIDATE, bucket, priority, now, end, Allocation(hosts=tuple(parts)))
        since = self._since(respected) if math.isinf(end) else math.inf
        found = self._ahead.delayed(candidate, respected, since)
        return None if found is None else self._delays(*found, ends_at, bucket)

    def those_on(self, hosts: Iterable[str], victims: Iterable[Running], bucket: Bucket) -> list[Booking]:
        """The planned jobs that a job of the bucket may not delay and that could wait for the victims on the hosts."""
        found = {each.job_id: each for host in hosts for each in self._future.booked(host)}
        bookings = self._future.bookings.values()
        for victim in victims:
            found |= {each.job_id: each for each in self._ahead.sharing(victim.bucket, bookings)}
        return [each for each in self._respected(found.values(), bucket) if each.start < math.inf]

    def _respected(self, booked: Iterable[Booking], bucket: Bucket) -> list[Booking]:
        """Those planned jobs that a job of the bucket may not delay."""
        priority, kind, confirmed = self._future.priority(bucket), kind_of(bucket), self._places.confirmed
        return [
            each
            for each in booked
            if each.job_id in confirmed or (each.priority >= priority and kind_of(each.bucket) != kind)
        ]

    def _end(self, booked: Iterable[Booking], ends_at: float, bucket: Bucket) -> float:
        """Until when the candidate is taken to run: what is planned beside its own plan reckons with its end."""
        kind = kind_of(bucket)
        own = any(kind_of(each.bucket) == kind for each in booked)
        return ends_at if self._backfills(bucket) or own else math.inf

    def _since(self, respected: Iterable[Booking]) -> float:
        """When something was reserved first for one of them that starts nobody knows when; infinite for none."""
        return min((each.since for each in respected if math.isinf(each.start)), default=math.inf)

    def _backfills(self, bucket: Bucket) -> bool:
        queue = self._future.snapshot.queues.get(bucket.queue)
        return queue is not None and queue.backfill

    def _delays(self, booking: Booking, wanted: str, ends_at: float, bucket: Bucket) -> Reason:
        start = coded("numbers.soon") if math.isinf(booking.start) else show_time(booking.start)
        if math.isinf(ends_at):
            why = coded("numbers.no_run_limit")
        elif self._backfills(bucket):
            is_limited = bucket.requirement.run_s is not None
            why = coded("numbers.runs_until" if is_limited else "numbers.expected_until", show_time(ends_at))
        else:
            why = coded("numbers.no_backfill")
        return Reason(
            coded("pending.reserved_for", show_job(booking.job_id)), coded("numbers.planned", wanted, start, why)
        )
