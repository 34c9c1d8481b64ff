"""Whether jobs were served in order and no GPU was left idle for nothing: a judge of what happened, from these words.

    Jobs of a queue are served in order: larger -sp first, then in order of submission (in a fairshare queue by the turn
    of their users, but who has a reservation of which some is free comes first until it starts). A job is not started
    while an older one of the same queue, which could have started then on what is free (its own limits and requirement
    included), waits. A job that cannot start may be passed by later ones only if they delay no job that has a
    reservation: with `easy` the first waiting job of the queue, with `conservative` the first N. A GPU is not left idle
    while a job waits that fits on it and delays none of those.

    A reservation whose time is the estimated end of a job may be put off by later jobs of queues of equal PRIORITY that
    are thought to end by its latest start: the start told first, and so many times the wait that was told then again
    (PastQueue.plan_delay). A job without a limit uses what is reserved until the start that was told first, or until
    the latest start, and no longer.

Queues of larger PRIORITY are served before others, queues of equal PRIORITY as one. How the words are read:

- All that happens at one time is one moment, and who started at it started together. *What is free* for a job that
  waits is what is left after the moment and what later jobs took in it.
- A job of several hosts could have started only where it delays nobody on whichever hosts it is put.
- *Delay* is reckoned with the run limits as they were known: a reservation is the earliest time at which the job fits
  once the jobs have ended that ran then or started before it in order. A later job delays it if it is known to run
  beyond that time, and the reserved one would not fit beside it then, on any hosts. `PastCluster.estimate_s` gives
  those without a limit one, or `learns` lets the past say it.
- A reservation rests on an estimate if the last that it waits for has no limit. Where it may be one or the other, later
  jobs may put it off, and nobody must.
- A job has a reservation without a time where it waits for jobs of which nobody knows when they end. It waits for those
  that ran when it first had the reservation, and for nobody who started since: later ones that nobody knows the end of
  delay it if it would not fit beside them once all of the others have ended. Who has a limit ends before. As nobody
  knows which host it will get, nobody could have started who takes one of them from it.
- Between users of a fairshare queue there is an inversion only where one had the turn however the starts of the
  moment are put in a row; and the first job of each user may have been the one with the reservation.

Where several jobs have reservations, they can be on the hosts in many ways. In one queue a delay is told where there
are no hosts any more for all of them, in whichever way, and where one starts later than it would whatever hosts those
before it have: these are chosen first, and for their sake alone. Of jobs of several queues only the first is judged.
Somebody could have started only on hosts that have room for him and for each of those that could be there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tests.support.serving_order.host_room import Mask
from tests.support.serving_order.past_reservation import KeptPlaces, Remembered, Reservation
from tests.support.serving_order.past_reservations import PastReservations
from tests.support.serving_order.serving_history import Moment, PastCluster, PastJob, Room, moments
from tests.support.serving_order.serving_verdict import IdleGpus, Inversion, Verdict


def judge(cluster: PastCluster, jobs: Iterable[PastJob], *, until: float = math.inf, grace_s: float = 0.0) -> Verdict:
    """What is wrong in the history up to `until`. `grace_s`: GPUs that are idle for no longer are not told."""
    inversions: list[Inversion] = []
    idle: list[IdleGpus] = []
    before: dict[int, Remembered] = {}
    kept = KeptPlaces()
    for moment in moments(cluster, list(jobs)):
        if moment.now > until:
            break
        if not moment.waiting:
            before.clear()
            kept = KeptPlaces()
            continue
        ruling = _Ruling(moment, before, kept)
        if moment.started:
            inversions += ruling.inversions()
        if min(moment.until, until) - moment.now > grace_s:
            found = ruling.idle(min(moment.until, until))
            idle += [found] if found else []
        before, kept = ruling.reservations.to_remember(), ruling.reservations.kept_places()
    return Verdict(tuple(inversions), tuple(idle))


class _RefusedNeeds:
    """Needs that could not be met: who needs the same for as long or longer, and comes later, cannot have it either."""

    def __init__(self) -> None:
        self._least: dict[tuple[int, int, int, frozenset[str] | None], float] = {}

    def add(self, job: PastJob, lasts: float) -> None:
        needs = job.hosts, job.gpus, job.slots, job.usable
        self._least[needs] = min(lasts, self._least.get(needs, math.inf))

    def holds(self, job: PastJob, lasts: float) -> bool:
        least = self._least.get((job.hosts, job.gpus, job.slots, job.usable))
        return least is not None and lasts >= least


class _Ruling:
    """On one moment."""

    def __init__(self, moment: Moment, before: Mapping[int, Remembered], kept: KeptPlaces) -> None:
        """`before`: by number, jobs that had a reservation before the moment. `kept`: those of fairshare queues."""
        self._moment = moment
        self.reservations = PastReservations(moment, before, kept)
        self._order, self._room = self.reservations.order, self.reservations.room
        self._ways, self._limits = self.reservations.ways, self.reservations.limits

    def _delayed(self, job: PastJob, rows: Sequence[int], reserved: Iterable[Reservation]) -> Reservation | None:
        """Whose reservation the job puts off if it starts now on these hosts."""
        end = self._moment.now + self._moment.lasts(job)
        for each in reserved:
            if self.reservations.meets(job, end, each):
                then = each.then.copy()
                then[list(rows)] -= self._moment.needs(job)
                if not self._room.fits(each.job, then, each.start):
                    return each
        return None

    def _harmless(
        self, job: PastJob, free: Room, reserved: Sequence[Reservation], without: Sequence[PastJob] = ()
    ) -> list[int]:
        """Hosts on which the job could start now without a delay for these, who come before it; empty for none.

        `without`: who has not started.
        """
        reserved = self.reservations.owed(job, reserved, for_sure=True)
        able = self._room.able(job, free, self._moment.now)
        if int(able.sum()) < job.hosts:
            return []
        end, harm = self._moment.now + self._moment.lasts(job), np.zeros(len(free), np.int64)
        met = [each for each in reserved if self.reservations.meets(job, end, each)]
        for each in met:
            takes = self._takes_place(job, each, each.then)
            if math.isinf(each.start):  # whoever of those in doubt is waited for
                takes |= self._takes_place(job, each, each.then, each.least)
                takes |= self._takes_place(job, each, self._room.total)
            harm += takes
            if math.isinf(each.start):  # any of these hosts may be the first
                able = np.logical_and(able, ~takes)
        if int(able.sum()) < job.hosts:
            return []
        order = np.lexsort((free[:, 0], harm))
        rows = [int(row) for row in order if able[row]]
        if job.hosts > 1 and self._delayed(job, rows[-job.hosts :], reserved):
            return []  # of many hosts not every choice is tried in a cycle
        rows = rows[: job.hosts]
        ways = [way for each in reserved for way in each.one_by_one]
        if self._delayed(job, rows, [*reserved, *ways]) or self._limits.lack_after(job, met, reserved, without):
            return []
        return rows if len(reserved) < 2 or self._has_room_for_all(job, rows, reserved) else []

    def _takes_place(self, job: PastJob, reserved: Reservation, room: Room, least: Room | None = None) -> Mask:
        """Hosts on which a part of the job leaves too little to one that has a reservation, of what may be only `least`
        there.
        """
        beside = self._room.able(
            reserved.job, (room if least is None else least) - self._moment.needs(job), reserved.start
        )
        taken: Mask = np.logical_and(self._room.able(reserved.job, room, reserved.start), ~beside)
        return taken

    def _has_room_for_all(self, job: PastJob, rows: Sequence[int], reserved: Sequence[Reservation]) -> bool:
        """Whether the hosts have room for the job and each of those that could be there, whichever are."""
        end, beside = self._moment.now + self._moment.lasts(job), []
        for each in reserved:
            then = each.then.copy() if each.start < math.inf else np.minimum(each.then, each.least)
            if self.reservations.meets(job, end, each):
                then[list(rows)] -= self._moment.needs(job)
                left = then.copy()
                for other in reserved:
                    left[self._room.able(other.job, each.then, other.start)] -= self._moment.needs(other.job)
                if (left[list(rows)] < 0).any():
                    return False
            beside.append(replace(each, then=then))
        return bool(self._ways.find(beside))

    def inversions(self) -> list[Inversion]:
        """Starts of the moment that should not have been."""
        reserved = self.reservations.made(after=False)
        found = self._passed(reserved)
        sure = [each for each in reserved if each.is_sure]
        for number, each in enumerate(sure):
            if any(one.job.queue != each.job.queue for one in sure[:number]):
                break
            if math.isinf(each.start) and not (
                self._room.fits(each.job, each.then, each.start) and self._ways.find(sure[: number + 1])
            ):
                continue  # what kept it from a place happened before
            is_put_off, ways = False, [replace(way, then=way.then.copy()) for way in each.one_by_one]
            for later in self._order.later(each.job):
                (owed,), end = self.reservations.owed(later, [each], for_sure=False), self._room.known_end(later)
                if later.number in found or (owed is each and is_put_off) or not each.is_latest_sure:
                    continue
                is_put_off |= owed is not each and self.reservations.meets(later, end, each)
                if not self.reservations.meets(later, end, owed):
                    continue
                then = owed.then.copy()
                then[self._room.rows_of(later)] -= self._moment.needs(later)
                has_room = self._room.fits(each.job, then, owed.start)
                is_delayed = not has_room or self._ways.find([*sure[:number], replace(owed, then=then)]) is False
                left = [way for way in ways if self._is_beside(way, later, end)] if is_delayed else []
                if left:
                    ways = left
                elif is_delayed:
                    found[later.number] = Inversion(self._moment.now, later.number, each.job.number, delayed=True)
                elif owed.is_met_by(end):
                    owed.then[:] = then  # beside it the next one may delay
        return list(found.values())

    def _is_beside(self, way: Reservation, later: PastJob, end: float) -> bool:
        """Whether the job, where those before it are on hosts in this way, starts then beside the later one, too, which
        is known to run until `end`. If so it is there from now on.
        """
        if self.reservations.meets(later, end, way):
            way.then[self._room.rows_of(later)] -= self._moment.needs(later)
        return self._room.fits(way.job, way.then, way.start)

    def _passed(self, reserved: Sequence[Reservation]) -> dict[int, Inversion]:
        """Who started though an older job waits that could have started instead."""
        found: dict[int, Inversion] = {}
        refused = _RefusedNeeds()
        for job in self._order.waiting:
            later = self._order.later(job)
            if not later and not self._order.is_fair:
                break  # nor has anybody after him a later one
            lasts = self._moment.lasts(job)
            if (
                not later
                or not self._limits.admit(job, later)
                or (refused.holds(job, lasts) and not self._order.is_fair)
            ):
                continue
            if not self._could_start(job, later, reserved):
                refused.add(job, lasts)  # those after it could have even less
            else:
                for each in later:
                    if self._could_use(job, each):
                        inversion = Inversion(self._moment.now, each.number, job.number, delayed=False)
                        found.setdefault(each.number, inversion)
        return found

    def _could_start(self, job: PastJob, later: Sequence[PastJob], reserved: Sequence[Reservation]) -> bool:
        """Whether the job could have started instead of later ones, without a delay for those before it."""
        free = self._room.without(later)
        if not self._room.fits(job, free, self._moment.now):
            return False
        before = [each for each in reserved if each.job is not job and not self._order.precedes(job, each.job)]
        return bool(self._harmless(job, free, self.reservations.beside_those_between(before, later, False), later))

    def _could_use(self, job: PastJob, other: PastJob) -> bool:
        """Whether the job could use anything of what the other one took."""
        usable = job.usable
        run = self._moment.running.get(other.number)
        return run is not None and (usable is None or not usable.isdisjoint(run[1].hosts))

    def idle(self, until: float) -> IdleGpus | None:
        """GPUs that could have been in use after the moment."""
        free = self._moment.free.copy()
        if not free[:, 0].any():
            return None
        reserved = self.reservations.made(after=True)
        refused = _RefusedNeeds()
        gpus, first = 0, 0
        for job in self._order.waiting:
            lasts = self._moment.lasts(job)
            if (
                not job.gpus
                or not self._limits.have_left(job)
                or (refused.holds(job, lasts) and not self._order.is_fair)
            ):
                continue
            before = [each for each in reserved if each.job is not job and not self._order.precedes(job, each.job)]
            rows = self._harmless(job, free, before)
            if not rows:
                refused.add(job, lasts)
            else:
                free[rows] -= self._moment.needs(job)
                for each in (version for one in before for version in one.versions()):
                    if each.is_met_by(self._moment.now + lasts):
                        each.then[rows] -= self._moment.needs(job)
                self._limits.taken.update(job.counts_in)
                reserved = [each for each in reserved if each.job is not job]
                gpus, first = gpus + job.gpus * job.hosts, first or job.number
        return IdleGpus(self._moment.now, until, gpus, first) if gpus else None
