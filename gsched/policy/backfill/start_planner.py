"""Where and when a job that cannot start now could start: a bounded search over hosts and the times things get free.

It asks a trial whether the job fits on the ledger of a later time, and enters nothing. Ties go by time, then by name.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import numpy.typing as npt

from gsched.base.coded_text import AnyText, coded
from gsched.model.jobs.reason import NEVER, UNKNOWN
from gsched.model.queues.container import RUNTIMES_RESOURCE
from gsched.model.scheduling.snapshot import Bucket
from gsched.policy.backfill.asks_fit import AsksFit, HostMask
from gsched.policy.backfill.planned_fit import PlannedFit
from gsched.policy.backfill.planned_reasons import OTHER_PLANNED, blocker, last_estimate
from gsched.policy.future.bookings import Booking
from gsched.policy.future.future_ledgers import Future
from gsched.policy.future.future_limits import LimitsAhead
from gsched.policy.future.least_needs import Need, alone_of
from gsched.policy.future.release_table import Floats
from gsched.policy.future.releases import Releases
from gsched.policy.match.value_conditions import UNSATISFIED
from gsched.policy.order.queue_class import kind_of
from gsched.policy.requirement.demand import Demand
from gsched.policy.requirement.reasons import Reason

MOST_HOSTS = 256
"""Hosts that one search looks at: those where enough could be free first."""
MOST_TIMES = 64
"""Times at which one host is tried."""
MOST_UNKNOWN = 32
"""Hosts that are tried when no end is known."""
MOST_SLIP_S = 30.0
"""A plan that has to be put off by no more than this keeps its place."""
OTHERS_FIRST = coded(UNKNOWN, coded("planned.others_first"))
CLOSES_FIRST = coded(UNKNOWN, coded("planned.closes_first"))
_LASTING = frozenset(
    {"type", "model", "hname", "cpuf", "ncpus", "nprocs", "ncores", "nthreads", "ostype", "osrel", "osver", "ndisks"}
    | {"maxmem", "maxswp", "maxtmp", "maxslots", RUNTIMES_RESOURCE}
)
"""Resources whose values do not change by themselves; of others nobody knows what they will be."""
MOST_TRIALS = 16
"""Times at which a set of hosts is tried."""


class Planner:
    """The search, for one cycle."""

    def __init__(self, future: Future, trial: AsksFit, ahead: LimitsAhead | None = None) -> None:
        self._future = future
        self._ahead = ahead if ahead is not None else LimitsAhead(future, None)
        self._snapshot = future.snapshot
        self._trial = trial
        self.fit = PlannedFit(future, trial, self._ahead)
        self._known: Releases | None = None
        self.searches = 0

    def rests_on(self, booking: Booking) -> tuple[AnyText, bool]:
        """What its time, which is known, rests on besides run limits (empty when there is nothing), and whether nobody
        is sure when it starts, since the last that it waits for has no run limit.
        """
        found = last_estimate(self._future, self._ahead, booking)
        return ("", False) if found is None else (found[1], found[0] >= booking.start)

    # -- keeping a plan -------------------------------------------------------------------------------------------

    def slipped(self, booking: Booking) -> Booking | None:
        """A plan of the cycle before, if need be a little later: jobs that it waits for started a little late."""
        if self.fit.fits(booking):
            return booking
        hosts = [part.host for part in booking.allocation.parts]
        last = booking.start + MOST_SLIP_S
        ends = {end for host in hosts for end in self._future.releases(host) if booking.start < end <= last}
        for end in sorted(ends)[:MOST_TRIALS]:
            moved = replace(
                self.fit.booking(booking.job_id, booking.bucket, booking.allocation, end), later=booking.later
            )
            if self.fit.fits(moved):
                return moved
        return None

    def earlier(self, kept: Booking, demand: Demand) -> Booking | None:
        """The plan, which still fits, moved to an earlier time if its hosts get free earlier by now; None where one of
        them is no longer the queue's.
        """
        hosts = [part.host for part in kept.allocation.hosts]
        if any(self._trial.is_outside(kept.bucket, demand, host) for host in hosts):
            return None
        held = [part.host for part in kept.allocation.parts]
        free = [*self._ahead.times(kept.bucket), *(end for host in held for end in self._future.releases(host))]
        ends = {end for end in free if self._future.now < end < kept.start}
        needs = self._trial.needs(kept.bucket, demand) if ends and len(held) == 1 else []
        for end in sorted(ends, reverse=True)[:MOST_TRIALS]:
            start, booked = self.fit.start_after(end), self._future.booked(hosts[0])
            if needs and not _is_room(self._free_by(hosts[0], start), needs, start, hosts[0], booked):
                break
            found = self.fit.try_at(kept.job_id, kept.bucket, demand, hosts, end)
            if found is None or found.start >= kept.start:
                break
            kept = found
        return kept

    def _free_by(self, host: str, at: float) -> tuple[float, float]:
        """(slots, devices) that are free on the host when all has ended that ends by the time."""
        host_ledger = self._snapshot.ledger.host(host)
        slots, gpus = (
            math.inf if host_ledger.free_slots is None else host_ledger.free_slots,
            len(host_ledger.gpus) - len(host_ledger.holders),
        )
        for key, part in host_ledger.held.items():
            if self._future.end_of(host, key, part) <= at:
                slots += 0 if key in host_ledger.suspended else part.slots
                gpus += len(part.gpus)
        return slots, gpus

    def elsewhere(self, planned: Booking, demand: Demand) -> Booking | None:
        """The job at the same time on other hosts; None if it cannot be. It must not be booked."""
        usable, needs = self._usable(planned.bucket, demand), self._trial.needs(planned.bucket, demand)
        self._releases()
        hosts = self._givers(needs, usable, planned.start)
        found = self.fit.try_at(planned.job_id, planned.bucket, demand, hosts, planned.start)
        return found if found is not None and found.start <= planned.start else None

    # -- searching ------------------------------------------------------------------------------------------------

    def _releases(self) -> Releases:
        if self._known is None:
            self._known = Releases.of(self._future)
        else:
            self._known.sync(self._future)
        return self._known

    def _usable(self, bucket: Bucket, demand: Demand) -> HostMask:
        """Hosts that could ever give something to the job."""
        usable = self._trial.usable(bucket, demand)
        return self._releases().mask(self._trial.candidates(bucket, demand)) if usable is None else usable

    def search(
        self, job_id: int, bucket: Bucket, demand: Demand, kept: Booking | None
    ) -> tuple[Booking | None, AnyText]:
        """A plan that is earlier than `kept`, or None; and what to say about a start whose time is not known."""
        self._known = self._releases()
        usable = self._usable(bucket, demand)
        closes = self.fit.hours.closes(bucket.queue)
        before = min(closes, math.inf if kept is None else kept.start)
        basis = self._basis(bucket, usable, before) if before < math.inf else None
        if basis is not None and self._known.is_in_vain(kind_of(bucket), basis):
            return None, ""
        self.searches += 1
        tries = self.fit.tries
        needs = self._trial.needs(bucket, demand)
        unknown = CLOSES_FIRST if closes < math.inf else OTHER_PLANNED
        on_one = all(need.on_one for need in needs)
        limits = self._let_in(bucket, needs, usable) if self._ahead.concerns(bucket) else None
        if on_one:
            bounds = _earliest(self._known, needs, usable)
            if limits is not None:
                bounds = np.maximum(bounds, limits)
            found = self._on_one_host(job_id, bucket, demand, needs, bounds, before)
        else:
            found = self._on_several(job_id, bucket, demand, needs, usable, before, limits)
        if found is not None:
            return found, ""
        if kept is not None:
            if basis is not None and self.fit.tries == tries:
                self._known.note_in_vain(kind_of(bucket), basis)
            return None, "" if kept.start < math.inf else blocker(self._future, kept, unknown)
        order = np.flatnonzero(~np.isnan(bounds)) if on_one else np.flatnonzero(usable)
        if limits is not None:
            order = order[limits[order] < math.inf]  # nothing is held where nobody knows when a limit lets it in
        found = self._at_unknown_time(job_id, bucket, demand, order, needs)
        if found is not None:
            return found, blocker(self._future, found, unknown)
        if limits is not None and usable.any() and not (limits[usable] < math.inf).any():
            return None, self._ahead.closed_by(bucket, needs, self._known.names[int(usable.argmax())])
        return None, self._never(bucket, demand, usable)

    def _basis(self, bucket: Bucket, usable: HostMask, before: float) -> tuple[object, ...] | None:
        """All that a search for a start before the time depends on that comes to no host that it would have to try; it
        need not be made again while this is the same, since as time passes no end comes nearer. None: on more.
        """
        future = self._future
        if future.windows or future.ending or future.stopped or self._ahead.concerns(bucket):
            return None
        assert self._known is not None
        return self._known.version, before, usable.tobytes(), tuple(future.bookings.values())

    def _on_one_host(
        self,
        job_id: int,
        bucket: Bucket,
        demand: Demand,
        needs: Sequence[Need],
        bounds: npt.NDArray[np.float64],
        before: float,
    ) -> Booking | None:
        """The first start found on one host. Hosts are tried in the order of when the job could start there, so that
        mostly the first one that has a place is the answer.
        """
        assert self._known is not None
        soon = self._future.soon
        more = self._ahead.times(bucket)
        starts = bounds.copy()
        early = np.flatnonzero(bounds <= soon)
        starts[early] = np.minimum(self.fit.start_after(soon), self._known.next_ends(early, soon))
        for host in self._future.booked_hosts():
            row = self._known.index.get(host)
            if row is not None and starts[row] < before:
                times = self._times(row, needs, float(bounds[row]), before, more)
                starts[row] = next(times, (math.nan, 0.0))[0]
        best: Booking | None = None
        for row in _least(starts, before, MOST_HOSTS):
            if starts[row] >= before:
                break
            for _, end in islice(self._times(row, needs, float(bounds[row]), before, more), MOST_TIMES):
                found = self.fit.try_at(job_id, bucket, demand, [self._known.names[row]], end)
                if found is not None:
                    best, before = found, found.start
                    break
        return best

    def _times(
        self, row: int, needs: Sequence[Need], first: float, before: float, more: Collection[float] = ()
    ) -> Iterator[tuple[float, float]]:
        """(start, end that it waits for) on the host from `first` on, of starts before `before`, ascending; only those
        at which there are slots and devices enough. `more`: times at which limits change.
        """
        assert self._known is not None
        future, host = self._future, self._known.names[row]
        first = max(first, future.soon)
        ends = {end for end in (first, *future.releases(host), *more) if first <= end < before}
        booked = future.booked(host)
        free = self._known.steps(row) if booked else None
        for start, end in sorted((self.fit.start_after(end), end) for end in ends):
            if start >= before:
                return
            if free is None or _is_room(free.by(start), needs, start, host, booked):
                yield start, end

    def _on_several(
        self,
        job_id: int,
        bucket: Bucket,
        demand: Demand,
        needs: Sequence[Need],
        usable: HostMask,
        before: float,
        limits: Floats | None,
    ) -> Booking | None:
        """The first time found at which the job fits: one after the other where there are few, else in steps that
        double, then halves between the last two.
        """
        assert self._known is not None
        early: list[float] = []
        if self._snapshot.ledger.giving_back():
            early = self._future.given_back({self._known.names[number] for number in np.flatnonzero(usable)})
        early = [*early, *self._ends_of_plans(usable), *self._ahead.times(bucket)]
        ends = np.concatenate([*(self._known.soonest(need, usable) for need in needs), early])
        if limits is not None:
            opens = limits[usable]
            ends = np.maximum(np.concatenate([ends, opens]), opens.min(initial=math.inf))
        ends = np.unique(np.maximum(ends, self._future.soon))
        times = self._by_start(ends[ends < before].tolist(), before)
        found: Booking | None = None
        is_few = len(times) <= MOST_TRIALS
        low, step, at = -1, 1, 0
        trials = 0
        while at < len(times) and trials < MOST_TRIALS:
            trials += 1
            found = self.fit.try_at(job_id, bucket, demand, self._givers(needs, usable, times[at]), times[at])
            if found is not None:
                break
            low = at
            if at == len(times) - 1:
                return None
            at, step = min(at + step, len(times) - 1), 1 if is_few else step * 2
        while found is not None and at - low > 1 and trials < 2 * MOST_TRIALS:
            trials += 1
            middle = (low + at) // 2
            sooner = self.fit.try_at(job_id, bucket, demand, self._givers(needs, usable, times[middle]), times[middle])
            if sooner is None:
                low = middle
            else:
                found, at = sooner, middle
        return found

    def _by_start(self, ends: list[float], before: float) -> list[float]:
        """Ascending ends in the order in which a job that waits for them could start, if that is before the time: by
        when that is gone which is being ended, others may have ended.
        """
        if not ends or ends[0] > self._future.soon:
            return ends
        first, *others = ends
        start = self.fit.start_after(first)
        if start >= before:
            return others
        place = bisect_left(others, start)
        return [*others[:place], first, *others[place:]]

    def _ends_of_plans(self, usable: HostMask) -> list[float]:
        """Times at which planned jobs and advance reservations leave something free on the hosts."""
        assert self._known is not None
        rows, future = self._known.index, self._future
        hosts = {*future.booked_hosts(), *future.windows}
        return [end for host in hosts if host in rows and usable[rows[host]] for end in future.ends_of_plans(host)]

    def _givers(self, needs: Sequence[Need], usable: HostMask, at: float) -> list[str]:
        """Hosts that could give slots by the time, those that give most first."""
        assert self._known is not None
        shares = np.max([self._known.shares(need, at) for need in needs], axis=0) * usable
        hosts = np.flatnonzero(shares)
        hosts = hosts[np.argsort(-shares[hosts], kind="stable")][:MOST_HOSTS]
        return [self._known.names[number] for number in hosts]

    def _at_unknown_time(
        self, job_id: int, bucket: Bucket, demand: Demand, order: npt.NDArray[np.int64], needs: Sequence[Need]
    ) -> Booking | None:
        """A place for when jobs have ended of which nobody knows when they do: where fewest of them are."""
        assert self._known is not None
        unknown = self._known.unknown_ends()
        order = order[np.lexsort((order, -self._known.idle(order), unknown[order]))]
        names = [self._known.names[number] for number in order[:MOST_HOSTS]]
        if not all(need.on_one for need in needs):
            return self.fit.try_at(job_id, bucket, demand, names, math.inf)
        for host in names[:MOST_UNKNOWN]:
            found = self.fit.try_at(job_id, bucket, demand, [host], math.inf)
            if found is not None:
                return found
        return None

    def _let_in(self, bucket: Bucket, needs: Sequence[Need], usable: HostMask) -> Floats:
        """For each host: when limits let the job in there, as far as the ends of what runs tell; minus infinity for now
        and infinite for an unknown time.
        """
        assert self._known is not None
        found = np.full(len(usable), self._ahead.opens(bucket, needs))
        if found.size and found[0] < math.inf:
            rows = np.flatnonzero(usable)
            names = (self._known.names[row] for row in rows.tolist())
            found[rows] = np.maximum(found[rows], list(self._ahead.opens_on(bucket, needs, names)))
        return found

    def may_use(self, bucket: Bucket, demand: Demand, hosts: Collection[str]) -> bool:
        """Whether a job of the bucket would have anything of these hosts if nothing ran anywhere. What moves with load
        counts as met.
        """
        order = sorted(self._trial.candidates(bucket, demand), key=lambda host: host not in hosts)
        if all(need.on_one for need in self._trial.needs(bucket, demand)):
            order = [host for host in order if host in hosts]
        if not order or order[0] not in hosts:
            return False
        found = self._trial.place(bucket, demand, order, lambda host: self._snapshot.ledger.host(host).emptied())
        if isinstance(found, Reason):
            return _changes(found, demand)
        return any(part.host in hosts for part in found.hosts)

    # -- words ----------------------------------------------------------------------------------------------------

    def never(self, bucket: Bucket, demand: Demand) -> AnyText:
        """Why the hosts as they are could not take the job even if they were idle; empty if they could."""
        self._known = self._releases()
        text = self._never(bucket, demand, self._usable(bucket, demand))
        return "" if text == OTHERS_FIRST else text

    def _never(self, bucket: Bucket, demand: Demand, usable: HostMask) -> AnyText:
        assert self._known is not None
        rows, met = np.flatnonzero(usable), self._trial.met(bucket, demand)
        if not rows.size:
            return coded(NEVER, coded("planned.no_host"))
        if met is not None:  # mostly the first one takes it
            rows = rows[np.argsort(-met[rows].astype(np.int16), kind="stable")]
        hosts = [self._known.names[number] for number in rows[:MOST_HOSTS]]
        found = self._trial.place(bucket, demand, hosts, lambda host: self._snapshot.ledger.host(host).emptied())
        if isinstance(found, Reason):
            told = coded("reason.with_numbers", found.text, found.detail) if found.detail else found.text
            return coded(UNKNOWN if _changes(found, demand) else NEVER, told)
        return OTHERS_FIRST


def _changes(refused: Reason, demand: Demand) -> bool:
    """Whether the hosts that were refused may be others when their load is another."""
    if refused.text != UNSATISFIED:
        return False
    terms = (term for choice in demand.choices for term in choice.terms)
    return any(not term.select.names <= _LASTING for term in terms)


def _earliest(known: Releases, needs: Sequence[Need], usable: HostMask) -> npt.NDArray[np.float64]:
    bounds = known.earliest(needs[0])
    for need in needs[1:]:
        bounds = np.fmin(bounds, known.earliest(need))
    return np.where(usable, bounds, np.nan)


def _is_room(free: tuple[float, float], needs: Sequence[Need], at: float, host: str, booked: Sequence[Booking]) -> bool:
    """Whether one of the needs could be met beside the planned jobs, as far as slots and devices tell."""
    slots, gpus = free
    for booking in booked:
        if booking.is_active(at):
            part = booking.part_on(host)
            slots -= part.slots
            gpus -= alone_of(part)
    return any(slots >= need.slots and gpus >= need.gpus for need in needs)


def _least(starts: npt.NDArray[np.float64], before: float, most: int) -> list[int]:
    """The rows of the least starts that are before the time, ascending, then by row; at most so many."""
    rows = np.flatnonzero(starts < before)
    if len(rows) > most:
        rows = rows[starts[rows] <= np.partition(starts[rows], most - 1)[most - 1]]
    found: list[int] = rows[np.argsort(starts[rows], kind="stable")][:most].tolist()
    return found
