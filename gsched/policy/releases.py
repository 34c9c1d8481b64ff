"""When enough gets free on which host at the earliest: lower bounds for all hosts at once, from the ends of what runs.

A bound only says where to look first: it counts slots and devices, nothing else. Whether a job fits is asked of a
trial. Numbers of hosts are indices into `names`; times are UTC seconds, infinite when nobody knows, NaN for never.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gsched.model.allocation import SHARED_CLAIM
from gsched.model.snapshot import Running
from gsched.policy.demand import Choice, Demand, HostNeed
from gsched.policy.future import Future

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_NO_LIMIT = 1e9
_KEPT_AS = "releases"
_SPARE = 8
"""Holdings for which a row has room beyond the most that a host had."""
_FEW = 8
"""Rows are renewed one by one while they are fewer than one in so many."""
_SHARING = frozenset({"ngpus_shared", SHARED_CLAIM})


class Need(NamedTuple):
    """The least that a job takes. `slots` and `gpus` on each of its hosts, `total` slots on all of them."""

    slots: int
    gpus: int
    total: int
    most: float = _NO_LIMIT
    """Most slots on one host."""


class Releases:
    """Host by host the ends of all holdings, in order, with what is free after each. Rows are hosts by name.

    A table is kept with the columns of the hosts from cycle to cycle and renewed row by row; a row knows what was
    expected when it was last renewed.
    """

    def __init__(self, future: Future) -> None:
        self.names = sorted(future.snapshot.hosts)
        self.index = {name: row for row, name in enumerate(self.names)}
        self._epoch = self._read = 0
        self._collect(future)

    @classmethod
    def of(cls, future: Future) -> Releases:
        """The table as it is now: the kept one, brought up to date, or a new one."""
        columns = future.snapshot.columns
        if columns is None:
            return cls(future)
        found: Releases | None = columns.memo.get(_KEPT_AS)
        if found is None:
            found = columns.memo[_KEPT_AS] = cls(future)
            found._epoch, found._read = columns.epoch, columns.log.length
        found.sync(future)
        return found

    def sync(self, future: Future) -> None:
        """Renew the rows that have changed."""
        columns = future.snapshot.columns
        if columns is None:
            changed = {self.index[part.host] for part, _ in future.placements()}
        else:
            is_known = self._epoch == columns.epoch
            changed = set(columns.log.since(self._read).tolist()) if is_known else set(range(columns.size))
            self._epoch, self._read = columns.epoch, columns.log.length
        if len(changed) * _FEW > len(self.names) or not all(self._renew(row, future) for row in changed):
            self._collect(future)

    def _renew(self, row: int, future: Future) -> bool:
        """Read one host's books again; False when there are more holdings than the row has room for."""
        host = self.names[row]
        books = future.snapshot.ledger.host(host)
        held = sorted(
            (future.end_of(host, key, part), 0 if key in books.suspended else part.slots, len(part.gpus))
            for key, part in books.held.items()
        )
        if len(held) > self._end.shape[1]:
            return False
        slots = self._slots[row] = _NO_LIMIT if books.free_slots is None else float(books.free_slots)
        gpus = self._gpus[row] = float(len(books.gpus) - len(books.holders))
        self._count[row] = len(held)
        self._end[row, len(held) :] = np.inf
        for place, (end, some_slots, some_gpus) in enumerate(held):
            slots, gpus = slots + some_slots, gpus + some_gpus
            self._end[row, place], self._slots_after[row, place], self._gpus_after[row, place] = end, slots, gpus
        self._slots_after[row, len(held) :], self._gpus_after[row, len(held) :] = slots, gpus
        return True

    # -- the whole table ------------------------------------------------------------------------------------------

    def _collect(self, future: Future) -> None:
        """Read everything. Written for many thousand jobs: no tuple and no call for each."""
        ledgers = future.snapshot.ledger.hosts
        books = [ledgers.get(name) for name in self.names]
        free = [None if each is None else each.free_slots for each in books]
        self._slots = np.array([_NO_LIMIT if each is None else each for each in free], dtype=np.float64)
        self._gpus = np.array([0 if each is None else len(each.gpus) - len(each.holders) for each in books], np.float64)
        hosts, ends, slots, gpus = self._holdings(future)
        order = np.lexsort((ends, hosts))
        order = order[np.searchsorted(hosts[order], 0) :]  # without those on hosts that are no longer there
        hosts, ends = hosts[order], ends[order]
        first = np.searchsorted(hosts, hosts)
        place = np.arange(len(hosts)) - first
        self._count: Ints = np.bincount(hosts, minlength=len(self.names))
        shape = (len(self.names), int(self._count.max(initial=0)) + _SPARE)
        self._end: Floats = np.full(shape, np.inf)
        self._end[hosts, place] = ends
        self._slots_after = self._filled(shape, hosts, place, slots[order], self._slots)
        self._gpus_after = self._filled(shape, hosts, place, gpus[order], self._gpus)

    @staticmethod
    def _filled(shape: tuple[int, int], hosts: Ints, place: Ints, amounts: Floats, base: Floats) -> Floats:
        """What is free after each end; behind the last end of a host stands what is free in the end."""
        given = np.zeros(shape)
        given[hosts, place] = amounts
        return np.asarray(np.cumsum(given, axis=1) + base[:, np.newaxis])

    def _holdings(self, future: Future) -> tuple[Ints, Floats, Floats, Floats]:
        """Host (-1: not among them), expected end, slots and devices of all parts that are held."""
        started = list(future.snapshot.running.values())
        parts = [part for running in started for part in running.allocation.hosts]
        counts = [len(running.allocation.hosts) for running in started]
        ends = np.repeat(self._ends(started, future), counts)
        slots = np.array([part.slots for part in parts], dtype=np.float64)
        suspended = future.snapshot.ledger.suspended
        if suspended:
            stopped = [running.key in suspended for running in started]
            slots[np.repeat(np.array(stopped, dtype=bool), counts)] = 0.0
        placed = list(future.placements())
        parts += [part for part, _ in placed]
        ends = np.append(ends, [end for _, end in placed])
        slots = np.append(slots, [float(part.slots) for part, _ in placed])
        gpus = np.array([len(part.gpus) for part in parts], dtype=np.float64)
        hosts = np.array([self.index.get(part.host, -1) for part in parts], dtype=np.int64)
        return hosts, ends, slots, gpus

    @staticmethod
    def _ends(started: Sequence[Running], future: Future) -> Floats:
        """Expected ends; most jobs simply run, and those are dealt with all at once."""
        ends = np.array([running.ends_at for running in started], dtype=np.float64)
        late = ends <= future.now
        odd = [number for number, each in enumerate(started) if each.state != "RUN" or each.is_ending]
        for number in [*odd, *np.flatnonzero(late).tolist()]:
            ends[number] = future.end_of_running(started[number])
        return ends

    # -- answers --------------------------------------------------------------------------------------------------

    def earliest(self, need: Need) -> Floats:
        """For each host: when one host's share of the job could be free; minus infinity for now, NaN for never."""
        enough = (self._slots_after >= need.slots) & (self._gpus_after >= need.gpus)
        first = enough.argmax(axis=1)
        rows = np.arange(len(self.names))
        bounds = np.where(enough[rows, first], self._end[rows, first], np.nan)
        bounds[(self._slots >= need.slots) & (self._gpus >= need.gpus)] = -np.inf
        return bounds

    def soonest(self, need: Need, usable: npt.NDArray[np.bool_]) -> Floats:
        """For a job on several hosts: the ends from which on slots could suffice in total, ascending."""
        base = self._share(self._slots, self._gpus, need) * usable
        share = self._share(self._slots_after, self._gpus_after, need) * usable[:, np.newaxis]
        grown = np.diff(share, axis=1, prepend=base[:, np.newaxis])
        real = np.arange(share.shape[1]) < self._count[:, np.newaxis]
        ends, grown = self._end[real], grown[real]
        order = np.argsort(ends, kind="stable")
        total = base.sum() + np.cumsum(grown[order])
        return np.asarray(ends[order][total >= need.total])

    @staticmethod
    def _share(slots: Floats, gpus: Floats, need: Need) -> Floats:
        """Slots that the hosts could give to such a job."""
        return np.where((gpus >= need.gpus) & (slots >= need.slots), np.minimum(slots, need.most), 0.0)

    def shares(self, need: Need, at: float) -> Floats:
        """For each host: slots that it could give to such a job by the time."""
        ended = (self._end <= at).sum(axis=1)
        rows = np.arange(len(self.names))
        last = np.minimum(np.maximum(0, ended - 1), self._count - 1)
        share = self._share(self._slots_after, self._gpus_after, need)[rows, last]
        return np.where((ended > 0) & (self._count > 0), share, self._share(self._slots, self._gpus, need))

    def idle(self, hosts: Ints) -> Floats:
        """Devices that nobody holds now on the hosts."""
        return np.asarray(self._gpus[hosts])

    def unknown_ends(self) -> Ints:
        """For each host: how many holdings end nobody knows when."""
        known = np.isfinite(self._end).sum(axis=1)
        return np.asarray(self._count - known)

    def mask(self, names: Collection[str]) -> npt.NDArray[np.bool_]:
        """Which hosts are among `names`, each named once."""
        if len(names) == len(self.names):
            return np.ones(len(names), dtype=bool)
        found = np.zeros(len(self.names), dtype=bool)
        found[[self.index[name] for name in names if name in self.index]] = True
        return found


def needs_of(demand: Demand) -> list[Need]:
    """The needs of a job's alternatives, as far as they can be told beforehand."""
    return [_need_of(choice, demand.slots) for choice in demand.choices]


def _need_of(choice: Choice, slots: int) -> Need:
    if len(choice.terms) > 1:
        return Need(1, 0, slots)
    term = choice.terms[0]
    if term.one_host or slots == 1:
        return Need(slots, _alone(term.need(slots)), slots)
    if term.block > 1:
        return Need(term.block, _alone(term.need(term.block)), slots)
    if term.most_on_host is not None:
        return Need(1, _alone(term.need(1)), slots, float(term.most_on_host))
    tile = term.span.ptile if term.span is not None and not term.span.ptile_types else None
    if tile:
        # The last host may get fewer tasks than the others, and then fewer devices.
        least = slots % tile or tile
        return Need(least, _alone(term.need(least)), slots, float(tile))
    return Need(1, _alone(term.need(1)), slots)


def _alone(need: HostNeed) -> int:
    """Devices that nobody else may hold."""
    return sum(count for kind, count in need.devices if kind.claim not in _SHARING)
