"""Reservation and backfill: jobs that cannot start get a planned start, and nothing that starts now may delay it.

Planned jobs hold devices, slots and amounts, never whole hosts. A job may start beside them when what it takes is free
also from their planned starts on; in a queue with BACKFILL=Y it may also use what they wait for, if it ends by then.
A plan once made is kept while it holds, and only a job of a queue of higher priority may break it; who may have one,
reservation_table says. Advance reservations and the slots of preempted jobs are guarded here too. It places nothing
itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from gsched.base.coded_text import AnyText
from gsched.model.allocation import Allocation, HostAllocation
from gsched.model.reason import PlannedStart
from gsched.model.snapshot import Bucket, RequirementClass, Running, Snapshot
from gsched.policy.backfill.backfill_check import Respect
from gsched.policy.backfill.future_ledgers import Booking, Future
from gsched.policy.backfill.future_limits import LimitsAhead
from gsched.policy.backfill.planned_start import NOT_LOOKED_AT, Obstacles, ReservedStart, start_of
from gsched.policy.backfill.reservation_guard import ReservationGuard
from gsched.policy.backfill.reservation_table import Lacking, ReservationTable
from gsched.policy.backfill.start_planner import OTHERS_FIRST, AsksFit, Planner
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.match.host_conditions import closed_hosts
from gsched.policy.order.blocked_heads import QueueClass, first_jobs, is_first, kind_of
from gsched.policy.order.fairshare import ShareTree
from gsched.policy.requirement.demand import Demand
from gsched.policy.requirement.reasons import Reason

MOST_SEARCHES = 8
"""Searches over the whole cluster in one cycle."""
SEARCH_AGAIN_S = 60.0
"""After so long a plan that holds is looked at again: something better may have come up."""


class Reservations:
    """The planned jobs of one cycle: those of the cycle before that still hold, and those made in this one."""

    def __init__(self, snapshot: Snapshot, now: float, trial: AsksFit, limits: LimitUse | None = None) -> None:
        """`limits`: those that hold in the cycle."""
        self._snapshot = snapshot
        self._now = now
        self.future = Future(snapshot, now)
        self.ahead = LimitsAhead(self.future, limits)
        self._planner = Planner(self.future, trial, self.ahead)
        self.guard = ReservationGuard(self.future)
        self._places = ReservationTable(self.future, self._planner, trial)
        self._respect = Respect(self.future, self.ahead, self._places)
        self._served: set[QueueClass] = set()
        self._sought: dict[QueueClass, float] = {}

    # -- what a job may use ---------------------------------------------------------------------------------------

    def hosts(self) -> frozenset[str]:
        """Hosts where `allows` has to be asked; elsewhere it allows everything, but for jobs with -U."""
        return frozenset([*self.future.booked_hosts(), *self.guard.hosts()])

    def allows(self, part: HostAllocation, ends_at: float, bucket: Bucket) -> Reason | None:
        """Why a job that fits now must not take the part until `ends_at` (UTC seconds, infinite when unknown).

        None when it may. `bucket`: of the job, whose queue says whether it may backfill. What an advance reservation
        keeps is its jobs' own: no plan stands against them there, and one that is in the way is made anew.
        """
        inside = bucket.requirement.reservation
        return (
            self.guard.within(bucket, part)
            or self.guard.after_windows(part, ends_at, inside)
            or self.guard.after_suspended(part, bucket)
            or (None if inside else self._respect.after_planned(part, ends_at, bucket))
        )

    def keeps_limits(self, parts: Sequence[HostAllocation], ends_at: float, bucket: Bucket) -> Reason | None:
        """Why a job that all limits let in now must not take the parts until `ends_at`: a planned job would find too
        little left of a limit. A part without a host stands for those that are not known yet.
        """
        return self._respect.after_limits(parts, ends_at, bucket)

    def ready(self, bucket: Bucket, ends_at: float) -> Allocation | None:
        """The planned place of the bucket's class if it is free by now: to be taken before any other is looked for.

        Another place of the same job could be refused for the sake of those who are planned beside this one.
        """
        kind = kind_of(bucket)
        for job_id, reserved in self._places.reserved_starts.items():
            booking = self.future.bookings.get(job_id)
            if booking is None or job_id in self._places.confirmed or kind_of(reserved.bucket) != kind:
                continue
            host_ledger = self._snapshot.ledger.host
            parts = [self.future.refit(part, host_ledger(part.host)) for part in booking.allocation.parts]
            if any(part is None or self.allows(part, ends_at, bucket) is not None for part in parts):
                return None
            found, count = tuple(part for part in parts if part is not None), len(booking.allocation.hosts)
            return Allocation(hosts=found[:count], kept=found[count:])
        return None

    def awaits(self, queue: str, requirement: RequirementClass) -> bool:
        """Whether the cycle before planned for a job of the class, and this one has not yet come to it."""
        return self._places.of_class((queue, requirement)) is not None

    def is_kept(self, bucket: Bucket) -> bool:
        """Whether the plan of the cycle before for a job of the bucket may be kept though a limit is full now: others
        may use it until the job starts.
        """
        return not self.ahead.is_stopped(bucket) and any(
            each.bucket == bucket and each.allocation is not None for each in self._places.reserved_starts.values()
        )

    def wanting_plans(self, kinds: Iterable[QueueClass], able: Collection[QueueClass]) -> set[QueueClass]:
        """Those of the classes, which fit nowhere, whose first job must have its turn before others take what it will
        wait for: nothing was planned for them yet. None while as much is reserved for as may be, unless a job of the
        `able` classes, which could start, may leave its place.
        """
        if not self._places.may_change(able):
            return set()
        return {kind for kind in kinds if kind not in self._places.planned_before}

    def may_go_on(self, part: HostAllocation, ends_at: float, bucket: Bucket) -> bool:
        """Whether a preempted job of the bucket may have its slots (`part`) again, which are free now."""
        if self.guard.after_windows(part, ends_at, bucket.requirement.reservation) is not None:
            return False
        return self._respect.after_planned(part, ends_at, bucket, goes_on=True) is None

    def may_stop(self, victims: Collection[Running], bucket: Bucket) -> bool:
        """Whether jobs may be suspended for one of the bucket: no planned job that it must respect waits for their end
        to have their devices, amounts or limits. If so they count as suspended.
        """
        added = {victim.job_id for victim in victims} - self.future.stopped
        self.future.stopped |= added
        hosts = dict.fromkeys(part.host for victim in victims for part in victim.allocation.parts)
        if all(self._still_fits(each) for each in self._respect.those_on(hosts, victims, bucket)):
            return True
        self.future.stopped -= added
        return False

    def took(
        self, part: HostAllocation, ends_at: float, bucket: Bucket | None = None, *, may_fulfil: bool = True
    ) -> None:
        """The part has been taken from the cycle's ledger by a job of the bucket, which may run until `ends_at`.

        `may_fulfil`: whether the cycle before may have planned for a job of the class.
        """
        self.future.placed(part, ends_at, bucket)
        if may_fulfil and bucket is not None:
            self._places.fulfilled(bucket)
        if part.host in self.future.booked_hosts():
            self._places.settle(part.host)

    # -- planning -------------------------------------------------------------------------------------------------

    def reserve(self, job_id: int, bucket: Bucket, demand: Demand) -> PlannedStart | None:
        """Plan the start of a job that cannot start now, and hold for it what it needs.

        Only the first job of a class in a queue is planned, and only so many in all; None for the others.
        """
        kind = kind_of(bucket)
        if kind in self._served:
            return self._places.reserved_starts.get(job_id)
        self._served.add(kind)
        if job_id in self._places.paused or bucket.requirement.reservation:
            return None
        aside = self._places.set_aside(bucket)
        reserved = self._plan(job_id, bucket, demand, self._places.own(job_id, bucket))
        self._places.put_back(aside)
        if reserved is None or reserved.lacks_place:
            self._places.turn_away(job_id, bucket, demand, None if reserved is None else reserved.obstacles)
        if reserved is not None:
            self._places.confirm(job_id, reserved)
        return reserved

    def reserve_rest(
        self,
        waiting: Iterable[QueueClass],
        demand_of: Callable[[Bucket], Demand | None],
        trees: Mapping[str, ShareTree] | None = None,
        started: Collection[int] = (),
    ) -> None:
        """Do the same for classes that the cycle passed over, since they fit nowhere now.

        `waiting`: (queue, class) pairs; `demand_of`: None for a bucket whose jobs may not start whatever is free;
        `trees`: the share trees of the cycle; `started`: jobs that it has placed. The cost is that of the plans that
        are kept, and of the first jobs of classes while more may be reserved for.
        """
        rest = [kind for kind in waiting if kind not in self._served]
        known = {kind_of(each.bucket): (job_id, each) for job_id, each in self._places.reserved_starts.items()}
        handed_on = []
        for kind in rest:
            if kind not in known:
                continue
            job_id, reserved = known[kind]
            if not is_first(self._snapshot, job_id, reserved.bucket):
                handed_on.append(kind)
                continue
            demand = demand_of(reserved.bucket)
            if demand is not None:
                self.reserve(job_id, reserved.bucket, demand)
        self._plan_those_before()
        held = sum(known[kind][0] in self.future.bookings for kind in handed_on)
        if self._places.is_room() or held:
            handed_on += [kind for kind in rest if kind not in known]
        for job_id, bucket in first_jobs(self._snapshot, handed_on, trees, started):
            if kind_of(bucket) not in known and not self._may_search():
                continue
            demand = demand_of(bucket)
            if demand is not None:
                self.reserve(job_id, bucket, demand)

    def hold(self, job_id: int, bucket: Bucket, allocation: Allocation, at: float) -> PlannedStart | None:
        """Hold an allocation for a job whose victims are ending and that starts at `at`; None if it may not have it."""
        old = self._places.own(job_id, bucket)
        if old is not None:
            self._places.forget(old[0])
        aside = self._places.set_aside(bucket)
        booking = self._planner.booking(job_id, bucket, allocation, at)
        reserved = self._enter(booking, at, "", self._now, self._now) if self._planner.fits(booking) else None
        self._places.put_back(aside)
        if reserved is not None:
            self._served.add(kind_of(bucket))
        return reserved

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
        places = self._places
        return {
            job_id: each for job_id, each in places.reserved_starts.items() if truncated or job_id in places.confirmed
        }

    # -- making and keeping plans ---------------------------------------------------------------------------------

    def _plan(
        self, job_id: int, bucket: Bucket, demand: Demand, old: tuple[int, ReservedStart] | None
    ) -> ReservedStart | None:
        """The plan of a class: the old one while it holds, else (or now and then) what a search finds.

        None when there is no place to look for.
        """
        kept: Booking | None = None
        before = old[1] if old is not None else None
        if old is not None:
            kept = self.future.bookings.get(old[0])
            self._places.forget(old[0])
        if kept is None or (before is not None and start_of(before) + SEARCH_AGAIN_S < self._now):
            kept = None  # its time is long past, and it has not started: look elsewhere
        else:
            kept = self._planner.earlier(replace(kept, job_id=job_id, bucket=bucket), demand)
        searched_at = -math.inf if before is None else before.searched_at
        if before is None or not (kept is not None or self._is_answered(before)):
            searched_at = -math.inf
        if self._now - searched_at < SEARCH_AGAIN_S:
            assert before is not None
            if kept is not None:
                return self._keep(kept, before, before.text, searched_at)
            return self._answer(job_id, bucket, before.text, searched_at, before.open_hosts, before.obstacles)
        if kept is None:
            self._plan_those_before()
            if not self._places.is_room():
                return None
        return self._search(job_id, bucket, demand, kept, before)

    def _is_answered(self, before: ReservedStart) -> bool:
        """Whether nothing was found by a search, and nothing has changed that it depended on."""
        return (
            before.allocation is None
            and before.open_hosts == self._open_hosts
            and self._places.is_blocked(before.obstacles)
        )

    def _search(
        self,
        job_id: int,
        bucket: Bucket,
        demand: Demand,
        kept: Booking | None,
        before: ReservedStart | None,
        others: Iterable[Lacking] | None = None,
    ) -> ReservedStart:
        """What a search finds that is better than `kept`, if it may still be made.

        `others`: who comes before the job and has no place yet; None: all who lack one.
        """
        text: AnyText = ""
        searched_at, open_hosts, obstacles = -math.inf, -1, Obstacles()
        if before is not None:
            text = before.text if before.allocation is None or kept is not None else ""
            searched_at, open_hosts, obstacles = before.searched_at, before.open_hosts, before.obstacles
        if self._may_search():
            found, text = self._planner.search(job_id, bucket, demand, kept, apart=self._places.only_apart())
            searched_at, open_hosts, obstacles = self._now, self._open_hosts, self._places.in_the_way()
            if found is not None and kept is None:
                first = self._places.before(found, self._places.lacking.values() if others is None else others)
                if first is not None:
                    found, text, obstacles = None, OTHERS_FIRST, first
            if found is not None and math.isinf(found.start):
                before = None  # what was reserved is lost: nobody who started here since was held against it
            kept = found or kept
        if kept is not None:
            return self._keep(kept, before, text, searched_at)
        return self._answer(job_id, bucket, text or NOT_LOOKED_AT, searched_at, open_hosts, obstacles)

    def _plan_those_before(self) -> None:
        """Before a further job gets a place: has one come up for jobs who come before it?

        Otherwise each job of a class could hand its place down to the next, and who waits for all of it waits for ever.
        """
        others: list[Lacking] = []
        for each in list(self._places.lacking.values()):
            if not self._may_search() or not self._places.is_room():
                return
            if each.obstacles is None or not self._places.is_blocked(each.obstacles):
                old = self._places.reserved_starts.get(each.job_id)
                reserved = self._search(each.job_id, each.bucket, each.demand, None, old, others)
                self._places.look_at(each, reserved)
            if each.job_id in self._places.lacking:
                others.append(self._places.lacking[each.job_id])

    def _still_fits(self, booking: Booking) -> bool:
        self.future.unbook(booking.job_id)
        fits = self._planner.fits(booking)
        self.future.book(booking)
        return fits

    def _may_search(self) -> bool:
        return self._planner.searches < MOST_SEARCHES

    def _answer(
        self, job_id: int, bucket: Bucket, text: AnyText, searched_at: float, open_hosts: int, obstacles: Obstacles
    ) -> ReservedStart:
        """Why nothing is reserved."""
        return ReservedStart(
            text=text,
            bucket=bucket,
            allocation=None,
            since=self._now,
            searched_at=searched_at,
            victims_at=self._victims_at(job_id, bucket),
            open_hosts=open_hosts,
            obstacles=obstacles,
        )

    def _keep(self, kept: Booking, before: ReservedStart | None, text: AnyText, searched_at: float) -> ReservedStart:
        since = self._now if before is None or before.allocation is None else before.since
        is_overdue = before is not None and start_of(before) <= self._now and kept.start <= self.future.soon
        at = start_of(before) if before is not None and is_overdue else kept.start
        return self._enter(kept, at, text, since, searched_at)

    def _enter(self, booking: Booking, at: float, text: AnyText, since: float, searched_at: float) -> ReservedStart:
        """`at`: the time that is told; it may have passed."""
        self.future.book(replace(booking, since=since))
        for part in booking.allocation.parts:
            self._places.settle(part.host)
        hosts = tuple(part.host for part in booking.allocation.hosts)
        reserved = ReservedStart(
            at=None if math.isinf(at) else at,
            hosts=hosts,
            text=text if math.isinf(at) else self._planner.rests_on(booking),
            bucket=booking.bucket,
            allocation=booking.allocation,
            since=since,
            searched_at=searched_at,
            victims_at=self._victims_at(booking.job_id, booking.bucket),
        )
        self._places.confirm(booking.job_id, reserved)
        return reserved

    @cached_property
    def _open_hosts(self) -> int:
        columns = self._snapshot.columns
        if columns is None:
            return sum(not host.closed for host in self._snapshot.hosts.values())
        return columns.size - int(closed_hosts(columns).sum())

    def _victims_at(self, job_id: int, bucket: Bucket) -> float:
        kind = kind_of(bucket)
        return self._sought[kind] if kind in self._sought else self.victims_sought_at(job_id, bucket)
