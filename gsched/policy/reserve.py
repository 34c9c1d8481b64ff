"""Reservation and backfill: jobs that cannot start get a planned start, and nothing that starts now may delay it.

Planned jobs hold devices, slots and amounts, never whole hosts. A job may start beside them when what it takes is free
also from their planned starts on; in a queue with BACKFILL=Y it may also use what they wait for, if it ends by then.
A plan once made is kept while it holds, and only a job of a queue of higher priority may break it. Advance
reservations and the slots of preempted jobs are guarded here too. It places nothing itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from gsched.base.ids import show_job
from gsched.model.allocation import Allocation, HostAllocation
from gsched.model.reason import PlannedStart
from gsched.model.snapshot import Bucket, RequirementClass, Snapshot
from gsched.policy.columns import is_closed
from gsched.policy.demand import Demand
from gsched.policy.explain import Reason
from gsched.policy.fairshare import ShareTree
from gsched.policy.future import CANDIDATE, Booking, Future
from gsched.policy.guard import Guard
from gsched.policy.heads import Kind, first_jobs, kind_of
from gsched.policy.planner import OTHERS_FIRST, Planner, Trial, show_time

MOST_RESERVED = 8
"""Jobs that something is reserved for at a time."""
MOST_SEARCHES = 8
"""Searches over the whole cluster in one cycle."""
MOST_PLANNED = 64
"""Jobs with a planned start, reserved for or not."""
SEARCH_AGAIN_S = 60.0
"""After so long a plan that holds is looked at again: something better may have come up."""


class Promise(PlannedStart, frozen=True, kw_only=True):
    """A planned start with what a later cycle needs to keep it."""

    bucket: Bucket
    allocation: Allocation | None
    """None when nothing is reserved."""
    since: float
    """When something was reserved first."""
    searched_at: float
    victims_at: float = -math.inf
    """When it was looked in vain for jobs to displace."""
    open_hosts: int = 0
    """How many hosts were open when a search found no place: it is looked again as soon as that changes."""


class Reservations:
    """The planned jobs of one cycle: those of the cycle before that still hold, and those made in this one."""

    def __init__(self, snapshot: Snapshot, now: float, trial: Trial) -> None:
        self._snapshot = snapshot
        self._now = now
        self.future = Future(snapshot, now)
        self._trial = trial
        self._planner = Planner(self.future, trial)
        self.guard = Guard(self.future, self._planner)
        self._promises: dict[int, Promise] = {}
        self._confirmed: set[int] = set()
        self._served: set[Kind] = set()
        self._paused: set[int] = set()
        self._sought: dict[Kind, float] = {}
        self._enter_old()
        self._planned_before = {kind_of(each.bucket) for each in self._promises.values() if each.text != OTHERS_FIRST}
        """Classes of a queue that the cycle before planned for."""
        self._without_place: list[tuple[int, Bucket, Demand]] = []
        """Jobs of this cycle, in serving order, that the plans of others leave no place to."""

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
            or (None if inside else self._after_planned(part, ends_at, bucket))
        )

    def ready(self, bucket: Bucket, ends_at: float) -> Allocation | None:
        """The planned place of the bucket's class if it is free by now: to be taken before any other is looked for.

        Another place of the same job could be refused for the sake of those who are planned beside this one.
        """
        kind = kind_of(bucket)
        for job_id, promise in self._promises.items():
            booking = self.future.bookings.get(job_id)
            if booking is None or job_id in self._confirmed or kind_of(promise.bucket) != kind:
                continue
            books = self._snapshot.ledger.host
            parts = [self.future.refit(part, books(part.host)) for part in booking.allocation.parts]
            if any(part is None or self.allows(part, ends_at, bucket) is not None for part in parts):
                return None
            found, count = tuple(part for part in parts if part is not None), len(booking.allocation.hosts)
            return Allocation(hosts=found[:count], kept=found[count:])
        return None

    def awaits(self, queue: str, requirement: RequirementClass) -> bool:
        """Whether the cycle before planned for a job of the class, and this one has not yet come to it."""
        kind = (queue, requirement)
        return any(
            kind_of(promise.bucket) == kind
            for job_id, promise in self._promises.items()
            if job_id not in self._confirmed
        )

    def wants_plan(self, queue: str, requirement: RequirementClass) -> bool:
        """Whether nothing was planned for the class yet, so that its first job must have its turn before others take
        what it will wait for. While as much is reserved for as may be, it gets no plan anyway.
        """
        if len(self.future.bookings) >= MOST_RESERVED:
            return False
        return (queue, requirement) not in self._planned_before

    def may_go_on(self, part: HostAllocation, ends_at: float, bucket: Bucket) -> bool:
        """Whether a preempted job of the bucket may have its slots (`part`) again, which are free now."""
        if self.guard.after_windows(part, ends_at, bucket.requirement.reservation) is not None:
            return False
        return self._after_planned(part, ends_at, bucket, goes_on=True) is None

    def took(
        self, part: HostAllocation, ends_at: float, bucket: Bucket | None = None, *, may_fulfil: bool = True
    ) -> None:
        """The part has been taken from the cycle's ledger by a job of the bucket, which may run until `ends_at`.

        `may_fulfil`: whether the cycle before may have planned for a job of the class.
        """
        self.future.placed(part, ends_at, bucket)
        if may_fulfil and bucket is not None:
            self._drop_own(bucket)
        if part.host in self.future.booked_hosts():
            self._settle(part.host)

    # -- planning -------------------------------------------------------------------------------------------------

    def reserve(self, job_id: int, bucket: Bucket, demand: Demand) -> PlannedStart | None:
        """Plan the start of a job that cannot start now, and hold for it what it needs.

        Only the first job of a class in a queue is planned, and only so many in all; None for the others.
        """
        kind = kind_of(bucket)
        if kind in self._served:
            return self._promises.get(job_id)
        self._served.add(kind)
        if job_id in self._paused or bucket.requirement.reservation:
            return None
        aside = self._set_aside(bucket)
        promise = self._plan(job_id, bucket, demand, self._own(job_id, bucket))
        self._put_back(aside)
        if promise is not None and promise.text == OTHERS_FIRST:
            self._without_place.append((job_id, bucket, demand))
        if promise is not None and len(self._confirmed) < MOST_PLANNED:
            self._promises[job_id] = promise
            self._confirmed.add(job_id)
        return promise

    def reserve_rest(
        self,
        waiting: Iterable[Kind],
        demand_of: Callable[[Bucket], Demand | None],
        trees: Mapping[str, ShareTree] | None = None,
    ) -> None:
        """Do the same for classes that the cycle passed over, since they fit nowhere now.

        `waiting`: (queue, class) pairs; `demand_of`: None for a bucket whose jobs may not start whatever is free;
        `trees`: the share trees of the cycle. The
        cost is that of the plans that are kept, and of the first jobs of classes while more may be reserved for.
        """
        rest = [kind for kind in waiting if kind not in self._served]
        if not rest:
            return
        known = {kind_of(each.bucket): (job_id, each) for job_id, each in self._promises.items()}
        for kind in rest:
            if kind in known:
                job_id, promise = known[kind]
                demand = demand_of(promise.bucket)
                if demand is not None:
                    self.reserve(job_id, promise.bucket, demand)
        new = [kind for kind in rest if kind not in known]
        if len(self.future.bookings) >= MOST_RESERVED or len(self._confirmed) >= MOST_PLANNED:
            new = []
        for job_id, bucket in first_jobs(self._snapshot, new, trees):
            if self._planner.searches >= MOST_SEARCHES:
                return
            demand = demand_of(bucket)
            if demand is not None:
                self.reserve(job_id, bucket, demand)

    def hold(self, job_id: int, bucket: Bucket, allocation: Allocation, at: float) -> PlannedStart | None:
        """Hold an allocation for a job whose victims are ending and that starts at `at`; None if it may not have it."""
        old = self._own(job_id, bucket)
        if old is not None:
            self._forget(old[0])
        aside = self._set_aside(bucket)
        booking = self._planner.booking(job_id, bucket, allocation, at)
        promise = self._enter(booking, at, "", self._now, self._now) if self._planner.fits(booking) else None
        self._put_back(aside)
        if promise is not None:
            self._served.add(kind_of(bucket))
        return promise

    def victims_sought_at(self, job_id: int, bucket: Bucket) -> float:
        """When it was last looked in vain for jobs to displace for the job; before all time if it was not."""
        planned = self._snapshot.planned.get(job_id)
        return planned.victims_at if isinstance(planned, Promise) and planned.bucket == bucket else -math.inf

    def sought_victims(self, bucket: Bucket) -> None:
        """It was looked in vain in this cycle for jobs to displace."""
        self._sought[kind_of(bucket)] = self._now

    def planned(self, *, truncated: bool = False) -> dict[int, PlannedStart]:
        """Job id -> planned start, of all jobs that this cycle planned for.

        `truncated`: the cycle did not come to all jobs; the plans of those stay.
        """
        return {job_id: promise for job_id, promise in self._promises.items() if truncated or job_id in self._confirmed}

    # -- plans of the cycle before --------------------------------------------------------------------------------

    def _enter_old(self) -> None:
        old = [(job_id, each) for job_id, each in self._snapshot.planned.items() if isinstance(each, Promise)]
        for job_id, promise in sorted(old, key=lambda item: (_at(item[1]), item[0])):
            queue = self._snapshot.queues.get(promise.bucket.queue)
            if queue is None or not self._waits(promise.bucket):
                continue
            if promise.allocation is None:
                self._promises[job_id] = promise
            elif queue.reserve_s is not None and self._now - promise.since >= queue.reserve_s:
                self._paused.add(job_id)
            else:
                self._enter_again(job_id, promise, promise.allocation)

    def _waits(self, bucket: Bucket) -> bool:
        """Whether there is still a job that a plan of the bucket's class can be for."""
        buckets = self._snapshot.pending.get(bucket.requirement, {})
        return bucket in buckets or any(each.queue == bucket.queue for each in buckets)

    def _enter_again(self, job_id: int, promise: Promise, allocation: Allocation) -> None:
        hosts = self._snapshot.hosts
        if any(part.host not in hosts or hosts[part.host].closed for part in allocation.hosts):
            return
        start = max(_at(promise), self.future.soon)
        booking = self._planner.slipped(self._planner.booking(job_id, promise.bucket, allocation, start))
        if booking is not None:
            self.future.book(booking)
            self._promises[job_id] = promise

    def _own(self, job_id: int, bucket: Bucket) -> tuple[int, Promise] | None:
        """The plan that the job has, or takes over from another of its class that was to come before it."""
        promise = self._promises.get(job_id)
        if promise is not None:
            if kind_of(promise.bucket) == kind_of(bucket):
                return job_id, promise
            self._forget(job_id)
        for other, promise in self._promises.items():
            if other not in self._confirmed and kind_of(promise.bucket) == kind_of(bucket):
                return other, promise
        return None

    def _drop_own(self, bucket: Bucket) -> None:
        """A job of the class has started: the plan of its class has been fulfilled."""
        for job_id, promise in self._promises.items():
            if job_id not in self._confirmed and kind_of(promise.bucket) == kind_of(bucket):
                self._forget(job_id)
                return

    def _forget(self, job_id: int) -> None:
        self._promises.pop(job_id, None)
        self._confirmed.discard(job_id)
        if job_id in self.future.bookings:
            self.future.unbook(job_id)

    # -- making and keeping plans ---------------------------------------------------------------------------------

    def _plan(self, job_id: int, bucket: Bucket, demand: Demand, old: tuple[int, Promise] | None) -> Promise | None:
        """The plan of a class: the old one while it holds, else (or now and then) what a search finds."""
        kept: Booking | None = None
        before = old[1] if old is not None else None
        if old is not None:
            kept = self.future.bookings.get(old[0])
            self._forget(old[0])
        if kept is None or (before is not None and _at(before) + SEARCH_AGAIN_S < self._now):
            kept = None  # its time is long past, and it has not started: look elsewhere
        else:
            kept = self._planner.earlier(replace(kept, job_id=job_id, bucket=bucket), demand)
        has_answer = kept is not None or (
            before is not None and before.allocation is None and before.open_hosts == self._open_hosts
        )
        text, searched_at = ("", -math.inf) if before is None else (before.text, before.searched_at)
        seen_open = -1 if before is None else before.open_hosts
        if not has_answer or self._now - searched_at >= SEARCH_AGAIN_S:
            if kept is None:
                self._plan_those_before()
            if not self._has_room(bucket, kept):
                return None
            if self._planner.searches < MOST_SEARCHES:
                found, text = self._planner.search(job_id, bucket, demand, kept)
                if found is not None and kept is None and self._is_another_before(found):
                    found, text = None, OTHERS_FIRST
                kept, searched_at, seen_open = found or kept, self._now, self._open_hosts
        if kept is None:
            text = text or "unknown: not looked at yet"
            return Promise(
                text=text,
                bucket=bucket,
                allocation=None,
                since=self._now,
                searched_at=searched_at,
                victims_at=self._victims_at(job_id, bucket),
                open_hosts=seen_open,
            )
        since = self._now if before is None or before.allocation is None else before.since
        is_overdue = before is not None and _at(before) <= self._now and kept.start <= self.future.soon
        at = _at(before) if before is not None and is_overdue else kept.start
        return self._enter(kept, at, text, since, searched_at)

    def _plan_those_before(self) -> None:
        """Before a further job gets a place: has a plan been fulfilled that left none to jobs who come before it?

        Otherwise each job of a class could hand its place down to the next, and who waits for all of it waits for ever.
        """
        waiting, self._without_place = self._without_place, []
        for job_id, bucket, demand in waiting:
            found = None
            if self._planner.searches < MOST_SEARCHES and len(self.future.bookings) < MOST_RESERVED:
                found, text = self._planner.search(job_id, bucket, demand, None)
            if found is None or self._is_another_before(found):
                self._without_place.append((job_id, bucket, demand))
            else:
                self._enter(found, found.start, text, self._now, self._now)

    def _is_another_before(self, found: Booking) -> bool:
        """Whether a job that comes before it, and has no place yet, could use a host of the plan."""
        if not self._without_place:
            return False
        hosts = {part.host for part in found.allocation.hosts}
        return any(
            not hosts.isdisjoint(self._trial.candidates(bucket, demand)) for _, bucket, demand in self._without_place
        )

    def _has_room(self, bucket: Bucket, kept: Booking | None) -> bool:
        """Whether one more job may be reserved for; if need be a lower queue's plan of the cycle before gives way."""
        if kept is not None or len(self.future.bookings) < MOST_RESERVED:
            return True
        others = [each for job_id, each in self.future.bookings.items() if job_id not in self._confirmed]
        lowest = min(others, key=lambda each: (each.priority, -each.start, -each.job_id), default=None)
        if lowest is None or lowest.priority >= self.future.priority(bucket):
            return False
        self._forget(lowest.job_id)
        return True

    def _enter(self, booking: Booking, at: float, text: str, since: float, searched_at: float) -> Promise:
        """`at`: the time that is told; it may have passed."""
        self.future.book(booking)
        for part in booking.allocation.parts:
            self._settle(part.host)
        hosts = tuple(part.host for part in booking.allocation.hosts)
        promise = Promise(
            at=None if math.isinf(at) else at,
            hosts=hosts,
            text=text if math.isinf(at) else f"{show_time(at)} on {_show_hosts(hosts)}",
            bucket=booking.bucket,
            allocation=booking.allocation,
            since=since,
            searched_at=searched_at,
            victims_at=self._victims_at(booking.job_id, booking.bucket),
        )
        self._promises[booking.job_id] = promise
        self._confirmed.add(booking.job_id)
        return promise

    @cached_property
    def _open_hosts(self) -> int:
        columns = self._snapshot.columns
        if columns is None:
            return sum(not host.closed for host in self._snapshot.hosts.values())
        return columns.size - int(columns.standing("closed", is_closed).sum())

    def _victims_at(self, job_id: int, bucket: Bucket) -> float:
        kind = kind_of(bucket)
        return self._sought[kind] if kind in self._sought else self.victims_sought_at(job_id, bucket)

    def _set_aside(self, bucket: Bucket) -> list[tuple[Booking, Promise]]:
        """Take out the plans of the cycle before that jobs of the bucket need not respect."""
        priority = self.future.priority(bucket)
        lower = [
            each
            for job_id, each in self.future.bookings.items()
            if job_id not in self._confirmed and each.priority < priority
        ]
        aside = [(each, self._promises[each.job_id]) for each in lower]
        for booking, _ in aside:
            self._forget(booking.job_id)
        return aside

    def _put_back(self, aside: list[tuple[Booking, Promise]]) -> None:
        """Enter them again where they still fit."""
        for booking, promise in aside:
            if self._planner.fits(booking):
                self.future.book(booking)
                self._promises[booking.job_id] = promise

    def _settle(self, host: str) -> None:
        """Let the planned jobs of a host choose their devices anew; whoever no longer fits loses the plan."""
        bookings = self.future.booked(host)
        while bookings:
            settled = self.future.settle(host, bookings)
            if isinstance(settled, list):
                for booking in settled:
                    self.future.book(booking)
                return
            self._forget(settled.job_id)
            bookings = self.future.booked(host)

    # -- guards ---------------------------------------------------------------------------------------------------

    def _after_planned(
        self, part: HostAllocation, ends_at: float, bucket: Bucket, *, goes_on: bool = False
    ) -> Reason | None:
        """Whether all planned jobs that the candidate must respect still fit on the host beside it.

        One that goes on after a preemption is reckoned with in the plans of its own and lower queues already; and a
        plan whose time nobody knows may wait for its very end.
        """
        priority = self.future.priority(bucket)
        kind = kind_of(bucket)
        queue = self._snapshot.queues.get(bucket.queue)
        backfills = queue is not None and queue.backfill
        own = [each for each in self.future.booked(part.host) if kind_of(each.bucket) == kind]
        end = ends_at if backfills or own else math.inf  # what is planned beside its own plan reckons with its end
        respected = [
            each
            for each in self.future.booked(part.host)
            if (not goes_on or (each.priority > priority and each.start < math.inf))
            and (each.job_id in self._confirmed or (each.priority >= priority and kind_of(each.bucket) != kind))
        ]
        if all(each.start >= end and end < math.inf for each in respected):
            return None
        candidate = Booking(CANDIDATE, bucket, priority, self._now, end, Allocation(hosts=(part,)))
        settled = self.future.settle(part.host, [candidate, *respected])
        if isinstance(settled, list):
            return None
        return _delays(settled, part, ends_at, backfills=backfills)


def _at(promise: Promise) -> float:
    return math.inf if promise.at is None else promise.at


def _delays(booking: Booking, part: HostAllocation, ends_at: float, *, backfills: bool) -> Reason:
    wanted = booking.part_on(part.host)
    gpus = f" and {len(wanted.gpus)} GPUs" if wanted.gpus else ""
    start = "as soon as it can" if math.isinf(booking.start) else show_time(booking.start)
    if math.isinf(ends_at):
        why = "this job has no run limit"
    elif backfills:
        why = f"this job may run until {show_time(ends_at)}"
    else:
        why = "this job's queue has no BACKFILL"
    return Reason(
        f"Resources are reserved for job <{show_job(booking.job_id)}>",
        f"{f'{wanted.slots} slots{gpus}' if wanted.slots else 'all'} on {part.host}, planned start {start}; {why}",
    )


def _show_hosts(hosts: Sequence[str]) -> str:
    """The first few names and how many more there are."""
    more = f" and {len(hosts) - 4} more hosts" if len(hosts) > 4 else ""
    return ", ".join(hosts[:4]) + more
