"""A planned start as a cycle enters it: booked, with what is told of it, and held until its latest start where others
may put it off. It looks for nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace

from gsched.base.coded_text import AnyText
from gsched.model.scheduling.snapshot import Bucket, Snapshot
from gsched.policy.backfill.planned_reasons import may_be_put_off
from gsched.policy.backfill.reservation_table import ReservationTable
from gsched.policy.backfill.reserved_start import Obstacle, ReservedStart, start_of
from gsched.policy.backfill.start_planner import Planner
from gsched.policy.future.bookings import Booking
from gsched.policy.future.future_ledgers import Future
from gsched.policy.future.started_later import StartedLater
from gsched.policy.order.queue_class import QueueClass, kind_of


class PlanEntry:
    """For one cycle."""

    def __init__(self, snapshot: Snapshot, future: Future, planner: Planner, table: ReservationTable) -> None:
        self._snapshot = snapshot
        self._now = future.now
        self._future = future
        self._planner = planner
        self._table = table
        self.sought: dict[QueueClass, float] = {}
        """Class for which it was looked in vain in this cycle for jobs to displace -> when."""
        self.delays: dict[int, float | None] = {}
        """Planned job that others may put off -> until when at the latest, if an earlier cycle has said so."""

    def beside(self, later: frozenset[int]) -> StartedLater:
        """As the cycle comes to the planned job."""
        return StartedLater(later, mark=len(self._future.turns))

    def answer(
        self,
        job_id: int,
        bucket: Bucket,
        text: AnyText,
        searched_at: float,
        open_hosts: int,
        obstacles: frozenset[Obstacle],
    ) -> ReservedStart:
        """Why nothing is reserved."""
        return ReservedStart(
            text=text,
            bucket=bucket,
            allocation=None,
            since=self._now,
            first_told=self.first_told(job_id, bucket),
            latest=self.delays.get(job_id),
            searched_at=searched_at,
            victims_at=self._victims_at(job_id, bucket),
            open_hosts=open_hosts,
            obstacles=obstacles,
        )

    def keep(self, kept: Booking, before: ReservedStart | None, text: AnyText, searched_at: float) -> ReservedStart:
        if before is None or before.allocation is None:
            since, later = self._now, frozenset[int]()
        else:
            since, later = before.since, before.later
        is_overdue = before is not None and start_of(before) <= self._now and kept.start <= self._future.soon
        at = start_of(before) if before is not None and is_overdue else kept.start
        return self.enter(kept, at, text, since, later, searched_at)

    def enter(
        self, booking: Booking, at: float, text: AnyText, since: float, later: frozenset[int], searched_at: float
    ) -> ReservedStart:
        """`at`: the time that is told; it may have passed."""
        first_told = min(booking.start, self.first_told(booking.job_id, booking.bucket))
        rests_on, is_estimated = ("", False) if math.isinf(booking.start) else self._planner.rests_on(booking)
        text = text if math.isinf(at) else rests_on
        latest = self._latest(booking, is_estimated=is_estimated)
        booking = replace(booking, later=self.beside(later), first_told=first_told, latest=latest)
        held = booking if latest is None or not is_estimated else self.put_off(booking, latest)
        self._future.book(held)
        hosts = tuple(part.host for part in booking.allocation.hosts)
        reserved = ReservedStart(
            at=None if math.isinf(at) else at,
            hosts=hosts,
            text=text if held.told is None else may_be_put_off(text, held.start),
            bucket=booking.bucket,
            allocation=booking.allocation,
            since=since,
            later=later,
            first_told=first_told,
            latest=latest,
            searched_at=searched_at,
            victims_at=self._victims_at(booking.job_id, booking.bucket),
        )
        self._table.confirm(booking.job_id, reserved)
        for part in booking.allocation.parts:
            self._table.settle(part.host)
        return reserved

    def _latest(self, booking: Booking, *, is_estimated: bool) -> float | None:
        """Until when others may put the planned job off; it is said once, when its time is known first and rests on
        estimates, and stays.
        """
        if booking.job_id not in self.delays:
            return None
        latest = self.delays[booking.job_id]
        more = self._snapshot.queues[booking.bucket.queue].max_plan_delay
        if latest is None and is_estimated and more:
            latest = booking.start + more * (booking.start - self._now)
        return latest

    def put_off(self, booking: Booking, latest: float) -> Booking:
        """The planned job as it is held for while others may put it off; as it is where that would not do."""
        if latest <= booking.start or math.isinf(booking.start):
            return booking
        held = self._planner.fit.booking(booking.job_id, booking.bucket, booking.allocation, latest)
        if not self._planner.fit.fits(held):
            return booking
        return replace(
            held, later=booking.later, first_told=booking.first_told, told=booking.start, latest=booking.latest
        )

    def first_told(self, job_id: int, bucket: Bucket) -> float:
        """The earliest start that cycles before have told for the job as it is now."""
        said = self.said(job_id, bucket)
        return math.inf if said is None else said.first_told

    def said(self, job_id: int, bucket: Bucket) -> ReservedStart | None:
        """What the cycle before said of the job as it is now, whoever has taken its place since."""
        said = self._snapshot.planned.get(job_id)
        return said if isinstance(said, ReservedStart) and said.bucket == bucket else None

    def _victims_at(self, job_id: int, bucket: Bucket) -> float:
        kind = kind_of(bucket)
        return self.sought[kind] if kind in self.sought else self.victims_sought_at(job_id, bucket)

    def victims_sought_at(self, job_id: int, bucket: Bucket) -> float:
        """When it was last looked in vain for jobs to displace for the job; before all time if it was not."""
        planned = self._snapshot.planned.get(job_id)
        return planned.victims_at if isinstance(planned, ReservedStart) and planned.bucket == bucket else -math.inf
