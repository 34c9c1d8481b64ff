"""Reservation and backfill: jobs that cannot start get a planned start, and nothing that starts now may delay it.

A cycle plans in serving order: who comes later respects the plans of those before, and never the other way round.
Planned jobs hold devices, slots and amounts, never whole hosts. A job may start beside them when what it takes is free
also from their planned starts on; in a queue with BACKFILL=Y it may also use what they wait for, if it ends by then.
What the cycle before planned is kept where nobody who comes before needs the place. How many may be planned for,
reservation_table says. Advance reservations and the slots of preempted jobs are guarded here too. It places nothing
itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from msgspec import structs

from gsched.model.jobs.reason import PlannedStart
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.scheduling.snapshot import Bucket, RequirementClass, Running, Snapshot
from gsched.policy.backfill.advance_reservation_guard import AdvanceReservationGuard
from gsched.policy.backfill.asks_fit import AsksFit
from gsched.policy.backfill.backfill_check import BackfillCheck
from gsched.policy.backfill.plan_entry import PlanEntry
from gsched.policy.backfill.plan_making import SEARCH_AGAIN_S, PlanMaking
from gsched.policy.backfill.reservation_table import ReservationTable
from gsched.policy.backfill.reserved_start import ReservedStart, is_partly_free
from gsched.policy.backfill.start_planner import OTHERS_FIRST, Planner
from gsched.policy.future.bookings import CANDIDATE, Booking
from gsched.policy.future.future_ledgers import Future
from gsched.policy.future.future_limits import LimitsAhead
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.order.queue_class import kind_of
from gsched.policy.requirement.demand import Demand
from gsched.policy.requirement.reasons import Reason

MOST_LOOKS = 4
"""So many jobs in one cycle that are not planned are looked at, whether they can ever start."""
MOST_IN_THE_WAY = 64
"""So often in one cycle it is tried in vain to plan somebody elsewhere."""


class Reservations:
    """The planned jobs of one cycle, in serving order."""

    def __init__(self, snapshot: Snapshot, now: float, trial: AsksFit, limits: LimitUse | None = None) -> None:
        """`limits`: those that hold in the cycle."""
        self._snapshot = snapshot
        self._now = now
        self._trial = trial
        self.future = Future(snapshot, now)
        self.ahead = LimitsAhead(self.future, limits)
        self._planner = Planner(self.future, trial, self.ahead)
        self.guard = AdvanceReservationGuard(self.future)
        self._table = ReservationTable(self.future, trial)
        self._backfill_check = BackfillCheck(self.future, self.ahead)
        self._entry = PlanEntry(snapshot, self.future, self._planner, self._table)
        self._making = PlanMaking(snapshot, self.future, self.ahead, self._planner, self._table, self._entry)
        self._looks = 0
        self._demands: dict[int, Demand] = {}
        """Of the jobs that were planned for in this cycle."""
        self._level = math.inf
        """Priority of the queue that is served."""
        self._in_the_way: set[tuple[tuple[str, int, int], ...]] = set()
        """(host, slots, GPUs) of what could not be taken, on whichever hosts the planned jobs were planned."""

    # -- what a job may use ---------------------------------------------------------------------------------------

    def hosts(self) -> frozenset[str]:
        """Hosts where `allows` has to be asked; elsewhere it allows everything, but for jobs with -U."""
        return frozenset([*self.future.booked_hosts(), *self.guard.hosts()])

    def allows(
        self,
        part: HostAllocation,
        ends_at: float,
        bucket: Bucket,
        *,
        is_whole: bool = False,
        beside_planned: bool = True,
    ) -> Reason | None:
        """Why a job that fits now must not take the part until `ends_at` (UTC seconds, infinite when unknown).

        None when it may. `bucket`: of the job, whose queue says whether it may backfill. What an advance reservation
        keeps is its jobs' own: no plan stands against them there, and one that is in the way is made anew.
        `is_whole`: the part is all that the job takes: see `make_way`. `beside_planned`: whether planned jobs count.
        """
        inside = bucket.requirement.reservation
        return (
            self.guard.within(bucket, part)
            or self.guard.after_windows(part, ends_at, inside)
            or self.guard.after_suspended(part, bucket)
            or (None if inside or not beside_planned else self._after_planned(part, ends_at, bucket, is_whole))
        )

    def _after_planned(self, part: HostAllocation, ends_at: float, bucket: Bucket, is_whole: bool) -> Reason | None:
        self._come_to(bucket)
        delayed = self._backfill_check.delayed(part, ends_at, bucket)
        if delayed is None or (is_whole and self.make_way(Allocation(hosts=(part,)), ends_at, bucket)):
            return None
        return self._backfill_check.reason(delayed, part.host, ends_at, bucket)

    def keeps_limits(self, parts: Sequence[HostAllocation], ends_at: float, bucket: Bucket) -> Reason | None:
        """Why a job that all limits let in now must not take the parts until `ends_at`: a planned job would find too
        little left of a limit. A part without a host stands for those that are not known yet.
        """
        self._come_to(bucket)
        return self._backfill_check.after_limits(parts, ends_at, bucket)

    def ready(self, bucket: Bucket, ends_at: float) -> Allocation | None:
        """The place that the cycle before planned for a job of the bucket's class, if it is free by now: to be taken
        before any other is looked for, since those who come later are planned beside this one.
        """
        before = self._table.before(kind_of(bucket))
        if before is None or before.allocation is None or not self._making.is_open(before.allocation):
            return None
        host_ledger = self._snapshot.ledger.host
        parts = [self.future.refit(part, host_ledger(part.host)) for part in before.allocation.parts]
        if any(part is None or self.allows(part, ends_at, bucket) is not None for part in parts):
            return None
        found, count = tuple(part for part in parts if part is not None), len(before.allocation.hosts)
        return Allocation(hosts=found[:count], kept=found[count:])

    def awaits(self, queue: str, requirement: RequirementClass) -> bool:
        """Whether the cycle before reserved something for a job of the class, and this one has not yet come to it."""
        before = self._table.before((queue, requirement))
        return before is not None and before.allocation is not None

    def was_looked_at(self, queue: str, requirement: RequirementClass) -> bool:
        """Whether the cycle before looked at a job of the class, and this one has not yet come to it."""
        return self._table.before((queue, requirement)) is not None

    def is_kept(self, job_id: int, bucket: Bucket) -> bool:
        """Whether the plan of the cycle before for the next job of the bucket may be kept though a limit is full now:
        others may use it until the job starts.
        """
        return not self.ahead.is_stopped(bucket) and self._table.is_kept(job_id, bucket)

    def is_planned_before(self, queue: str) -> bool:
        """Whether the cycle before reserved something for a job of the queue, to which this one has not yet come."""
        return self._table.is_planned_before(queue)

    def may_go_on(self, part: HostAllocation, ends_at: float, bucket: Bucket) -> bool:
        """Whether a preempted job of the bucket may have its slots (`part`) again, which are free now."""
        if self.guard.after_windows(part, ends_at, bucket.requirement.reservation) is not None:
            return False
        return self._backfill_check.delayed(part, ends_at, bucket, goes_on=True) is None

    def make_way(self, allocation: Allocation, ends_at: float, bucket: Bucket) -> bool:
        """Plan those jobs on other hosts, to start no later, that would be delayed by a job of the bucket that takes
        the allocation until `ends_at`. If not all of them can, everything stays as it is.
        """
        alike = tuple((part.host, part.slots, len(part.gpus)) for part in allocation.parts)
        if alike in self._in_the_way or len(self._in_the_way) >= MOST_IN_THE_WAY:
            return False
        hosts = {part.host for part in allocation.parts}
        planned = self.future.bookings
        affected = [each for each in planned.values() if any(part.host in hosts for part in each.allocation.parts)]
        candidate = self._backfill_check.candidate(allocation, ends_at, bucket, affected)
        for each in affected:
            self.future.unbook(each.job_id)
        self.future.book(candidate)
        moved = [each for each in affected if self._again(each)]
        self.future.unbook(CANDIDATE)
        if len(moved) == len(affected):
            return True
        self._in_the_way.add(alike)
        for each in moved:
            self.future.unbook(each.job_id)
        for each in affected:
            self.future.book(each)
            self._tell_place(each)
        return False

    def _again(self, planned: Booking) -> bool:
        """Book a planned job where it is, or on other hosts at the same time; false where it cannot be."""
        demand, found = self._demands.get(planned.job_id), planned
        if not self._planner.fit.fits(planned):
            if demand is None or math.isinf(planned.start):
                return False
            other = self._planner.elsewhere(planned, demand)
            if other is None:
                return False
            found = replace(other, later=planned.later, first_told=planned.first_told, latest=planned.latest)
            if planned.told is not None:
                found = self._entry.put_off(self._planner.earlier(found, demand) or found, planned.start)
        self.future.book(found)
        self._tell_place(found)
        return True

    def _tell_place(self, planned: Booking) -> None:
        reserved = self._table.reserved_starts.get(planned.job_id)
        if reserved is not None and reserved.allocation is not planned.allocation:
            hosts = tuple(part.host for part in planned.allocation.hosts)
            self._table.confirm(planned.job_id, structs.replace(reserved, hosts=hosts, allocation=planned.allocation))

    def may_stop(self, victims: Collection[Running]) -> bool:
        """Whether jobs may be suspended: no planned job waits for their end to have their devices, amounts or limits.
        If so they count as suspended.
        """
        added = {victim.job_id for victim in victims} - self.future.stopped
        self.future.stopped |= added
        hosts = dict.fromkeys(part.host for victim in victims for part in victim.allocation.parts)
        if all(self._still_fits(each) for each in self._backfill_check.those_on(hosts, victims)):
            return True
        self.future.stopped -= added
        return False

    def took(self, part: HostAllocation, ends_at: float, bucket: Bucket | None = None) -> None:
        """The part has been taken from the cycle's ledger by a job of the bucket, which may run until `ends_at`."""
        self.future.placed(part, ends_at, bucket)
        if part.host in self.future.booked_hosts():
            self._table.settle(part.host)

    def started(self, job_id: int) -> None:
        """All parts of the job have been taken."""
        self.future.started(job_id)

    def fulfilled(self, job_id: int, bucket: Bucket) -> None:
        """The job has started, and with it what the cycle before may have planned for one of its class."""
        self._table.take(job_id, bucket)

    # -- planning -------------------------------------------------------------------------------------------------

    def is_room(self, queue: str) -> bool:
        """Whether any further job of the queue may be planned."""
        return self._table.is_room(queue)

    def reserve(self, job_id: int, bucket: Bucket, demand: Demand) -> bool:
        """Plan the start of a job that cannot start now, and hold for it what it needs, if its queue has room for it.

        Jobs have to come in serving order. Returns whether another job of its class may be planned after it.
        """
        self._come_to(bucket)
        queue, usable = bucket.queue, self._trial.usable(bucket, demand)
        if bucket.requirement.reservation or not self._table.may_reserve(queue, usable):
            return False
        before = self._table.take(job_id, bucket)
        if self._is_paused(before):
            self._table.count(queue, usable)
            return False
        self._demands[job_id] = demand
        was_sought = before is not None and before.was_sought
        if self._table.is_room_for_all(queue):
            said = self._entry.said(job_id, bucket)
            known = None if said is None else said.latest
            self._entry.delays[job_id] = self._table.latest_of(queue, before) if known is None else known
        reserved = self._making.plan(job_id, bucket, demand, before if was_sought else None)
        if reserved.allocation is None:
            if reserved.text == OTHERS_FIRST:  # the first of the queue all the same
                self._table.count(queue, usable)
            self._table.confirm(job_id, reserved)
            return False  # nor for those after it
        self._table.count(queue, usable)
        return self._table.is_room_for_all(queue)

    def may_look(self) -> bool:
        """Whether `look` would look at a further job."""
        return self._looks < MOST_LOOKS

    def look(self, job_id: int, bucket: Bucket, demand: Demand) -> None:
        """Find out whether the hosts, as they are, could never take a job that has not been planned."""
        if job_id in self._table.reserved_starts:
            return
        before = self._table.take(job_id, bucket)
        if before is not None and self._now - before.searched_at < SEARCH_AGAIN_S and self._making.is_answered(before):
            self._table.confirm(job_id, before)
        elif self.may_look():
            self._looks += 1
            text = self._planner.never(bucket, demand)
            answer = self._entry.answer(job_id, bucket, text, self._now, self._making.open_hosts, frozenset())
            self._table.confirm(job_id, structs.replace(answer, was_sought=False, first_told=math.inf))

    def may_use(self, bucket: Bucket, demand: Demand, hosts: Collection[str]) -> bool:
        """Whether a job of the bucket would have anything of these hosts if nothing ran anywhere."""
        return self._planner.may_use(bucket, demand, hosts)

    def hold(self, job_id: int, bucket: Bucket, allocation: Allocation, at: float) -> PlannedStart | None:
        """Hold an allocation for a job whose victims are ending and that starts at `at`; None if it may not have it."""
        booking = self._planner.fit.booking(job_id, bucket, allocation, at)
        if not self._planner.fit.fits(booking):
            return None
        self._table.take(job_id, bucket)
        self._table.count(bucket.queue, None)
        return self._entry.enter(booking, at, "", self._now, frozenset(), self._now)

    def victims_sought_at(self, job_id: int, bucket: Bucket) -> float:
        """When it was last looked in vain for jobs to displace for the job; before all time if it was not."""
        return self._entry.victims_sought_at(job_id, bucket)

    def sought_victims(self, bucket: Bucket) -> None:
        """It was looked in vain in this cycle for jobs to displace."""
        self._entry.sought[kind_of(bucket)] = self._now

    def planned(self, *, truncated: bool = False) -> dict[int, PlannedStart]:
        """Job id -> planned start, of all jobs that this cycle planned for.

        `truncated`: the cycle did not come to all jobs; the plans of those stay.
        """
        found: dict[int, PlannedStart] = dict(self._table.rest() if truncated else {})
        for job_id, each in self._table.reserved_starts.items():
            later, has_gathered = self._later(job_id), self._has_gathered(job_id, each)
            is_same = later == each.later and has_gathered == each.has_gathered
            found[job_id] = each if is_same else structs.replace(each, later=later, has_gathered=has_gathered)
        return found

    def _has_gathered(self, job_id: int, reserved: ReservedStart) -> bool:
        """Whether others could have now, or could have had before, some of what is reserved for the job."""
        if reserved.allocation is None:
            return False
        said = self._entry.said(job_id, reserved.bucket)
        if said is not None and said.allocation is not None and said.has_gathered:
            return True
        host_ledger = self._snapshot.ledger.host
        return any(is_partly_free(host_ledger(part.host), part) for part in reserved.allocation.parts)

    def _later(self, job_id: int) -> frozenset[int]:
        """Who has started, though he comes later, since something was reserved for the job."""
        planned = self.future.bookings.get(job_id)
        if planned is None:
            return frozenset()
        hosts = {part.host for part in planned.allocation.parts}
        placed = [*self.future.placed_for_long(hosts), *self.ahead.placed_for_long(planned.bucket)]
        return planned.later.kept(placed, self._snapshot.running)

    def _come_to(self, bucket: Bucket) -> None:
        """Jobs of the bucket's queue are looked at from now on: no job of a lower queue puts planned jobs off."""
        priority = self.future.priority(bucket)
        if priority >= self._level:
            return
        self._level = priority
        for each in [each for each in self.future.bookings.values() if each.latest is not None]:
            self.future.unbook(each.job_id)
            self.future.book(self._as_told(each))

    def _as_told(self, held: Booking) -> Booking:
        """The planned job as early as it starts if nobody puts it off any more."""
        strict = held.strict()
        if self._planner.fit.fits(strict):
            return strict
        demand, held = self._demands.get(held.job_id), replace(held, told=None, latest=None)
        return held if demand is None else self._planner.earlier(held, demand) or held

    # -- making and keeping plans ---------------------------------------------------------------------------------

    def _is_paused(self, before: ReservedStart | None) -> bool:
        """Whether something was reserved for the job for as long as its queue allows."""
        if before is None or before.allocation is None:
            return False
        queue = self._snapshot.queues.get(before.bucket.queue)
        return queue is not None and queue.reserve_s is not None and self._now - before.since >= queue.reserve_s

    def _still_fits(self, booking: Booking) -> bool:
        self.future.unbook(booking.job_id)
        fits = self._planner.fit.fits(booking)
        self.future.book(booking)
        return fits
