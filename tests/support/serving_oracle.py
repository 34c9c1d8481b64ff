"""Whether jobs were served in order and no GPU was left idle for nothing: a judge of what happened, from these words.

    Jobs of a queue are served in order: larger -sp first, then in order of submission (in a fairshare queue by the turn
    of their users). A job is not started while an older one of the same queue, which could have started then on what is
    free (its own limits and requirement included), waits. A job that cannot start may be passed by later ones only if
    they delay no job that has a reservation: with `easy` the first waiting job of the queue, with `conservative` the
    first N. A GPU is not left idle while a job waits that fits on it and delays none of those.

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
are no hosts any more for all of them, in whichever way; of jobs of several queues only the first is judged. Somebody
could have started only on hosts that have room for him and for each of those that could be there.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from tests.support.serving_history import Moment, PastCluster, PastJob, Room, moments

Mask = npt.NDArray[np.bool_]
HOUR_S = 3600.0
SAME_TURN = 1e-9
"""Dynamic priorities that differ by so small a part are equal but for rounding."""
MOST_WAYS = 100
"""In which several reservations are tried on the hosts."""


@dataclass(frozen=True, slots=True)
class Inversion:
    """A start that should not have been."""

    at: float
    job: int
    older: int
    """Who came before it and waits on."""
    delayed: bool
    """The older one could not have started then, but has a reservation that is put off."""

    def __str__(self) -> str:
        what = "whose reservation it puts off" if self.delayed else "which could have started instead"
        return f"job {self.job} started at {self.at:g} before job {self.older}, {what} and waits on"


@dataclass(frozen=True, slots=True)
class IdleGpus:
    """GPUs that waiting jobs could have used from `at` to `until`; the first of these jobs."""

    at: float
    until: float
    gpus: int
    job: int

    @property
    def gpu_seconds(self) -> float:
        return self.gpus * (self.until - self.at)

    def clipped(self, until: float) -> IdleGpus:
        """The part of it before that time."""
        return replace(self, until=min(self.until, until))

    def __str__(self) -> str:
        return f"{self.gpus} GPUs were idle from {self.at:g} to {self.until:g} while job {self.job} waited"


@dataclass(slots=True)
class _Reservation:
    """The job fits at `start`, when `then` is free, and not before."""

    job: PastJob
    start: float
    end: float
    then: Room
    """Without the other reservations."""
    least: Room
    """The same, if nobody waits for those who may come after the job."""
    is_sure: bool = True
    """Not only one of those who may have it, as it was somebody's turn or not."""
    one_by_one: list[_Reservation] = field(default_factory=list)
    """What it could be if hosts are chosen for those before it, in one way or another, and then for it."""
    first: float = math.inf
    """The earliest start that was ever told."""
    latest: float | None = None
    """The latest start, once it was said."""
    is_latest_sure: bool = True
    held: _Reservation | None = None
    """The same at its latest start, where others may put it off so long; None: they may not."""
    is_held_for_sure: bool = False
    """Not only where it is in doubt whether it rests on an estimate."""

    def versions(self) -> list[_Reservation]:
        return [self] if self.held is None else [self, self.held]

    def is_there(self, at: float) -> bool:
        """Whether the job runs then. At infinity those do of which nobody knows when they end."""
        return self.start <= at and (at < self.end or math.isinf(self.end))

    def is_met_by(self, end: float) -> bool:
        """Whether one that starts now and runs until `end` still runs when the job starts."""
        return self.start < end or math.isinf(end)


@dataclass(frozen=True, slots=True)
class _Before:
    """What is remembered of a job that has a reservation, while it has it."""

    later: frozenset[int]
    """Numbers of those that come after it and have started since."""
    maybe_later: frozenset[int]
    """And of those that may come after it."""
    is_sure: bool
    """It had it for sure, and limits let it in for sure when it got it."""
    first: float = math.inf
    """The earliest start that was told."""
    latest: float | None = None
    """The latest start."""
    is_latest_sure: bool = True
    queue: str = ""


NOTHING_BEFORE = _Before(frozenset(), frozenset(), is_sure=True)


class _Refused:
    """Needs that could not be met: who needs the same for as long or longer, and comes later, cannot have it either."""

    def __init__(self) -> None:
        self._least: dict[tuple[int, int, int, frozenset[str] | None], float] = {}

    def add(self, job: PastJob, lasts: float) -> None:
        needs = job.hosts, job.gpus, job.slots, job.usable
        self._least[needs] = min(lasts, self._least.get(needs, math.inf))

    def holds(self, job: PastJob, lasts: float) -> bool:
        least = self._least.get((job.hosts, job.gpus, job.slots, job.usable))
        return least is not None and lasts >= least


@dataclass(frozen=True, slots=True)
class Verdict:
    inversions: tuple[Inversion, ...]
    """One for each start that should not have been."""
    idle: tuple[IdleGpus, ...]

    @property
    def idle_gpu_seconds(self) -> float:
        return sum(each.gpu_seconds for each in self.idle)


def judge(cluster: PastCluster, jobs: Iterable[PastJob], *, until: float = math.inf, grace_s: float = 0.0) -> Verdict:
    """What is wrong in the history up to `until`. `grace_s`: GPUs that are idle for no longer are not told."""
    inversions: list[Inversion] = []
    idle: list[IdleGpus] = []
    before: dict[int, _Before] = {}
    for moment in moments(cluster, list(jobs)):
        if moment.now > until:
            break
        if not moment.waiting:
            before.clear()
            continue
        ruling = _Ruling(moment, before)
        if moment.started:
            inversions += ruling.inversions()
        if min(moment.until, until) - moment.now > grace_s:
            found = ruling.idle(min(moment.until, until))
            idle += [found] if found else []
        before = ruling.to_remember()
    return Verdict(tuple(inversions), tuple(idle))


class _Ruling:
    """On one moment."""

    def __init__(self, moment: Moment, before: Mapping[int, _Before]) -> None:
        """`before`: by number, jobs that had a reservation before the moment."""
        self._moment = moment
        self._reserved_before = before
        self._cluster = moment.cluster
        self._taken: Counter[str] = Counter()
        """Limit -> jobs that count in it and could have started besides."""
        self._masks: dict[frozenset[str], Mask] = {}
        self._turns: dict[tuple[str, str, bool], float] = {}
        self._total: Room = np.array(list(self._cluster.hosts.values()), np.int64).reshape(-1, 2)
        self._is_fair = any(queue.shares is not None for queue in self._cluster.queues.values())
        self._started = sorted(moment.started, key=self._place)
        self._places = [self._place(job) for job in self._started]
        able = [job for job in moment.waiting.values() if not moment.is_held(job)]
        self._waiting = sorted(able, key=self._place)
        self._parts = self._parts_running()
        self._said_before: dict[int, _Before] = {}
        """By number, what was said of those that have a reservation before later jobs started at the moment."""
        for each in self._reserved(after=False) if any(q.plan_delay for q in self._cluster.queues.values()) else ():
            told = each.first, each.latest, each.is_latest_sure
            self._said_before[each.job.number] = _Before(frozenset(), frozenset(), False, *told)

    def _parts_running(
        self,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Room, npt.NDArray[np.float64]]:
        """Of each part of a running job: the job's number, its host's row, what it holds, its known end."""
        moment = self._moment
        parts = [
            (number, row, moment.needs(job), moment.known_end(job, run))
            for number, (job, run) in moment.running.items()
            for row in moment.rows_of(run)
        ]
        numbers = np.array([each[0] for each in parts], np.int64)
        rows = np.array([each[1] for each in parts], np.int64)
        needs = np.array([each[2] for each in parts], np.int64).reshape(-1, 2)
        return numbers, rows, needs, np.array([each[3] for each in parts], np.float64)

    # -- order ----------------------------------------------------------------------------------------------------

    def _place(self, job: PastJob) -> tuple[float, ...]:
        """The place in the serving order, after the moment."""
        queue = self._cluster.queues[job.queue]
        turn = 0.0 if queue.shares is None else -self._turn(job, before=False)
        return -queue.priority, turn, -job.priority, job.submitted, job.number

    def _precedes(self, one: PastJob, other: PastJob) -> bool:
        """Whether the one comes before the other without any doubt."""
        first, second = self._cluster.queues[one.queue], self._cluster.queues[other.queue]
        if first.priority != second.priority:
            return first.priority > second.priority
        if first.shares is not None or second.shares is not None:
            if one.queue != other.queue:
                return False
            if one.user != other.user:
                return self._turn(one, before=False) > self._turn(other, before=True) * (1 + SAME_TURN)
        return (-one.priority, one.submitted, one.number) < (-other.priority, other.submitted, other.number)

    def _turn(self, job: PastJob, *, before: bool) -> float:
        """The dynamic priority of its user in its queue, before or after what was started at the moment."""
        key = job.queue, job.user, before
        if key not in self._turns:
            queue, now = self._cluster.queues[job.queue], self._moment.now
            assert queue.shares is not None
            load = queue.factors["job"]
            for other, run in self._moment.running.values():
                if (other.queue, other.user) == (job.queue, job.user) and not (before and run.start == now):
                    hours = (now - run.start) / HOUR_S
                    load += queue.factors["job"] * other.slots * other.hosts
                    load += hours * (
                        queue.factors["run_time"] + queue.factors["gpu_run_time"] * other.gpus * other.hosts
                    )
            self._turns[key] = queue.shares.get(job.user, 0) / load
        return self._turns[key]

    def _later(self, job: PastJob) -> list[PastJob]:
        """Who started at this moment though the job comes before him."""
        if not self._is_fair:
            return self._started[bisect_right(self._places, self._place(job)) :]
        return [each for each in self._started if self._precedes(job, each)]

    def _maybe_later(self, job: PastJob) -> list[PastJob]:
        """Who started at this moment and does not come before the job for sure."""
        return [each for each in self._started if not self._precedes(each, job)]

    def _is_let_in(self, job: PastJob, without: Sequence[PastJob]) -> bool:
        """Whether limits on jobs admit it, were it not for some that have started."""
        counts, most = self._moment.counts, self._cluster.most_jobs
        return all(
            counts[name] - sum(name in each.counts_in for each in without) < most[name]
            for name in job.counts_in
            if name in most
        )

    def _may_be_planned(self, job: PastJob) -> bool:
        """Whether the job may have a reservation: limits let it in when its turn came, or did when it got it."""
        return job.number in self._reserved_before or self._is_let_in(job, self._maybe_later(job))

    def _is_surely_let_in(self, job: PastJob, made: Iterable[_Reservation]) -> bool:
        """Whether limits let it in, and none of the others takes its place in one if it has a reservation."""
        before = self._reserved_before.get(job.number)
        is_let_in = self._is_let_in(job, self._later(job)) or (before is not None and before.is_sure)
        others = [each.job for each in made if not each.is_sure and each.job is not job]
        return is_let_in and not any(name in each.counts_in for each in others for name in self._limits_of(job))

    def _limits_of(self, job: PastJob) -> list[str]:
        return [name for name in job.counts_in if name in self._cluster.most_jobs]

    def _counted_at(self, name: str, at: float, without: Sequence[PastJob]) -> int:
        """How many of the jobs that run count in the limit then; at infinity those whose end nobody knows."""
        running = [each for each in self._moment.running.values() if each[0] not in without]
        counting = [each for each in running if name in each[0].counts_in]
        ends = [self._moment.known_end(job, run) for job, run in counting]
        return sum(end > at or math.isinf(end) for end in ends)

    def _is_let_in_at(self, there: _Reservation, made: Sequence[_Reservation], without: Sequence[PastJob]) -> bool:
        """Whether limits on jobs will admit it beside the others, and leave those that start later what they take."""
        starts = [
            there.start,
            *(each.start for each in made if there.start < each.start and there.is_there(each.start)),
        ]
        return all(
            self._counted_at(name, at, without) + sum(name in each.job.counts_in and each.is_there(at) for each in made)
            < self._cluster.most_jobs[name]
            for name in self._limits_of(there.job)
            for at in starts
        )

    def _takes_a_limit(self, job: PastJob, reserved: Sequence[_Reservation], without: Sequence[PastJob]) -> bool:
        """Whether one of those before it could find too little left of a limit if the job starts now."""
        end = self._moment.now + self._moment.lasts(job)
        return any(
            name in each.job.counts_in
            and self._meets(job, end, each)
            and self._counted_at(name, each.start, without)
            + self._taken[name]
            + sum(name in other.job.counts_in and other.is_there(each.start) for other in reserved)
            >= self._cluster.most_jobs[name]
            for name in self._limits_of(job)
            for each in reserved
        )

    # -- room -----------------------------------------------------------------------------------------------------

    def _able(self, job: PastJob, free: Room, at: float) -> Mask:
        """Hosts that could take a part of the job from then on. At infinity no advance reservation is left."""
        able: Mask = np.logical_and(free[:, 0] >= job.gpus, free[:, 1] >= job.slots)
        for kept in self._cluster.kept:
            if at < kept.end and kept.start < at + self._moment.lasts(job):
                able = np.logical_and(able, [name not in kept.hosts for name in self._moment.rows])
        if job.usable is not None:
            mask = self._masks.get(job.usable)
            if mask is None:
                mask = self._masks[job.usable] = np.array([name in job.usable for name in self._moment.rows])
            able = np.logical_and(able, mask)
        return able

    def _fits(self, job: PastJob, free: Room, at: float) -> bool:
        return int(self._able(job, free, at).sum()) >= job.hosts

    def _rows(self, job: PastJob) -> list[int]:
        return self._moment.rows_of(self._moment.running[job.number][1])

    def _known_end(self, job: PastJob) -> float:
        return self._moment.known_end(*self._moment.running[job.number])

    def _without(self, later: Sequence[PastJob]) -> Room:
        """What is free if these had not started."""
        free = self._moment.free.copy()
        for each in later:
            free[self._rows(each)] += self._moment.needs(each)
        return free

    # -- reservations ---------------------------------------------------------------------------------------------

    def _reserved(self, *, after: bool) -> list[_Reservation]:
        """The reservations as they were before later jobs started at the moment, or `after` all that started."""
        left = {name: queue.reserved for name, queue in self._cluster.queues.items()}
        seen: set[tuple[str, str]] = set()
        made: list[_Reservation] = []
        for job in self._waiting:
            if not any(left.values()) and not self._is_fair:
                break
            later = [] if after else self._later(job)
            is_fair = self._cluster.queues[job.queue].shares is not None
            may_have_it = (job.queue, job.user) not in seen if is_fair else left[job.queue] > 0
            if may_have_it and self._fits(job, self._total, math.inf) and self._may_be_planned(job):
                is_let_in = self._is_surely_let_in(job, made)
                left[job.queue] -= is_let_in
                seen.add((job.queue, job.user))
                sure = self._with_those_between([each for each in made if each.is_sure], later, after)
                doubts = (each.job for each in made if not each.is_sure and not self._precedes(job, each.job))
                is_sure = not is_fair and is_let_in and next(doubts, None) is None
                found = replace(self._earliest(job, later, sure), is_sure=is_sure)
                found.one_by_one = self._one_by_one(found, later, sure) if sure else []
                told = [found.start]
                if any(each.held for each in sure):
                    owed = self._owed(job, sure, for_sure=False)
                    other = self._earliest(job, later, owed)
                    told.append(other.start)
                    found.one_by_one += self._one_by_one(other, later, owed)
                self._say(found, told, later, sure, after)
                if math.isinf(found.start) and not self._is_let_in_in_the_end(job, later, sure):
                    found.is_sure = False  # and so may the next one have it
                    left[job.queue] += is_let_in
                if found.start < math.inf or self._has_place(found, sure):
                    made.append(found)
                elif sure and self._has_place(found, []):  # as they end, too, it may have something all the same
                    made.append(replace(found, is_sure=False))
        return made

    def _say(
        self,
        found: _Reservation,
        told: Sequence[float],
        later: Sequence[PastJob],
        made: Sequence[_Reservation],
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
            latest = [each.latest for each in others if each.latest is not None and each.queue == found.job.queue]
            found.latest = min(latest, default=None)
        if not queue.plan_delay or math.isinf(found.start) or not any(each.limit_s is None for each in last):
            return
        if found.latest is None:
            found.latest = found.start + queue.plan_delay * (found.start - self._moment.now)
            found.is_latest_sure &= all(each.limit_s is None for each in last)
        if found.latest > found.start:
            end = found.latest + self._moment.lasts(found.job)
            then = self._free_at(found.latest, self._without(later), self._ends_without(later))
            found.held = replace(found, start=found.latest, end=end, then=then, least=then, one_by_one=[])
            found.is_held_for_sure = found.is_latest_sure and all(each.limit_s is None for each in last)
            if not self._fits(found.job, then, found.latest):
                found.held, found.is_held_for_sure = None, False

    def _last_awaited(
        self, found: _Reservation, later: Sequence[PastJob], made: Iterable[_Reservation]
    ) -> list[PastJob]:
        """Those at whose ends it starts, of whom it waits for one."""
        running = self._moment.running.values()
        last = [job for job, run in running if job not in later and self._moment.known_end(job, run) == found.start]
        return [*last, *(each.job for one in made for each in one.versions() if each.end == found.start)]

    def _owed(self, job: PastJob, reserved: Iterable[_Reservation], *, for_sure: bool) -> list[_Reservation]:
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

    def _meets(self, job: PastJob, end: float, each: _Reservation) -> bool:
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

    def _one_by_one(
        self, found: _Reservation, later: Sequence[PastJob], made: Sequence[_Reservation]
    ) -> list[_Reservation]:
        """See `_Reservation.one_by_one`; those in which it has no place are left out."""
        free, ends, needs = self._without(later), self._ends_without(later), self._moment.needs
        edges = [found.start, *ends.tolist(), *(edge for each in made for edge in (each.start, each.end))]
        times = sorted(at for at in {*edges, math.inf} if at >= found.start)
        in_the_end = self._free_in_the_end(found.job, later, in_doubt=True)
        variants = []
        for way in self._ways(made):
            for at in times if way is not None else ():
                end, until = at + self._moment.lasts(found.job), self._respected_until(found.job, at)
                known = at < math.inf
                then = self._free_at(at, free, ends) if known else in_the_end.copy()
                for other, rows in way or ():
                    if other.is_there(at) or (at < other.start and (other.start < until or math.isinf(until))):
                        then[list(rows)] -= needs(other.job)
                if self._fits(found.job, then, at):
                    variants.append(replace(found, start=at, end=end, then=then, least=then))
                    break
        return variants

    def _has_place(self, found: _Reservation, made: Sequence[_Reservation]) -> bool:
        """Whether one without a time finds a place beside the others once all have ended; else it has nothing."""
        limits, queue = self._cluster.most_jobs, self._cluster.queues[found.job.queue]
        is_let_in = all(
            sum(name in each.job.counts_in and each.is_there(math.inf) for each in made) < limits[name]
            for name in self._limits_of(found.job)
        )
        if not (queue.reserves_without_time and is_let_in and self._fits(found.job, found.then, math.inf)):
            return False
        return self._find_hosts([*made, found]) is not False

    def _is_let_in_in_the_end(self, job: PastJob, later: Sequence[PastJob], made: Sequence[_Reservation]) -> bool:
        """Whether it is known that limits will let the job in: where nobody knows, it may have nothing."""
        return all(
            self._counted_at(name, math.inf, later)
            + sum(name in each.job.counts_in and each.is_there(math.inf) for each in made)
            < self._cluster.most_jobs[name]
            for name in self._limits_of(job)
        )

    def to_remember(self) -> dict[int, _Before]:
        """By number, those that have a reservation after the moment."""
        found: dict[int, _Before] = {}
        made = self._reserved(after=True)
        for place, each in enumerate(made):
            before = self._reserved_before.get(each.job.number, NOTHING_BEFORE)
            # Who starts while it is in doubt whether the job has a reservation delays nothing for sure.
            later = before.later | {other.number for other in self._later(each.job) if each.is_sure}
            if any(other.job.queue != each.job.queue for other in made[:place]):
                later = frozenset()  # it may have to look for another place, and waits for those who are there
            maybe = before.maybe_later | {other.number for other in self._maybe_later(each.job)}
            is_sure = each.is_sure and self._is_surely_let_in(each.job, made[:place])
            told = each.first, each.latest, each.is_latest_sure
            found[each.job.number] = _Before(later, maybe, is_sure, *told, each.job.queue)
        return found

    def _earliest(self, job: PastJob, later: Sequence[PastJob], made: Sequence[_Reservation]) -> _Reservation:
        """When the job fits beside those that have a reservation; at infinity when nobody knows."""
        free, ends = self._without(later), self._ends_without(later)
        edges = [self._moment.now, *(each.end for each in self._cluster.kept)]
        edges += [edge for each in made for edge in (each.start, each.end)]
        known = sorted(at for at in {*ends.tolist(), *edges} if self._moment.now <= at < math.inf)

        def fits_at(at: float) -> bool:
            then = self._free_at(at, free, ends)
            there = _Reservation(job, at, self._respected_until(job, at), then, then)
            if not self._is_let_in_at(there, made, later):
                return False
            return bool(self._find_hosts([*made, there])) if made else self._fits(job, there.then, at)

        if made or self._cluster.kept:
            start = next((at for at in known if fits_at(at)), math.inf)
        else:  # there is ever more room
            first = bisect_left(known, True, key=fits_at)
            start = known[first] if first < len(known) else math.inf
        then = (
            self._free_at(start, free, ends) if start < math.inf else self._free_in_the_end(job, later, in_doubt=False)
        )
        least = then if start < math.inf else self._free_in_the_end(job, later, in_doubt=True)
        return _Reservation(job, start, start + self._moment.lasts(job), then, least)

    def _find_hosts(self, reserved: Sequence[_Reservation]) -> bool | None:
        """Whether there are hosts for all of them; None if too many ways were tried in vain, the tightest first."""
        first = next(self._ways(reserved), False)
        return first if first is None or first is False else True

    def _ways(self, reserved: Sequence[_Reservation]) -> Iterator[list[tuple[_Reservation, tuple[int, ...]]] | None]:
        """How they can be on the hosts, as rows of each; None in the end if there are too many ways to try all."""
        known = [each for each in reserved if each.start < math.inf or self._fits(each.job, each.then, each.start)]
        tries = MOST_WAYS

        def go_on(rows: list[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
            nonlocal tries
            if len(rows) == len(known):
                yield rows
                return
            each = known[len(rows)]
            placed = list(zip(known, rows, strict=False))
            then = self._beside(each, each.start, placed)
            able, order = self._able(each.job, then, each.start), np.argsort(then[:, 0], kind="stable")
            for other, _ in placed:
                if each.start < other.start and each.is_there(other.start):
                    beside = self._beside(other, other.start, placed)
                    able = np.logical_and(able, self._able(each.job, beside, each.start))
            for found in combinations([int(row) for row in order if able[row]], each.job.hosts):
                if tries <= 0:
                    return
                tries -= 1
                yield from go_on([*rows, found])

        for rows in go_on([]):
            yield list(zip(known, rows, strict=True))
        if tries <= 0:
            yield None

    def _beside(
        self, reserved: _Reservation, at: float, placed: Sequence[tuple[_Reservation, tuple[int, ...]]]
    ) -> Room:
        """What is free when the reservation starts, beside others on these rows."""
        then = reserved.then.copy()
        for other, rows in placed:
            if other.is_there(at):
                then[list(rows)] -= self._moment.needs(other.job)
        return then

    def _ends_without(self, later: Sequence[PastJob]) -> npt.NDArray[np.float64]:
        """When parts of jobs are known to end; those of later ones do not count."""
        numbers, _, _, ends = self._parts
        return np.where(np.isin(numbers, [each.number for each in later]), math.inf, ends) if later else ends

    def _free_at(self, at: float, free: Room, ends: npt.NDArray[np.float64]) -> Room:
        """What is free from `at` on without reservations, as far as anybody knows."""
        _, rows, needs, _ = self._parts
        over = (ends <= at) & (ends < math.inf)
        then = free.copy()
        np.add.at(then, rows[over], needs[over])
        return then

    def _free_in_the_end(self, job: PastJob, later: Sequence[PastJob], in_doubt: bool) -> Room:
        """What will be free once all have ended but those of which nobody knows when, and for whom the job, which has a
        reservation without a time, need not wait; `in_doubt`: nor for those who may come after it.
        """
        then, numbers = self._total.copy(), {each.number for each in later}
        before = self._reserved_before.get(job.number, NOTHING_BEFORE)
        if in_doubt:
            new = before.maybe_later | {each.number for each in self._maybe_later(job)}
        else:
            new = before.later | {each.number for each in self._later(job)}
        for other, run in self._moment.running.values():
            is_new = other.number in new and other.number not in numbers
            if is_new and math.isinf(self._moment.known_end(other, run)):
                then[self._moment.rows_of(run)] -= self._moment.needs(other)
        return then

    def _delayed(self, job: PastJob, rows: Sequence[int], reserved: Iterable[_Reservation]) -> _Reservation | None:
        """Whose reservation the job puts off if it starts now on these hosts."""
        end = self._moment.now + self._moment.lasts(job)
        for each in reserved:
            if self._meets(job, end, each):
                then = each.then.copy()
                then[list(rows)] -= self._moment.needs(job)
                if not self._fits(each.job, then, each.start):
                    return each
        return None

    def _harmless(
        self, job: PastJob, free: Room, reserved: Sequence[_Reservation], without: Sequence[PastJob] = ()
    ) -> list[int]:
        """Hosts on which the job could start now without a delay for these, who come before it; empty for none.

        `without`: who has not started.
        """
        reserved = self._owed(job, reserved, for_sure=True)
        able = self._able(job, free, self._moment.now)
        if int(able.sum()) < job.hosts:
            return []
        end, harm = self._moment.now + self._moment.lasts(job), np.zeros(len(free), np.int64)
        for each in reserved:
            if self._meets(job, end, each):
                takes = self._takes_place(job, each, each.then)
                if math.isinf(each.start):  # whoever of those in doubt is waited for
                    takes |= self._takes_place(job, each, each.then, each.least)
                    takes |= self._takes_place(job, each, self._total)
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
        if self._delayed(job, rows, [*reserved, *ways]) or self._takes_a_limit(job, reserved, without):
            return []
        return rows if len(reserved) < 2 or self._has_room_for_all(job, rows, reserved) else []

    def _takes_place(self, job: PastJob, reserved: _Reservation, room: Room, least: Room | None = None) -> Mask:
        """Hosts on which a part of the job leaves too little to one that has a reservation, of what may be only `least`
        there.
        """
        beside = self._able(reserved.job, (room if least is None else least) - self._moment.needs(job), reserved.start)
        taken: Mask = np.logical_and(self._able(reserved.job, room, reserved.start), ~beside)
        return taken

    def _has_room_for_all(self, job: PastJob, rows: Sequence[int], reserved: Sequence[_Reservation]) -> bool:
        """Whether the hosts have room for the job and each of those that could be there, whichever are."""
        end, beside = self._moment.now + self._moment.lasts(job), []
        for each in reserved:
            then = each.then.copy() if each.start < math.inf else np.minimum(each.then, each.least)
            if self._meets(job, end, each):
                then[list(rows)] -= self._moment.needs(job)
                left = then.copy()
                for other in reserved:
                    left[self._able(other.job, each.then, other.start)] -= self._moment.needs(other.job)
                if (left[list(rows)] < 0).any():
                    return False
            beside.append(replace(each, then=then))
        return bool(self._find_hosts(beside))

    # -- rulings --------------------------------------------------------------------------------------------------

    def inversions(self) -> list[Inversion]:
        """Starts of the moment that should not have been."""
        reserved = self._reserved(after=False)
        found = self._passed(reserved)
        sure = [each for each in reserved if each.is_sure]
        for number, each in enumerate(sure):
            if any(one.job.queue != each.job.queue for one in sure[:number]):
                break
            if math.isinf(each.start) and not (
                self._fits(each.job, each.then, each.start) and self._find_hosts(sure[: number + 1])
            ):
                continue  # what kept it from a place happened before
            is_put_off = False
            for later in self._later(each.job):
                (owed,), end = self._owed(later, [each], for_sure=False), self._known_end(later)
                if later.number in found or (owed is each and is_put_off) or not each.is_latest_sure:
                    continue
                is_put_off |= owed is not each and self._meets(later, end, each)
                if not self._meets(later, end, owed):
                    continue
                then = owed.then.copy()
                then[self._rows(later)] -= self._moment.needs(later)
                has_room = self._fits(each.job, then, owed.start)
                if not has_room or self._find_hosts([*sure[:number], replace(owed, then=then)]) is False:
                    found[later.number] = Inversion(self._moment.now, later.number, each.job.number, delayed=True)
                elif owed.is_met_by(end):
                    owed.then[:] = then  # beside it the next one may delay
        return list(found.values())

    def _passed(self, reserved: Sequence[_Reservation]) -> dict[int, Inversion]:
        """Who started though an older job waits that could have started instead."""
        found: dict[int, Inversion] = {}
        refused = _Refused()
        for job in self._waiting:
            later = self._later(job)
            if not later and not self._is_fair:
                break  # nor has anybody after him a later one
            lasts = self._moment.lasts(job)
            if not later or not self._is_let_in(job, later) or (refused.holds(job, lasts) and not self._is_fair):
                continue
            if not self._could_start(job, later, reserved):
                refused.add(job, lasts)  # those after it could have even less
            else:
                for each in later:
                    if self._could_use(job, each):
                        inversion = Inversion(self._moment.now, each.number, job.number, delayed=False)
                        found.setdefault(each.number, inversion)
        return found

    def _could_start(self, job: PastJob, later: Sequence[PastJob], reserved: Sequence[_Reservation]) -> bool:
        """Whether the job could have started instead of later ones, without a delay for those before it."""
        free = self._without(later)
        if not self._fits(job, free, self._moment.now):
            return False
        before = [each for each in reserved if each.job is not job and not self._precedes(job, each.job)]
        return bool(self._harmless(job, free, self._with_those_between(before, later, False), later))

    def _with_those_between(
        self, reserved: Sequence[_Reservation], later: Sequence[PastJob], after: bool
    ) -> list[_Reservation]:
        """The reservations beside those that started at the moment and come after them, but before the later ones."""
        if after:
            return list(reserved)  # they count all who started
        numbers = {each.number for each in later}
        found = []
        for each in reserved:
            copied = [replace(version, then=version.then.copy()) for version in each.versions()]
            for other in self._later(each.job):
                for version in copied if other.number not in numbers else ():
                    if version.is_met_by(self._known_end(other)):
                        version.then[self._rows(other)] -= self._moment.needs(other)
            found.append(copied[0] if each.held is None else replace(copied[0], held=copied[1]))
        return found

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
        reserved = self._reserved(after=True)
        refused = _Refused()
        gpus, first = 0, 0
        for job in self._waiting:
            lasts = self._moment.lasts(job)
            if not job.gpus or not self._has_left(job) or (refused.holds(job, lasts) and not self._is_fair):
                continue
            before = [each for each in reserved if each.job is not job and not self._precedes(job, each.job)]
            rows = self._harmless(job, free, before)
            if not rows:
                refused.add(job, lasts)
            else:
                free[rows] -= self._moment.needs(job)
                for each in (version for one in before for version in one.versions()):
                    if each.is_met_by(self._moment.now + lasts):
                        each.then[rows] -= self._moment.needs(job)
                self._taken.update(job.counts_in)
                reserved = [each for each in reserved if each.job is not job]
                gpus, first = gpus + job.gpus * job.hosts, first or job.number
        return IdleGpus(self._moment.now, until, gpus, first) if gpus else None

    def _has_left(self, job: PastJob) -> bool:
        """Whether limits on jobs admit it beside those that were taken to start."""
        most, counts = self._cluster.most_jobs, self._moment.counts
        return all(counts[name] + self._taken[name] < most[name] for name in job.counts_in if name in most)
