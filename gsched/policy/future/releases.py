"""When enough gets free on which host at the earliest: lower bounds for all hosts at once, from the ends of what runs.

A bound only says where to look first: it counts slots and devices, nothing else. Whether a job fits is asked of a
trial. Numbers of hosts are indices into `names`; times are UTC seconds, infinite when nobody knows, NaN for never.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.ledgers.ledger import Ledger
from gsched.model.scheduling.snapshot import Running
from gsched.policy.future.future_ledgers import Future
from gsched.policy.future.least_needs import NO_LIMIT, Need
from gsched.policy.future.release_table import SPARE, Floats, Ints, ReleaseRows, ReleaseTable
from gsched.policy.order.queue_class import QueueClass

_KEPT_AS = "releases"
_FEW = 8
"""Rows are read one by one while they are fewer than one in so many."""
_MOST_IN_VAIN = 1024
_MOST_NEEDS = 64
"""Different needs for which bounds are kept."""


class FreeSteps(NamedTuple):
    """What is free on a host now and after each end, ascending."""

    ends: list[float]
    slots: list[float]
    gpus: list[float]

    def by(self, at: float) -> tuple[float, float]:
        """(slots, devices) that are free when all has ended that ends by the time."""
        ended = bisect_right(self.ends, at)
        return self.slots[ended], self.gpus[ended]


class Releases:
    """Host by host the ends of all holdings, in order, with what is free after each. Rows are hosts by name.

    What runs is read once and kept with the columns of the hosts from cycle to cycle; a row is read again when its
    ledgers have changed, or an end that was expected there has passed, and knows what was expected then. What a cycle
    places is laid over it, many rows at once, and taken off again before the next.
    """

    def __init__(self, future: Future) -> None:
        self.names = sorted(future.snapshot.hosts)
        self.index = {name: row for row, name in enumerate(self.names)}
        self._bounds: dict[tuple[int, int], Floats] = {}
        """(slots, devices) -> what `earliest` says."""
        self.version = 0
        """Grows when a row has been written."""
        self._in_vain: dict[QueueClass, tuple[object, ...]] = {}
        self._base = self._collect(future)
        self._next_end = -math.inf
        """No end in `_base` comes before."""
        self._now = self._base.copy()
        self._laid: set[int] = set()
        """Rows where `_now` is not as `_base`."""
        self._read = self._read_placements = 0
        self._lay_over(future, future.snapshot.ledger.used_hosts())

    @classmethod
    def of(cls, future: Future) -> Releases:
        """The table for a new cycle: the kept one, brought up to date, or a new one."""
        columns = future.snapshot.columns
        if columns is None:
            return cls(future)
        found: Releases | None = columns.memo.get(_KEPT_AS)
        if found is None or len(columns.lasting) * _FEW > columns.size:
            found = columns.memo[_KEPT_AS] = cls(future)
        else:
            found._begin(future, columns.lasting)
        columns.lasting.clear()
        found._read = columns.log.length
        return found

    def sync(self, future: Future) -> None:
        """Follow what the cycle has placed since."""
        columns = future.snapshot.columns
        if columns is None:
            self._lay_over(future, future.snapshot.ledger.used_hosts())
        elif columns.log.length > self._read:
            names = [self.names[row] for row in dict.fromkeys(columns.log.since(self._read).tolist())]
            self._read = columns.log.length
            self._lay_over(future, names)

    def _begin(self, future: Future, lasting: Iterable[int]) -> None:
        """Take off what the cycle before placed, and read rows whose ledgers have changed, or where somebody who was
        expected to have ended by now has not.
        """
        before = future.snapshot.ledger.origin or future.snapshot.ledger
        late: list[int] = []
        if self._next_end <= future.now:
            late = np.flatnonzero((self._base.end <= future.now).any(axis=1)).tolist()
            ends = self._base.end
            self._next_end = float(ends[ends > future.now].min(initial=math.inf))
        rows = sorted({*lasting, *late})
        lines = [_line_of(before.host(self.names[row]), future) for row in rows]
        self._write(self._base, np.array(rows, dtype=np.int64), _together(lines))
        self._next_end = min(self._next_end, *(end for line in lines for end, _, _ in line.held), math.inf)
        self._laid.update(rows)
        again = np.array(sorted(self._laid), dtype=np.int64)
        if len(again):
            self._now.put(again, self._base.rows(again))
            self._changed(again)
        self._laid.clear()
        self._read_placements = 0
        self._lay_over(future, future.snapshot.ledger.used_hosts())

    # -- searches -------------------------------------------------------------------------------------------------

    def note_in_vain(self, kind: QueueClass, basis: tuple[object, ...]) -> None:
        """A search for the class has found nothing; `basis`: what it depended on."""
        if len(self._in_vain) >= _MOST_IN_VAIN:
            self._in_vain.clear()
        self._in_vain[kind] = basis

    def is_in_vain(self, kind: QueueClass, basis: tuple[object, ...]) -> bool:
        """Whether the last search that was noted depended on the same."""
        return self._in_vain.get(kind) == basis

    # -- writing rows ---------------------------------------------------------------------------------------------

    def _lay_over(self, future: Future, names: Iterable[str]) -> None:
        """Read hosts again of which the cycle's ledger says something else: many rows in few operations where jobs were
        placed there and nothing more.
        """
        ledger = future.snapshot.ledger
        unread, own = ledger.put_off, ledger.own_hosts
        plain: list[int] = []
        added: list[_Line] = []
        others: list[int] = []
        for name in names:
            row = self.index.get(name)
            if row is None or (name in unread and name not in own):
                continue
            host_ledger, before = ledger.host(name), None if ledger.origin is None else ledger.origin.hosts.get(name)
            placed = future.placed_on(name)
            is_plain = before is not None and len(host_ledger.held) == len(before.held) + len(placed)
            if before is not None and is_plain and host_ledger.suspended == before.suspended:
                plain.append(row)
                ends = [(end, part.slots, len(part.gpus)) for part, end, _ in placed]
                added.append(_Line(_free(host_ledger), len(host_ledger.gpus) - len(host_ledger.holders), ends))
            else:
                others.append(row)
        known = self._lay_over_unread(future)
        rows = np.array(plain, dtype=np.int64)
        self._write(self._now, rows, _together(added), self._base.rows(rows) if plain else None)
        more = np.array(others, dtype=np.int64)
        self._write(self._now, more, _together([_line_of(ledger.host(self.names[row]), future) for row in others]))
        changed = np.concatenate([known, rows, more])
        if len(changed):
            self._changed(changed)
            self._laid.update(changed.tolist())

    def _lay_over_unread(self, future: Future) -> Ints:
        """The same for hosts whose ledgers need not be looked at: what was placed there stands in none yet, and all
        else is as it was. Returns their rows.
        """
        ledger, index = future.snapshot.ledger, self.index
        unread, own = ledger.put_off, ledger.own_hosts
        new = future.placements[self._read_placements :]
        self._read_placements += len(new)
        new = [each for each in new if each[0].host in unread and each[0].host not in own and each[0].host in index]
        if not new:
            return np.zeros(0, dtype=np.int64)
        hosts = np.array([index[part.host] for part, _, _ in new], dtype=np.int64)
        order = np.argsort(hosts, kind="stable")
        held = np.empty((len(new), 3))
        held[:, 0] = [end for _, end, _ in new]
        held[:, 1] = [part.slots for part, _, _ in new]
        held[:, 2] = [len(part.gpus) for part, _, _ in new]
        rows, counts = np.unique(hosts, return_counts=True)
        held = held[order]
        owner = np.repeat(np.arange(len(rows)), counts)
        before = self._now.rows(rows)
        slots, gpus = (np.bincount(owner, held[:, column], len(rows)) for column in (1, 2))
        free_slots = np.where(before.free_slots < NO_LIMIT, before.free_slots - slots, before.free_slots)
        self._write(self._now, rows, _Lines(free_slots, before.free_gpus - gpus, counts, held), before)
        return rows

    def _write(self, table: ReleaseTable, rows: Ints, lines: _Lines, onto: ReleaseRows | None = None) -> None:
        """Write rows of a table; `onto`: what is held there beside what the lines say."""
        if not len(rows):
            return
        owner = np.repeat(np.arange(len(rows)), lines.counts)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(lines.counts) - lines.counts, lines.counts)
        shape = (len(rows), int(lines.counts.max(initial=0)))
        ends, slots, gpus = np.full(shape, np.nan), np.zeros(shape), np.zeros(shape)
        for column, each in enumerate((ends, slots, gpus)):
            each[owner, place] = lines.held[:, column]
        if onto is not None:
            ends = np.concatenate([onto.end, ends], axis=1)
            slots = np.concatenate([onto.slots, slots], axis=1)
            gpus = np.concatenate([onto.gpus, gpus], axis=1)
        for table_of in (self._base, self._now):
            table_of.widen(int((~np.isnan(ends)).sum(axis=1).max(initial=0)))
        order = np.argsort(ends, axis=1, kind="stable")[:, : table.width]
        sorted_ones = (np.take_along_axis(each, order, axis=1) for each in (ends, slots, gpus))
        table.put(rows, ReleaseRows(lines.free_slots, lines.free_gpus, *sorted_ones))

    def _changed(self, rows: Ints) -> None:
        """Rows of `_now` have been written: renew what was found from them."""
        self.version += 1
        if len(self._bounds) > _MOST_NEEDS:
            self._bounds.clear()
        for (slots, gpus), bounds in self._bounds.items():
            bounds[rows] = self._now.earliest(slots, gpus, rows)

    # -- the whole table ------------------------------------------------------------------------------------------

    def _collect(self, future: Future) -> ReleaseTable:
        """Read everything that runs. Written for many thousand jobs: no tuple and no call for each."""
        before = future.snapshot.ledger.origin or future.snapshot.ledger
        host_ledger = [before.hosts.get(name) for name in self.names]
        free_slots = np.array([NO_LIMIT if each is None else _free(each) for each in host_ledger], dtype=np.float64)
        free = np.array([0 if each is None else len(each.gpus) - len(each.holders) for each in host_ledger], np.float64)
        hosts, ends, slots, gpus = self._holdings(future, before)
        order = np.lexsort((ends, hosts))
        order = order[np.searchsorted(hosts[order], 0) :]  # without those on hosts that are no longer there
        hosts = hosts[order]
        place = np.arange(len(hosts)) - np.searchsorted(hosts, hosts)
        shape = (len(self.names), int(np.bincount(hosts, minlength=1).max(initial=0)) + SPARE)
        given = [np.full(shape, np.nan), np.zeros(shape), np.zeros(shape)]
        for table, values in zip(given, (ends, slots, gpus), strict=True):
            table[hosts, place] = values[order]
        return ReleaseTable(ReleaseRows(free_slots, free, *given))

    def _holdings(self, future: Future, before: Ledger) -> tuple[Ints, Floats, Floats, Floats]:
        """Host (-1: not among them), expected end, slots and devices of all parts that are held."""
        started = list(future.snapshot.running.values())
        parts = [part for running in started for part in running.allocation.parts]
        counts = [len(running.allocation.parts) for running in started]
        ends = np.repeat(self._ends(started, future), counts)
        slots = np.array([part.slots for part in parts], dtype=np.float64)
        if before.suspended:
            stopped = [running.key in before.suspended for running in started]
            slots[np.repeat(np.array(stopped, dtype=bool), counts)] = 0.0
        gpus = np.array([len(part.gpus) for part in parts], dtype=np.float64)
        hosts = np.array([self.index.get(part.host, -1) for part in parts], dtype=np.int64)
        return hosts, ends, slots, gpus

    @staticmethod
    def _ends(started: Sequence[Running], future: Future) -> Floats:
        """Expected ends; most jobs simply run, and those are dealt with all at once."""
        ends = np.array([running.ends_at for running in started], dtype=np.float64)
        late = ends <= future.now
        odd = [number for number, each in enumerate(started) if each.state != "RUN" or each.is_ending]
        unlimited, may_know = np.flatnonzero(ends == np.inf).tolist(), future.estimates.may_know
        odd += [number for number in unlimited if may_know(started[number].bucket)]
        for number in [*odd, *np.flatnonzero(late).tolist()]:
            ends[number] = future.end_of_running(started[number])
        return ends

    # -- answers --------------------------------------------------------------------------------------------------

    def earliest(self, need: Need) -> Floats:
        """For each host: when one host's share of the job could be free; minus infinity for now, NaN for never. It is
        kept and brought up to date, and must not be written to.
        """
        key = (need.slots, need.gpus)
        found = self._bounds.get(key)
        if found is None:
            found = self._bounds[key] = self._now.earliest(need.slots, need.gpus, np.arange(len(self.names)))
        return found

    def soonest(self, need: Need, usable: npt.NDArray[np.bool_]) -> Floats:
        """For a job on several hosts: the ends from which on slots could suffice in total, ascending; of all hosts, for
        one that it may not use may be in the way of cu[excl].
        """
        now = self._now
        base = self._share(now.slots, now.gpus, need) * usable
        share = self._share(now.slots_after, now.gpus_after, need) * usable[:, np.newaxis]
        grown = np.diff(share, axis=1, prepend=base[:, np.newaxis])
        real = ~np.isnan(now.end)
        ends, grown = now.end[real], grown[real]
        order = np.argsort(ends, kind="stable")
        total = base.sum() + np.cumsum(grown[order])
        return np.asarray(ends[order][total >= need.total])

    @staticmethod
    def _share(slots: Floats, gpus: Floats, need: Need) -> Floats:
        """Slots that the hosts could give to such a job."""
        return np.where((gpus >= need.gpus) & (slots >= need.slots), np.minimum(slots, need.most), 0.0)

    def shares(self, need: Need, at: float) -> Floats:
        """For each host: slots that it could give to such a job by the time."""
        now = self._now
        ended = (now.end <= at).sum(axis=1)
        last = np.maximum(0, ended - 1)
        share = self._share(now.slots_after, now.gpus_after, need)[np.arange(len(self.names)), last]
        return np.where(ended > 0, share, self._share(now.slots, now.gpus, need))

    def steps(self, row: int) -> FreeSteps:
        """What gets free on one host."""
        now = self._now
        ends = [end for end in now.end[row].tolist() if end == end]
        slots, gpus = now.slots_after[row].tolist(), now.gpus_after[row].tolist()
        return FreeSteps(ends, [float(now.slots[row]), *slots], [float(now.gpus[row]), *gpus])

    def next_ends(self, rows: Ints, after: float) -> Floats:
        """For each row: the first end after the time; infinite when there is none."""
        ends = self._now.end[rows]
        return np.asarray(np.where(ends > after, ends, np.inf).min(axis=1, initial=np.inf))

    def idle(self, hosts: Ints) -> Floats:
        """Devices that nobody holds now on the hosts."""
        return np.asarray(self._now.gpus[hosts])

    def unknown_ends(self) -> Ints:
        """For each host: how many holdings end nobody knows when."""
        return np.asarray(np.isposinf(self._now.end).sum(axis=1))

    def mask(self, names: Collection[str]) -> npt.NDArray[np.bool_]:
        """Which hosts are among `names`, each named once."""
        if len(names) == len(self.names):
            return np.ones(len(names), dtype=bool)
        found = np.zeros(len(self.names), dtype=bool)
        found[[self.index[name] for name in names if name in self.index]] = True
        return found


class _Line(NamedTuple):
    """One host: free slots and devices, and (end, slots, devices) of each holding, in any order."""

    slots: float
    gpus: int
    held: Sequence[tuple[float, float, float]]


class _Lines(NamedTuple):
    """Many of them: free slots and devices, how many holdings each has, and all holdings one after the other."""

    free_slots: Floats
    free_gpus: Floats
    counts: Ints
    held: Floats


def _together(lines: Sequence[_Line]) -> _Lines:
    free_slots = np.array([line.slots for line in lines], dtype=np.float64)
    free_gpus = np.array([line.gpus for line in lines], dtype=np.float64)
    counts = np.array([len(line.held) for line in lines], dtype=np.int64)
    held = np.array([each for line in lines for each in line.held], dtype=np.float64)
    return _Lines(free_slots, free_gpus, counts, held.reshape(-1, 3))


def _free(host_ledger: HostLedger) -> float:
    return NO_LIMIT if host_ledger.free_slots is None else float(host_ledger.free_slots)


def _line_of(host_ledger: HostLedger, future: Future) -> _Line:
    """What one host's ledger says."""
    suspended = host_ledger.suspended
    held = [
        (future.end_of(host_ledger.host, key, part), 0 if key in suspended else part.slots, len(part.gpus))
        for key, part in host_ledger.held.items()
    ]
    return _Line(_free(host_ledger), len(host_ledger.gpus) - len(host_ledger.holders), held)
