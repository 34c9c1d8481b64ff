"""The reservations that jobs have at a moment, by the sentences of the rule (serving_oracle): when, and how surely."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from tests.support.serving_order.host_room import HostRoom
from tests.support.serving_order.past_job_limits import PastJobLimits
from tests.support.serving_order.past_reservation import NOTHING_BEFORE, KeptPlaces, Remembered, Reservation
from tests.support.serving_order.reservation_ways import MOST_WAYS, ReservationWays
from tests.support.serving_order.serving_history import Moment, PastJob, Room
from tests.support.serving_order.serving_turns import ServingTurns, is_alike

Placed = tuple[Reservation, list[int]]
"""A reservation and the rows of its hosts."""


class PastReservations:
    """At one moment."""

    def __init__(self, moment: Moment, before: Mapping[int, Remembered], kept: KeptPlaces) -> None:
        """`before`: by number, jobs that had a reservation before the moment. `kept`: by whom."""
        self._moment = moment
        self._cluster = moment.cluster
        self._reserved_before = before
        self._kept = kept
        self.order = ServingTurns(moment, kept)
        self.room = HostRoom(moment)
        self.ways = ReservationWays(moment, self.room)
        self.limits = PastJobLimits(moment)
        self._said_before: dict[int, Remembered] = {}
        """By number, what was said of those that have a reservation before later jobs started at the moment."""
        for each in self.made(after=False) if any(q.plan_delay for q in self._cluster.queues.values()) else ():
            told = each.first, each.latest, each.is_latest_sure
            self._said_before[each.job.number] = Remembered(frozenset(), frozenset(), False, *told)

    def _may_be_planned(self, job: PastJob) -> bool:
        """Whether the job may have a reservation: limits let it in when its turn came, or did when it got it, or when
        an equal one of its user got it that comes after it: of those the first one has it.
        """
        is_let_in = job.number in self._reserved_before or self.limits.admit(job, self.order.maybe_later(job))
        return is_let_in or any(
            other.number in self._reserved_before
            and other.user == job.user
            and is_alike(other, job)
            and self.order.is_older(job, other)
            for other in self.order.waiting
        )

    def _is_surely_let_in(self, job: PastJob, made: Iterable[Reservation]) -> bool:
        """Whether limits let it in, and none of the others takes its place in one if it has a reservation."""
        before = self._reserved_before.get(job.number)
        is_let_in = self.limits.admit(job, self.order.later(job)) or (before is not None and before.is_sure)
        others = [each.job for each in made if not each.is_sure and each.job is not job]
        return is_let_in and not any(name in each.counts_in for each in others for name in self.limits.of(job))

    def _is_let_in_for_sure(self, found: Reservation, later: Sequence[PastJob], made: Sequence[Reservation]) -> bool:
        """Whether limits let it in when it starts, whoever need not wait for whom."""
        if math.isinf(found.start):
            return True
        there = replace(found, end=self._respected_until(found.job, found.start))
        return self.limits.admit_then(there, made, later, self._unawaited(made, in_doubt=True))

    def made(self, *, after: bool) -> list[Reservation]:
        """The reservations as they were before later jobs started at the moment, or `after` all that started."""
        left = {name: queue.reserved for name, queue in self._cluster.queues.items()}
        seen: Counter[tuple[str, str]] = Counter()
        made: list[Reservation] = []
        for job in self.order.waiting:
            if not any(left.values()) and not self.order.is_fair:
                break
            later = [] if after else self.order.later(job)
            is_fair = self._cluster.queues[job.queue].shares is not None
            most = self._cluster.queues[job.queue].reserved
            may_have_it = seen[job.queue, job.user] < most if is_fair else left[job.queue] > 0
            may_have_it |= job.number in self._kept.perhaps
            if may_have_it and self.room.fits(job, self.room.total, math.inf) and self._may_be_planned(job):
                is_let_in = self._is_surely_let_in(job, made)
                left[job.queue] -= is_let_in
                seen[job.queue, job.user] += 1
                sure = self.beside_those_between([each for each in made if each.is_sure], later, after)
                doubts = (each.job for each in made if not each.is_sure and not self.order.precedes(job, each.job))
                is_sure = not is_fair and is_let_in and next(doubts, None) is None
                found = self._earliest(job, later, sure)
                is_sure = is_sure and self._is_let_in_for_sure(found, later, sure)
                found = replace(found, is_sure=is_sure, is_firm=is_let_in)
                told = [found.start]
                self._add_one_by_one(found, found, later, sure)
                if any(each.held for each in sure):
                    owed = self.owed(job, sure, for_sure=False)
                    other = self._earliest(job, later, owed)
                    told.append(other.start)
                    self._add_one_by_one(found, other, later, owed)
                self._say(found, told, later, sure, after)
                if math.isinf(found.start) and not self.limits.admit_in_the_end(job, later, sure):
                    found.is_sure = False  # and so may the next one have it
                    left[job.queue] += is_let_in
                if found.start < math.inf or self._has_place(found, sure):
                    made.append(found)
                elif sure and self._has_place(found, []):  # as they end, too, it may have something all the same
                    made.append(replace(found, is_sure=False))
        return made

    def _say(
        self,
        found: Reservation,
        told: Sequence[float],
        later: Sequence[PastJob],
        made: Sequence[Reservation],
        after: bool,
    ) -> None:
        """What is told of the reservation: the earliest start, and until when others may put it off.

        `told`: what the start may be, where those before it may be put off or not.
        """
        before = self._reserved_before.get(found.job.number, NOTHING_BEFORE)
        known = self._said_before.get(found.job.number, before) if after else before
        found.first = min(known.first, *told)
        found.latest = known.latest
        # Whoever may have the reservation beside it may have been told another one, which it then takes over.
        found.is_latest_sure = known.is_latest_sure and len(told) == 1 and found.is_sure
        queue = self._cluster.queues[found.job.queue]
        last = self._last_awaited(found, later, made)
        if found.latest is None:  # it takes over what was said of who had it before and waits on
            others = [each for number, each in self._reserved_before.items() if number in self._moment.waiting]
            told_before = [each for each in others if each.latest is not None and each.queue == found.job.queue]
            found.latest = min((each.latest for each in told_before if each.latest is not None), default=None)
            found.is_latest_sure &= all(each.is_sure and each.is_latest_sure for each in told_before)
            started = {each.number for each in self._moment.started}
            had_it = [each for number, each in self._reserved_before.items() if number in started]
            # One that came after it may have started later in the same cycle, when it had been taken over.
            taken = [each.latest for each in had_it if each.latest is not None and each.queue == found.job.queue]
            if taken:
                found.latest = min([*taken, math.inf if found.latest is None else found.latest])
                found.is_latest_sure = False
        if not queue.plan_delay or math.isinf(found.start) or not any(each.limit_s is None for each in last):
            return
        if found.latest is None:
            found.latest = found.start + queue.plan_delay * (found.start - self._moment.now)
            found.is_latest_sure &= all(each.limit_s is None for each in last)
        if found.latest > found.start:
            end = found.latest + self._moment.lasts(found.job)
            then = self.room.free_at(found.latest, self.room.without(later), self.room.ends_without(later))
            found.held = replace(found, start=found.latest, end=end, then=then, least=then, one_by_one=[])
            found.is_held_for_sure = found.is_latest_sure and all(each.limit_s is None for each in last)
            if not self.room.fits(found.job, then, found.latest):
                found.held, found.is_held_for_sure = None, False

    def _last_awaited(self, found: Reservation, later: Sequence[PastJob], made: Iterable[Reservation]) -> list[PastJob]:
        """Those at whose ends it starts, of whom it waits for one."""
        running = self._moment.running.values()
        last = [job for job, run in running if job not in later and self._moment.known_end(job, run) == found.start]
        return [*last, *(each.job for one in made for each in one.versions() if each.end == found.start)]

    def owed(self, job: PastJob, reserved: Iterable[Reservation], *, for_sure: bool) -> list[Reservation]:
        """The reservations as the job, which comes later, has to respect them: in a lower queue it puts none off."""
        priority = self._cluster.queues[job.queue].priority
        return [
            each
            if each.held is None
            or self._cluster.queues[each.job.queue].priority > priority
            or (for_sure and not each.is_held_for_sure)
            else each.held
            for each in reserved
        ]

    def meets(self, job: PastJob, end: float, each: Reservation) -> bool:
        """Whether the job, which is known to run until `end`, counts as there when the reserved one starts. Where it is
        in doubt how long a job without a limit may use what is reserved, it does.
        """
        queue = self._cluster.queues[job.queue]
        is_equal = self._cluster.queues[each.job.queue].priority <= queue.priority
        lasting = each.latest if is_equal and each.latest is not None else each.first
        lasting = lasting if each.is_latest_sure else min(lasting, each.first)
        if not queue.backfill or (job.limit_s is None and end > lasting):
            return True
        return each.is_met_by(end)

    def _respected_until(self, job: PastJob, at: float) -> float:
        """Until when the job may use what is reserved for nobody before it, if it starts then: without backfill it uses
        nothing that is reserved for later.
        """
        return at + self._moment.lasts(job) if self._cluster.queues[job.queue].backfill else math.inf

    def _add_one_by_one(
        self, found: Reservation, earliest: Reservation, later: Sequence[PastJob], made: Sequence[Reservation]
    ) -> None:
        """See `Reservation.one_by_one`; ways in which it has no place are left out, and of too many nobody is sure."""
        for way in self._in_turn(made, later) if made else ():
            beside = None if way is None else self._earliest_beside(earliest, way, later)
            if way is None:
                found.is_sure = False
            elif beside is not None:
                found.one_by_one.append(beside)

    def _in_turn(
        self, made: Sequence[Reservation], later: Sequence[PastJob]
    ) -> Iterator[list[tuple[Reservation, list[int]]] | None]:
        """How those that have reservations can be on the hosts if each has its earliest start on any of these beside
        those before it, wherever they are; None in the end if there are too many ways to try all.
        """
        tries = MOST_WAYS

        def go_on(number: int, placed: list[Placed]) -> Iterator[list[Placed]]:
            nonlocal tries
            if number == len(made):
                yield placed
                return
            each = self._earliest_beside(made[number], placed, later)
            if each is None:
                yield from go_on(number + 1, placed)
                return
            able = np.flatnonzero(self.room.able(each.job, each.then, each.start)).tolist()
            for rows in combinations(able, each.job.hosts):
                if tries <= 0:
                    return
                tries -= 1
                yield from go_on(number + 1, [*placed, (each, list(rows))])

        yield from go_on(0, [])
        if tries <= 0:
            yield None

    def _earliest_beside(
        self, found: Reservation, placed: Sequence[Placed], later: Sequence[PastJob]
    ) -> Reservation | None:
        """When it could start beside others on their hosts; None for never."""
        free, ends, needs = self.room.without(later), self.room.ends_without(later), self._moment.needs
        edges = [found.start, *ends.tolist(), *(edge for each, _ in placed for edge in (each.start, each.end))]
        for at in sorted(at for at in {*edges, math.inf} if at >= found.start):
            end, until = at + self._moment.lasts(found.job), self._respected_until(found.job, at)
            known = at < math.inf
            then = self.room.free_at(at, free, ends) if known else self._free_in_the_end(found.job, later, True)
            for other, rows in placed:
                if other.is_there(at) or (at < other.start and (other.start < until or math.isinf(until))):
                    then[rows] -= needs(other.job)
            if self.room.fits(found.job, then, at):
                return replace(found, start=at, end=end, then=then, least=then, one_by_one=[])
        return None

    def _has_place(self, found: Reservation, made: Sequence[Reservation]) -> bool:
        """Whether one without a time finds a place beside the others once all have ended; else it has nothing."""
        limits, queue = self._cluster.most_jobs, self._cluster.queues[found.job.queue]
        is_let_in = all(
            sum(name in each.job.counts_in and each.is_there(math.inf) for each in made) < limits[name]
            for name in self.limits.of(found.job)
        )
        if not (queue.reserves_without_time and is_let_in and self.room.fits(found.job, found.then, math.inf)):
            return False
        return self.ways.find([*made, found]) is not False

    def to_remember(self) -> dict[int, Remembered]:
        """By number, those that have a reservation after the moment."""
        found: dict[int, Remembered] = {}
        made = self.made(after=True)
        for place, each in enumerate(made):
            before = self._reserved_before.get(each.job.number, NOTHING_BEFORE)
            # Who starts while it is in doubt whether the job has a reservation delays nothing for sure.
            later = before.later | {other.number for other in self.order.later(each.job) if each.is_sure}
            if any(other.job.queue != each.job.queue for other in made[:place]):
                later = frozenset()  # it may have to look for another place, and waits for those who are there
            maybe = before.maybe_later | {other.number for other in self.order.maybe_later(each.job)}
            maybe |= self._handed_on(each.job)
            is_sure = each.is_sure and self._is_surely_let_in(each.job, made[:place])
            told = each.first, each.latest, each.is_latest_sure
            found[each.job.number] = Remembered(later, maybe, is_sure, *told, each.job.queue)
        return found

    def kept_places(self) -> KeptPlaces:
        """Who keeps a reservation after the moment, if some of it is free: who had it before, else one who is the first
        without any doubt.
        """
        made = [each for each in self.made(after=True) if self._cluster.queues[each.job.queue].shares is not None]
        perhaps = {each.job.number for each in made if each.job.number in self._kept.perhaps}
        for each in made:
            job = each.job
            before = [one.job for one in made if one.is_firm and one.job.queue == job.queue]
            if sum(self.order.precedes(one, job) for one in before) < self._cluster.queues[job.queue].reserved:
                perhaps.add(job.number)
        is_plain = len(self._cluster.queues) == 1 and not self._cluster.kept  # nothing comes before those of the queue
        surely = {
            each.job.number
            for each in made
            if each.is_firm and perhaps == {each.job.number} and self._has_surely_gathered(each.job)
        }
        return KeptPlaces(frozenset(perhaps), frozenset(surely) if is_plain else frozenset())

    def _has_surely_gathered(self, job: PastJob) -> bool:
        """Whether some of what is reserved for it is free after the moment, on whichever hosts that is: where it wants
        all GPUs of a host, and each has a free one.
        """
        total, free = self.room.total, self._moment.free
        able = self.room.able(job, total, math.inf)
        return bool(job.gpus and able.any() and (total[able, 0] == job.gpus).all() and (free[able, 0] > 0).all())

    def _earliest(self, job: PastJob, later: Sequence[PastJob], made: Sequence[Reservation]) -> Reservation:
        """When the job fits beside those that have a reservation; at infinity when nobody knows."""
        free, ends = self.room.without(later), self.room.ends_without(later)
        edges = [self._moment.now, *(each.end for each in self._cluster.kept)]
        edges += [edge for each in made for edge in (each.start, each.end)]
        known = sorted(at for at in {*ends.tolist(), *edges} if self._moment.now <= at < math.inf)
        staying = self._unawaited(made, in_doubt=False)

        def fits_at(at: float) -> bool:
            then = self.room.free_at(at, free, ends)
            there = Reservation(job, at, self._respected_until(job, at), then, then)
            if not self.limits.admit_then(there, made, later, staying):
                return False
            return bool(self.ways.find([*made, there])) if made else self.room.fits(job, there.then, at)

        if made or self._cluster.kept:
            start = next((at for at in known if fits_at(at)), math.inf)
        else:  # there is ever more room
            first = bisect_left(known, True, key=fits_at)
            start = known[first] if first < len(known) else math.inf
        then = (
            self.room.free_at(start, free, ends)
            if start < math.inf
            else self._free_in_the_end(job, later, in_doubt=False)
        )
        least = then if start < math.inf else self._free_in_the_end(job, later, in_doubt=True)
        return Reservation(job, start, start + self._moment.lasts(job), then, least)

    def _free_in_the_end(self, job: PastJob, later: Sequence[PastJob], in_doubt: bool) -> Room:
        """What will be free once all have ended but those of which nobody knows when, and for whom the job, which has a
        reservation without a time, need not wait; `in_doubt`: nor for those who may come after it.
        """
        then, numbers = self.room.total.copy(), {each.number for each in later}
        new = self._started_since(job, in_doubt)
        for other, run in self._moment.running.values():
            is_new = other.number in new and other.number not in numbers
            if is_new and math.isinf(self._moment.known_end(other, run)):
                then[self._moment.rows_of(run)] -= self._moment.needs(other)
        return then

    def _started_since(self, job: PastJob, in_doubt: bool) -> set[int]:
        """Numbers of those that come after the job and have started since it has its reservation; `in_doubt`: of those
        that may come after it, or after who had the reservation before it: where users take turns, it goes to and fro.
        """
        before = self._reserved_before.get(job.number, NOTHING_BEFORE)
        if not in_doubt:
            return {*before.later, *(each.number for each in self.order.later(job))}
        return {
            *before.maybe_later,
            *(each.number for each in self.order.maybe_later(job)),
            *self._handed_on(job),
        }

    def _handed_on(self, job: PastJob) -> frozenset[int]:
        """Numbers of those that may have started since others have the reservation with whose users the job's takes
        turns: it may have become the job's.
        """
        found = frozenset[int]()
        if self._cluster.queues[job.queue].shares is not None:
            for other in self.order.waiting:
                if other.user != job.user and is_alike(other, job) and other.number in self._reserved_before:
                    found |= self._reserved_before[other.number].maybe_later
        return found

    def _unawaited(self, made: Iterable[Reservation], in_doubt: bool) -> set[int]:
        """Numbers of those for whom one of these that start nobody knows when need not wait."""
        found: set[int] = set()
        return found.union(*(self._started_since(each.job, in_doubt) for each in made if math.isinf(each.start)))

    def beside_those_between(
        self, reserved: Sequence[Reservation], later: Sequence[PastJob], after: bool
    ) -> list[Reservation]:
        """The reservations beside those that started at the moment and come after them, but before the later ones."""
        if after:
            return list(reserved)  # they count all who started
        numbers = {each.number for each in later}
        found = []
        for each in reserved:
            versions = each.versions()
            copied = [replace(version, then=version.then.copy(), least=version.least.copy()) for version in versions]
            for other in self.order.later(each.job):
                for version in copied if other.number not in numbers else ():
                    if version.is_met_by(self.room.known_end(other)):
                        for room in (version.then, version.least):
                            room[self.room.rows_of(other)] -= self._moment.needs(other)
            found.append(copied[0] if each.held is None else replace(copied[0], held=copied[1]))
        return found
