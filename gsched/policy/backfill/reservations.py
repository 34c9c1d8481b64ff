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
from functools import cached_property

from msgspec import structs

from gsched.base.coded_text import AnyText
from gsched.model.jobs.reason import PlannedStart
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.scheduling.snapshot import Bucket, RequirementClass, Running, Snapshot
from gsched.policy.backfill.advance_reservation_guard import AdvanceReservationGuard
from gsched.policy.backfill.backfill_check import BackfillCheck
from gsched.policy.backfill.future_ledgers import CANDIDATE, Booking, Future
from gsched.policy.backfill.future_limits import LimitsAhead
from gsched.policy.backfill.planned_reasons import may_be_put_off
from gsched.policy.backfill.reservation_table import ReservationTable
from gsched.policy.backfill.reserved_start import NOT_LOOKED_AT, Obstacle, ReservedStart, start_of
from gsched.policy.backfill.start_planner import OTHERS_FIRST, AsksFit, Planner
from gsched.policy.backfill.started_later import StartedLater
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.match.host_conditions import closed_hosts
from gsched.policy.order.queue_class import QueueClass, kind_of
from gsched.policy.requirement.demand import Demand
from gsched.policy.requirement.reasons import Reason

MOST_SEARCHES = 32
"""Searches over the whole cluster in one cycle."""
MOST_LOOKS = 4
"""So many jobs in one cycle that are not planned are looked at, whether they can ever start."""
MOST_IN_THE_WAY = 64
"""So often in one cycle it is tried in vain to plan somebody elsewhere."""
SEARCH_AGAIN_S = 60.0
"""After so long it is looked again at the latest, whether a plan holds or there is none: better may have come up."""
MOST_TRIES_AGAIN = 32
MOST_SEARCHES_AGAIN = 16
"""Until another place was tried so often in one cycle, and so much was searched for, plans that hold are looked at
again in each cycle, in serving order, and so are jobs that found no place beside others; the first one of a queue
always is. The rest is left to those that were not looked at yet.
"""


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
        self._sought: dict[QueueClass, float] = {}
        self._looks = 0
        self._tries_again = 0
        self._demands: dict[int, Demand] = {}
        """Of the jobs that were planned for in this cycle."""
        self._level = math.inf
        """Priority of the queue that is served."""
        self._delays: dict[int, float | None] = {}
        """Planned job that others may put off -> until when at the latest, if an earlier cycle has said so."""
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
        if before is None or before.allocation is None or not self._is_open(before.allocation):
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
        if not self._planner.fits(planned):
            if demand is None or math.isinf(planned.start):
                return False
            other = self._planner.elsewhere(planned, demand)
            if other is None:
                return False
            found = replace(other, later=planned.later, first_told=planned.first_told, latest=planned.latest)
            if planned.told is not None:
                found = self._put_off(self._planner.earlier(found, demand) or found, planned.start)
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
            said = self._said(job_id, bucket)
            known = None if said is None else said.latest
            self._delays[job_id] = self._table.latest_of(queue, before) if known is None else known
        reserved = self._plan(job_id, bucket, demand, before if was_sought else None)
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
        if before is not None and self._now - before.searched_at < SEARCH_AGAIN_S and self._is_answered(before):
            self._table.confirm(job_id, before)
        elif self.may_look():
            self._looks += 1
            text = self._planner.never(bucket, demand)
            answer = self._answer(job_id, bucket, text, self._now, self._open_hosts, frozenset())
            self._table.confirm(job_id, structs.replace(answer, was_sought=False, first_told=math.inf))

    def hold(self, job_id: int, bucket: Bucket, allocation: Allocation, at: float) -> PlannedStart | None:
        """Hold an allocation for a job whose victims are ending and that starts at `at`; None if it may not have it."""
        booking = self._planner.booking(job_id, bucket, allocation, at)
        if not self._planner.fits(booking):
            return None
        self._table.take(job_id, bucket)
        self._table.count(bucket.queue, None)
        return self._enter(booking, at, "", self._now, frozenset(), self._now)

    def victims_sought_at(self, job_id: int, bucket: Bucket) -> float:
        """When it was last looked in vain for jobs to displace for the job; before all time if it was not."""
        planned = self._snapshot.planned.get(job_id)
        return planned.victims_at if isinstance(planned, ReservedStart) and planned.bucket == bucket else -math.inf

    def sought_victims(self, bucket: Bucket) -> None:
        """It was looked in vain in this cycle for jobs to displace."""
        self._sought[kind_of(bucket)] = self._now

    def planned(self, *, truncated: bool = False) -> dict[int, PlannedStart]:
        """Job id -> planned start, of all jobs that this cycle planned for.

        `truncated`: the cycle did not come to all jobs; the plans of those stay.
        """
        found: dict[int, PlannedStart] = dict(self._table.rest() if truncated else {})
        for job_id, each in self._table.reserved_starts.items():
            later = self._later(job_id)
            found[job_id] = each if later == each.later else structs.replace(each, later=later)
        return found

    def _beside(self, later: frozenset[int]) -> StartedLater:
        """As the cycle comes to the planned job."""
        return StartedLater(later, mark=len(self.future.turns))

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
        if self._planner.fits(strict):
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

    def _plan(self, job_id: int, bucket: Bucket, demand: Demand, before: ReservedStart | None) -> ReservedStart:
        """The plan of the cycle before while it holds, else (or now and then) what a search finds."""
        kept = None if before is None else self._kept(job_id, bucket, demand, before)
        is_first = self._table.is_untouched(bucket.queue)
        if before is not None and self._now - before.searched_at < SEARCH_AGAIN_S:
            is_answered = self._is_answered(before)
            if is_answered and before.text != OTHERS_FIRST:
                return self._again_nothing(job_id, bucket, before)
            if not is_first and (kept is not None or is_answered):
                return self._look_again(job_id, bucket, demand, kept, before)
        return self._search(job_id, bucket, demand, kept, before)

    def _again_nothing(self, job_id: int, bucket: Bucket, before: ReservedStart) -> ReservedStart:
        """What was said of a job that nothing is reserved for is said again."""
        return self._answer(job_id, bucket, before.text, before.searched_at, before.open_hosts, before.obstacles)

    def _look_again(
        self, job_id: int, bucket: Bucket, demand: Demand, kept: Booking | None, before: ReservedStart
    ) -> ReservedStart:
        """A plan that holds, or what is better; or a plan where there was none: jobs may have ended early, or who comes
        before starts elsewhere.
        """
        if self._tries_again >= MOST_TRIES_AGAIN or self._planner.searches >= MOST_SEARCHES_AGAIN:
            if kept is None:
                return self._again_nothing(job_id, bucket, before)
            return self._keep(kept, before, before.text, before.searched_at)
        tries = self._planner.tries
        found = self._search(job_id, bucket, demand, kept, before)
        self._tries_again += self._planner.tries - tries
        return found

    def _kept(self, job_id: int, bucket: Bucket, demand: Demand, before: ReservedStart) -> Booking | None:
        """What was planned, as early as its hosts get free by now, if it still fits beside those who come before."""
        allocation = before.allocation
        if allocation is None or start_of(before) + SEARCH_AGAIN_S < self._now:
            return None  # its time is long past, and it has not started: look elsewhere
        if not self._is_open(allocation):
            return None
        start = max(start_of(before), self.future.soon)
        booking = replace(self._planner.booking(job_id, bucket, allocation, start), later=self._beside(before.later))
        found = self._planner.slipped(booking)
        return None if found is None else self._planner.earlier(found, demand)

    def _is_open(self, allocation: Allocation) -> bool:
        """Whether its hosts are there and take jobs."""
        hosts = self._snapshot.hosts
        return all(part.host in hosts and not hosts[part.host].closed for part in allocation.hosts)

    def _is_answered(self, before: ReservedStart) -> bool:
        """Whether nothing was found by a search, and nothing has changed that it depended on."""
        return (
            before.allocation is None
            and before.open_hosts == self._open_hosts
            and all(self._is_unchanged(each) for each in before.obstacles)
        )

    def _is_unchanged(self, obstacle: Obstacle) -> bool:
        planned = self.future.bookings.get(obstacle[0])
        return planned is not None and _obstacle(planned) == obstacle

    def _search(
        self, job_id: int, bucket: Bucket, demand: Demand, kept: Booking | None, before: ReservedStart | None
    ) -> ReservedStart:
        """What a search finds that is better than `kept`, if it may still be made."""
        text: AnyText = ""
        searched_at, open_hosts, obstacles = -math.inf, -1, frozenset[Obstacle]()
        if before is not None and (before.allocation is None or kept is not None):
            text, searched_at = before.text, before.searched_at
            open_hosts, obstacles = before.open_hosts, before.obstacles
        if self._planner.searches < MOST_SEARCHES:
            found, text = self._planner.search(job_id, bucket, demand, kept)
            is_lasting = not self.ahead.concerns(bucket)  # what limits leave to it changes by the cycle
            searched_at, open_hosts = self._now, self._open_hosts if is_lasting else -1
            obstacles = frozenset(_obstacle(each) for each in self.future.bookings.values())
            if found is not None and math.isinf(found.start) and not _is_where(found, before):
                before = None  # what was reserved is lost: nobody who started here since was held against it
            kept = found or kept
        if kept is not None:
            return self._keep(kept, before, text, searched_at)
        return self._answer(job_id, bucket, text or NOT_LOOKED_AT, searched_at, open_hosts, obstacles)

    def _still_fits(self, booking: Booking) -> bool:
        self.future.unbook(booking.job_id)
        fits = self._planner.fits(booking)
        self.future.book(booking)
        return fits

    def _answer(
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
            first_told=self._first_told(job_id, bucket),
            latest=self._delays.get(job_id),
            searched_at=searched_at,
            victims_at=self._victims_at(job_id, bucket),
            open_hosts=open_hosts,
            obstacles=obstacles,
        )

    def _keep(self, kept: Booking, before: ReservedStart | None, text: AnyText, searched_at: float) -> ReservedStart:
        if before is None or before.allocation is None:
            since, later = self._now, frozenset[int]()
        else:
            since, later = before.since, before.later
        is_overdue = before is not None and start_of(before) <= self._now and kept.start <= self.future.soon
        at = start_of(before) if before is not None and is_overdue else kept.start
        return self._enter(kept, at, text, since, later, searched_at)

    def _enter(
        self, booking: Booking, at: float, text: AnyText, since: float, later: frozenset[int], searched_at: float
    ) -> ReservedStart:
        """`at`: the time that is told; it may have passed."""
        first_told = min(booking.start, self._first_told(booking.job_id, booking.bucket))
        rests_on, is_estimated = ("", False) if math.isinf(booking.start) else self._planner.rests_on(booking)
        text = text if math.isinf(at) else rests_on
        latest = self._latest(booking, is_estimated=is_estimated)
        booking = replace(booking, later=self._beside(later), first_told=first_told, latest=latest)
        held = booking if latest is None or not is_estimated else self._put_off(booking, latest)
        self.future.book(held)
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
        if booking.job_id not in self._delays:
            return None
        latest = self._delays[booking.job_id]
        more = self._snapshot.queues[booking.bucket.queue].max_plan_delay
        if latest is None and is_estimated and more:
            latest = booking.start + more * (booking.start - self._now)
        return latest

    def _put_off(self, booking: Booking, latest: float) -> Booking:
        """The planned job as it is held for while others may put it off; as it is where that would not do."""
        if latest <= booking.start or math.isinf(booking.start):
            return booking
        held = self._planner.booking(booking.job_id, booking.bucket, booking.allocation, latest)
        if not self._planner.fits(held):
            return booking
        return replace(
            held, later=booking.later, first_told=booking.first_told, told=booking.start, latest=booking.latest
        )

    def _first_told(self, job_id: int, bucket: Bucket) -> float:
        """The earliest start that cycles before have told for the job as it is now."""
        said = self._said(job_id, bucket)
        return math.inf if said is None else said.first_told

    def _said(self, job_id: int, bucket: Bucket) -> ReservedStart | None:
        """What the cycle before said of the job as it is now, whoever has taken its place since."""
        said = self._snapshot.planned.get(job_id)
        return said if isinstance(said, ReservedStart) and said.bucket == bucket else None

    @cached_property
    def _open_hosts(self) -> int:
        columns = self._snapshot.columns
        if columns is None:
            return sum(not host.closed for host in self._snapshot.hosts.values())
        return columns.size - int(closed_hosts(columns).sum())

    def _victims_at(self, job_id: int, bucket: Bucket) -> float:
        kind = kind_of(bucket)
        return self._sought[kind] if kind in self._sought else self.victims_sought_at(job_id, bucket)


def _obstacle(planned: Booking) -> Obstacle:
    return planned.job_id, tuple(part.host for part in planned.allocation.hosts), planned.start < math.inf


def _is_where(found: Booking, before: ReservedStart | None) -> bool:
    """Whether a job is planned on the very hosts where it was before."""
    return before is not None and {part.host for part in found.allocation.hosts} == set(before.hosts)
