"""The places of jobs that something is reserved for: there are only so many, and they go by serving order.

A plan of the cycle before keeps its place while its job is the same. The next job of its class takes the place over
only where no older job lacks one: otherwise classes could hand all places down among themselves for ever. It searches
for nothing, and judges nobody who would start now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from gsched.model.snapshot import Bucket, Snapshot
from gsched.policy.backfill.future_ledgers import Booking, Future
from gsched.policy.backfill.planned_start import Obstacles, ReservedStart, start_of
from gsched.policy.backfill.start_planner import AsksFit, Planner
from gsched.policy.order.blocked_heads import QueueClass, kind_of
from gsched.policy.requirement.demand import Demand

MOST_RESERVED = 8
"""Jobs that something is reserved for at a time."""
MOST_APART = 32
"""As many while fewer than MOST_RESERVED of them start soon: those beyond are planned only where nothing else is. Jobs
that wait for days for one host must not leave the big jobs of the other hosts without a place.
"""
SOON_S = 3600.0
"""A start within that time is soon."""
MOST_PLANNED = 64
"""Jobs with a planned start, reserved for or not."""


class Lacking(NamedTuple):
    """A job that waits for a place among the planned ones."""

    job_id: int
    bucket: Bucket
    demand: Demand
    obstacles: Obstacles | None
    """What stood in its way when it was looked for a place; None: there was no place to look for."""


class ReservationTable:
    """Who holds a place and who lacks one, in one cycle."""

    def __init__(self, future: Future, planner: Planner, trial: AsksFit) -> None:
        self._snapshot: Snapshot = future.snapshot
        self._future = future
        self._planner = planner
        self._trial = trial
        self.reserved_starts: dict[int, ReservedStart] = {}
        """Job id -> its plan, of the cycle before or of this one."""
        self.confirmed: set[int] = set()
        """Jobs whose plan is of this cycle."""
        self.paused: set[int] = set()
        """Jobs for which something was reserved for as long as their queue allows."""
        self.lacking: dict[int, Lacking] = {}
        """In serving order, as far as the cycle has come."""
        self._enter_old()
        self.planned_before = {kind_of(each.bucket) for each in self.reserved_starts.values() if not each.lacks_place}
        """Classes of a queue that the cycle before planned for, and not only told that others come first."""

    def is_room(self) -> bool:
        """Whether one more job may be reserved for."""
        return not self.only_apart() or self._is_room_apart()

    def only_apart(self) -> bool:
        """Whether one more job may only have hosts where nothing is reserved."""
        return len(self._future.bookings) >= MOST_RESERVED

    def _is_room_apart(self) -> bool:
        future = self._future
        if len(future.bookings) >= MOST_APART or len(future.booked_hosts()) >= len(self._snapshot.hosts):
            return False
        return sum(each.start <= future.now + SOON_S for each in future.bookings.values()) < MOST_RESERVED

    def _may_hold(self, booking: Booking) -> bool:
        """Whether there is room for this one."""
        booked = self._future.booked_hosts()
        return not self.only_apart() or (
            self._is_room_apart() and all(part.host not in booked for part in booking.allocation.parts)
        )

    def may_change(self, able: Collection[QueueClass]) -> bool:
        """Whether there may be room in this cycle, in which jobs of these classes could start."""
        return self.is_room() or any(kind_of(each.bucket) in able for each in self._future.bookings.values())

    def of_class(self, kind: QueueClass) -> tuple[int, ReservedStart] | None:
        """The plan of the cycle before for a job of the class to which this one has not come yet."""
        for job_id, reserved in self.reserved_starts.items():
            if job_id not in self.confirmed and kind_of(reserved.bucket) == kind:
                return job_id, reserved
        return None

    # -- who keeps a place ----------------------------------------------------------------------------------------

    def own(self, job_id: int, bucket: Bucket) -> tuple[int, ReservedStart] | None:
        """The plan that the job has, or takes over from another of its class that was to come before it."""
        reserved = self.reserved_starts.get(job_id)
        if reserved is not None:
            if kind_of(reserved.bucket) == kind_of(bucket):
                return job_id, reserved
            self.forget(job_id)
        found = self.of_class(kind_of(bucket))
        if found is not None and found[1].allocation is not None and self.lacking:
            self.forget(found[0])
            return None
        return found

    def fulfilled(self, bucket: Bucket) -> None:
        """A job of the class has started: the plan of its class has been fulfilled."""
        found = self.of_class(kind_of(bucket))
        if found is not None:
            self.forget(found[0])

    def forget(self, job_id: int) -> None:
        """Drop its plan."""
        self.reserved_starts.pop(job_id, None)
        self.confirmed.discard(job_id)
        if job_id in self._future.bookings:
            self._future.unbook(job_id)

    def confirm(self, job_id: int, reserved: ReservedStart) -> None:
        """This is the plan of this cycle; words alone are kept only for so many."""
        if reserved.allocation is None and len(self.confirmed) >= MOST_PLANNED and job_id not in self.confirmed:
            return
        self.reserved_starts[job_id] = reserved
        self.confirmed.add(job_id)

    def settle(self, host: str) -> None:
        """Let the planned jobs of a host choose their devices anew; whoever no longer fits loses the plan."""
        bookings = self._future.booked(host)
        while bookings:
            settled = self._future.settle(host, bookings)
            if isinstance(settled, list):
                for booking in settled:
                    self._future.book(booking)
                return
            self.forget(settled.job_id)
            bookings = self._future.booked(host)

    def set_aside(self, bucket: Bucket) -> list[tuple[Booking, ReservedStart]]:
        """Take out the plans of the cycle before that jobs of the bucket need not respect."""
        priority = self._future.priority(bucket)
        lower = [
            each
            for job_id, each in self._future.bookings.items()
            if job_id not in self.confirmed and each.priority < priority
        ]
        aside = [(each, self.reserved_starts[each.job_id]) for each in lower]
        for booking, _ in aside:
            self.forget(booking.job_id)
        return aside

    def put_back(self, aside: list[tuple[Booking, ReservedStart]]) -> None:
        """Enter them again where they still fit, those of higher queues first, while there is room."""
        for booking, reserved in sorted(aside, key=lambda each: (-each[0].priority, each[0].start, each[0].job_id)):
            if self._may_hold(booking) and self._planner.fits(booking):
                self._future.book(booking)
                self.reserved_starts[booking.job_id] = reserved

    def _enter_old(self) -> None:
        planned = self._snapshot.planned
        old = [(job_id, each) for job_id, each in planned.items() if isinstance(each, ReservedStart)]
        for job_id, reserved in sorted(old, key=lambda item: (start_of(item[1]), item[0])):
            queue = self._snapshot.queues.get(reserved.bucket.queue)
            if queue is None or not self._waits(reserved.bucket):
                continue
            if reserved.allocation is None:
                self.reserved_starts[job_id] = reserved
            elif queue.reserve_s is not None and self._future.now - reserved.since >= queue.reserve_s:
                self.paused.add(job_id)
            else:
                self._enter_again(job_id, reserved)

    def _waits(self, bucket: Bucket) -> bool:
        """Whether there is still a job that a plan of the bucket's class can be for."""
        buckets = self._snapshot.pending.get(bucket.requirement, {})
        return bucket in buckets or any(each.queue == bucket.queue for each in buckets)

    def _enter_again(self, job_id: int, reserved: ReservedStart) -> None:
        hosts, allocation = self._snapshot.hosts, reserved.allocation
        assert allocation is not None
        if any(part.host not in hosts or hosts[part.host].closed for part in allocation.hosts):
            return
        start = max(start_of(reserved), self._future.soon)
        before = self._planner.booking(job_id, reserved.bucket, allocation, start)
        booking = self._planner.slipped(replace(before, since=reserved.since))
        if booking is not None:
            self._future.book(booking)
            self.reserved_starts[job_id] = reserved

    # -- who lacks one --------------------------------------------------------------------------------------------

    def turn_away(self, job_id: int, bucket: Bucket, demand: Demand, obstacles: Obstacles | None) -> None:
        """The job gets no place for now."""
        self.lacking[job_id] = Lacking(job_id, bucket, demand, obstacles)

    def look_at(self, each: Lacking, reserved: ReservedStart) -> None:
        """A job that lacked a place has been looked at again, with this to say."""
        if reserved.lacks_place:
            self.lacking[each.job_id] = each._replace(obstacles=reserved.obstacles)
        else:
            del self.lacking[each.job_id]
        self.confirm(each.job_id, reserved)

    def is_blocked(self, obstacles: Obstacles) -> bool:
        """Whether all still stands that left no place to a job."""
        return obstacles.stand(self._future.bookings, self.lacking)

    def in_the_way(self) -> Obstacles:
        """What stands in the way of a job for which no place was found just now."""
        return Obstacles(planned=frozenset(self._future.bookings))

    def before(self, found: Booking, others: Iterable[Lacking]) -> Obstacles | None:
        """Those of the others, who come before it, that could use a host of the plan; None if there are none.

        Whoever has not been looked at does not stand here: there was nothing to be had for anybody.
        """
        hosts = {part.host for part in found.allocation.hosts}
        ids = [
            each.job_id
            for each in others
            if each.obstacles is not None and not hosts.isdisjoint(self._trial.candidates(each.bucket, each.demand))
        ]
        return Obstacles(waiting=frozenset(ids)) if ids else None
