"""The best host for one class of jobs: array operations over all hosts, and then what changes host by host.

The rank of a host, the smallest is the best: one to avoid comes last; then the level that -m or the queue's HOSTS gives
it; then order[], or without it for jobs with GPUs the fewest devices left idle, and the load (r15s, pg); then the name.
gpack=yes puts the packing before order[] too. An unknown value comes last. With GPU_PLACEMENT = scarce what a job takes
from others (scarce_placement) stands in the place of the fewest devices left idle, and before a default order[].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from gsched.model.ledgers.allocation import SHARING, HostAllocation
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.scheduling.column_part import Flags, HostNumbers
from gsched.model.scheduling.columns import HostColumns, singly
from gsched.model.scheduling.row_log import RowNumbers
from gsched.model.scheduling.snapshot import HostSnapshot, JobKind
from gsched.policy.devices import gpu_choice
from gsched.policy.devices.idle_levels import IdleLevels, LevelTests
from gsched.policy.devices.scarce_placement import ScarceHosts, kind_of
from gsched.policy.match.columns import FITS, Match
from gsched.policy.match.columns_single import UNKNOWN, KeyOf, best_of
from gsched.policy.match.host_now import FitRules
from gsched.policy.match.least_row import Least
from gsched.policy.match.room_conditions import FreeDevices, idle_gpus
from gsched.policy.requirement.demand import DeviceKind, SortKey
from gsched.policy.requirement.reasons import Reason
from gsched.resreq.judging.columns import compile_numbers

_INFINITY = float("inf")
_MOST_PACKED = 2.0**21
"""More than any figure of how well a job packs on a host."""
_SHARE_STEPS = 1000.0
_MOST_OTHERS = 2
"""The common order is used by classes that take at least one in so many of the hosts that have the devices."""


class Ranking:
    """The hosts of a match by rank, within one cycle: what the cycle takes is taken into account when it is asked."""

    def __init__(
        self,
        columns: HostColumns,
        match: Match,
        rules: FitRules,
        recent: Flags | None,
        scarce: ScarceHosts | None = None,
        levels: IdleLevels | None = None,
    ) -> None:
        """`levels`: the cycle's common order."""
        self.match = match
        self.refused: dict[int, Reason] = {}
        """Rows that the class may not use in this cycle though it would fit."""
        self._barred: Flags | None = None
        """The same as flags."""
        self._columns = columns
        self._rules = rules
        self._recent = recent
        self._first = self._first_keys()
        order = match.asked.term.order
        is_packed = any(each.kind.packed and each.kind.share == 1.0 for each in match.asked.need.devices)
        self._order = [_sorter(key, columns, rules) for key in order or ()]
        self._by_one_key = len(self._order) == 1 and self._first is None and not is_packed
        """Whether its value alone is the rank: among equals the first row is the first by name."""
        self._packs = match.asked.need.wants_gpus and (order is None or is_packed)
        self._load = None if order is not None else load_ranks(columns)
        self._idle = idle_gpus(columns)
        self._size = float(columns.size)
        self._sharing = [
            (
                each.kind,
                each.wanted,
                each.column(columns),
                _fresh(columns, each.kind),
            )
            for each in match.conditions
            if isinstance(each, FreeDevices) and each.kind.claim in SHARING
        ]
        """Devices that may be shared, how many are wanted and can be had, and how many of these nobody holds; the
        others that a job needs are idle ones wherever it runs.
        """
        kind = kind_of(match.asked.need) if scarce is not None and order is None and not is_packed else None
        self._scarce = None if scarce is None or kind is None else (scarce, kind)
        self._levels = levels if self._may_use_levels() else None
        """None where the class has an order of its own."""
        self._left_out: dict[int, int] = {}
        """Rows that were dropped -> how long the log of changes was, where the common order is used."""
        self._keys: HostNumbers = np.zeros(0)
        self._least: Least | None = None
        """The keys in order, where they alone are the rank."""
        self.single: Callable[[], int | None] | None = None
        """The same as `best`, where no more has a say than free slots, amounts and devices: what changes is looked at
        host by host."""
        self._read = 0
        self.renew()

    def renew(self) -> None:
        """Look at all hosts anew."""
        self._left_out.clear()
        if self._levels is not None:
            if self.match.is_live:  # of others what is asked one row at a time says all that may have changed
                self.match.sync(self._recent)
            self.single = self._single_of_levels(self._levels)
            if self.single is not None:
                return
            self._levels = None
        self.match.sync(self._recent)
        self._fits = self.match.quick_rule(self._recent)
        self._keys = self._keys_of(np.arange(self._columns.size)) if self._by_one_key else self._rank(None)
        self._keys[self.match.codes != FITS] = _INFINITY
        if self._barred is not None:
            self._keys[self._barred] = _INFINITY
        self._read = self._columns.log.length
        if self._scarce is None and (self._by_one_key or not self._order):
            self._least = Least(self._keys)
            self.single = self._single(self._least)

    def best(self) -> int | None:
        """The row of the best host; None when there is none."""
        if self.single is not None:
            return self.single()
        changed = self._columns.log.rows
        if self._read != len(changed):
            self._look(np.array(changed[self._read :], dtype=np.int64))
            self._read = len(changed)
        if self._least is not None:
            return self._least.row()
        keys = self._keys
        least = keys.min()
        if least == _INFINITY:
            return None
        if self._scarce is not None:
            return self._least_taken(*self._scarce)
        return self._by_order(np.flatnonzero(keys == least))

    def with_best_device(self, row: int, part: HostAllocation) -> HostAllocation:
        """The part that was found on the best host, for a part of a GPU with the device that is to be taken there."""
        if self._scarce is None or len(part.gpus) != 1:
            return part
        scarce, kind = self._scarce
        return scarce.on_best_device(kind, row, part, self.match.asked.need)

    def order(self, rows: RowNumbers, before: HostNumbers | None = None) -> RowNumbers:
        """The order of rows by rank, as places in `rows`; `before` comes behind levels and before all else."""
        keys = [self._rank(rows), *(np.nan_to_num(sorter(rows), nan=_INFINITY) for sorter in self._order)]
        if before is not None:
            keys.insert(0, before)
        if self._first is not None:
            keys.insert(0, self._first[rows])
        return np.lexsort([rows, *reversed(keys)])

    def refuse(self, row: int, reason: Reason) -> None:
        """The class may not use the host in this cycle."""
        self.refuse_all([row], reason)

    def refuse_all(self, rows: Iterable[int], reason: Reason) -> None:
        """The class may not use the hosts in this cycle."""
        if self._barred is None:
            self._barred = np.zeros(self._columns.size, dtype=np.bool_)
        for row in rows:
            self.refused[row] = reason
            self._barred[row] = True
            self.drop(row)

    def drop(self, row: int) -> None:
        """Leave the host out of account until something changes there, or `look_again`."""
        if self._levels is not None:
            self._left_out[row] = self._columns.log.length
        elif self._least is not None:
            self._least.set(row, _INFINITY)
        else:
            self._keys[row] = _INFINITY

    def look_again(self, rows: Iterable[int]) -> None:
        """Take account of hosts again that were dropped."""
        if self._levels is not None:
            for row in rows:
                self._left_out.pop(row, None)
            return
        self._look(np.array(sorted(rows), dtype=np.int64))

    # -- keys -----------------------------------------------------------------------------------------------------

    def _look(self, rows: RowNumbers) -> None:
        keys = self._keys_of(rows) if self._by_one_key else self._rank(rows)
        keys[~self._fits(rows)] = _INFINITY
        if self._barred is not None:
            keys[self._barred[rows]] = _INFINITY
        if self._least is None:
            self._keys[rows] = keys
            return
        for row, key in zip(rows.tolist(), keys.tolist(), strict=True):
            self._least.set(row, key)

    def _may_use_levels(self) -> bool:
        """Whether idle devices, then load, are all of the rank."""
        devices = self.match.asked.need.devices
        is_default = self._load is not None and self._packs and self._first is None and self._scarce is None
        return is_default and len(devices) == 1 and gpu_choice.is_plain(devices[0].kind)

    def _single_of_levels(self, levels: IdleLevels) -> Callable[[], int | None] | None:
        """The way to ask the common order; None where the class takes few of the hosts that have the devices."""
        tests, devices = self.match.single_rule(), self.match.asked.need.devices[0].number
        if tests is None or self.match.fitting * _MOST_OTHERS < levels.with_at_least(devices):
            return None
        asked = LevelTests(devices, tests, self._recent, self.refused)
        return levels.best_of(asked, self._left_out, self._best_alone)

    def _best_alone(self) -> int | None:
        """The same by an order of the class's own, from now on."""
        dropped = [row for row, at in self._left_out.items() if row not in self._columns.log.rows[at:]]
        self._levels = self.single = None
        self.renew()
        for row in dropped:
            self.drop(row)
        return self.best()

    def _single(self, least: Least) -> Callable[[], int | None] | None:
        """The way to look at what changes host by host; None where only arrays can say it."""
        tests, key_of = self.match.single_rule(), self._single_key()
        if tests is None or key_of is None:
            return None
        return best_of(self._columns, least, tests, key_of, self._is_out, self._look)

    def _is_out(self, row: int) -> bool:
        """Whether a host that has enough for a job of the class takes none for another reason."""
        recent, barred = self._recent, self._barred
        return bool((recent is not None and recent[row]) or (barred is not None and barred[row]))

    def _single_key(self) -> KeyOf | None:
        """The key of one row, as for all; None where only arrays can say it."""
        nothing = np.zeros(self._columns.size)
        if self._by_one_key:
            (key,) = self.match.asked.term.order or ()
            column = None if key.expression is not None else self._columns.number(key.name)
            sign = 1.0 if _is_upward(key, self._rules) else -1.0
            return None if column is None else KeyOf(singly(nothing), singly(column), sign)
        if self._sharing:
            return None
        # All of it are whole numbers and small enough, so it does not matter in which order they are added up.
        base = nothing if self._load is None else self._load
        if self._first is not None:
            base = base + self._first * (self._size * _MOST_PACKED)
        return KeyOf(singly(base), singly(self._idle if self._packs else nothing), self._size)

    def _keys_of(self, rows: RowNumbers) -> HostNumbers:
        keys = self._order[0](rows)
        keys[np.isnan(keys)] = UNKNOWN
        return keys

    def _rank(self, rows: RowNumbers | None) -> HostNumbers:
        """The keys that come before order[]."""
        chosen = slice(None) if rows is None else rows
        if self._load is None:
            keys = np.zeros(self._columns.size if rows is None else len(rows))
        else:
            keys = self._load.copy() if rows is None else self._load[rows]
        if self._packs:
            keys += self._packing(chosen) * self._size
        if self._first is not None:
            keys += self._first[chosen] * (self._size * _MOST_PACKED)
        return keys

    def _packing(self, chosen: slice | RowNumbers) -> HostNumbers:
        """Devices left idle; for a part of a GPU then what is left of that GPU."""
        left = self._idle[chosen]
        for kind, count, values, fresh in self._sharing:
            if kind.packed:
                left = left - np.maximum(0.0, count - (values[chosen] - fresh[chosen]))
            else:
                left = left - np.minimum(count, fresh[chosen])
            if kind.share < 1.0:
                share_left = self._columns.derived(("share_left", kind), _of_kind(gpu_choice.share_left, kind))
                left = left * (_SHARE_STEPS + 1) + np.rint(share_left[chosen] * _SHARE_STEPS)
        return left

    def _first_keys(self) -> HostNumbers | None:
        """0 for the hosts preferred most, 1 for the next level …, behind all of them hosts to avoid."""
        asked, columns = self.match.asked, self._columns
        levels = asked.demand.levels or (asked.queue.host_levels if not asked.demand.asked_hosts else {})
        avoid = columns.index.get(asked.demand.avoid_host)
        if not levels and avoid is None and not asked.demand.other_hosts:
            return None
        given = np.zeros(columns.size)
        for name, level in levels.items():
            if name in columns.index:
                given[columns.index[name]] = level
        keys = np.unique(-given, return_inverse=True)[1].astype(np.float64)
        if asked.demand.other_hosts:
            others = np.ones(columns.size, dtype=np.bool_)
            others[columns.rows_of(asked.demand.asked_hosts)] = False
            keys[others] = keys.max() + 1
        if avoid is not None:
            keys[avoid] += keys.max() + 1
        return keys

    def _least_taken(self, scarce: ScarceHosts, kind: JobKind) -> int:
        """Of the hosts that are preferred most the one where the job takes least from others; then by rank."""
        keys, costs = self._keys, scarce.costs(kind)
        if costs is None:
            return int(keys.argmin())
        costs = np.where(keys < _INFINITY, costs, _INFINITY)
        if self._first is not None:
            costs[self._first > self._first[keys < _INFINITY].min()] = _INFINITY
        least = costs.min()
        if least == _INFINITY:
            return int(keys.argmin())
        rows = np.flatnonzero(costs == least)
        return int(rows[keys[rows].argmin()])

    def _by_order(self, rows: RowNumbers) -> int:
        """The first of the rows, which are equal before order[]."""
        for sorter in self._order:
            if len(rows) == 1:
                break
            keys = sorter(rows)
            least = np.fmin.reduce(keys)  # passes over what is unknown
            if least == least:
                rows = rows[keys == least]
        return int(rows[0])


def _of_kind(
    compute: Callable[[HostLedger, DeviceKind], float], kind: DeviceKind
) -> Callable[[HostSnapshot, HostLedger], float]:
    return lambda _, host_ledger: compute(host_ledger, kind)


def _fresh(columns: HostColumns, kind: DeviceKind) -> HostNumbers:
    return columns.derived(("fresh", kind), _of_kind(gpu_choice.fresh, kind))


def load_ranks(columns: HostColumns) -> HostNumbers:
    """The place of each host by load (r15s, pg), then by name."""
    found: _LoadRanks | None = columns.memo.get("load")
    if found is None or (found.epoch, found.read) != (columns.epoch, columns.standing_log.length):
        loads = []
        for name in ("pg", "r15s"):
            values = columns.number(name)
            loads.append(np.zeros(columns.size) if values is None else np.nan_to_num(values, nan=_INFINITY))
        ranks = np.empty(columns.size)
        ranks[np.lexsort(loads)] = np.arange(columns.size)  # which leaves equal ones in their order
        found = columns.memo["load"] = _LoadRanks(columns.epoch, columns.standing_log.length, ranks)
    return found.ranks


class _LoadRanks(NamedTuple):
    epoch: int
    read: int
    ranks: HostNumbers


def _sorter(key: SortKey, columns: HostColumns, rules: FitRules) -> Callable[[RowNumbers], HostNumbers]:
    """What gives a sort key that is small for the better host, and NaN where nobody knows."""
    is_upward = _is_upward(key, rules)
    compute = None if key.expression is None else compile_numbers(key.expression)

    def keys(rows: RowNumbers) -> HostNumbers:
        if compute is not None:
            values = compute(columns.part(rows))
        else:
            column = columns.number(key.name)
            values = np.full(len(rows), np.nan) if column is None else column[rows]
        return values if is_upward else -values

    return keys


def _is_upward(key: SortKey, rules: FitRules) -> bool:
    """Whether the host with less of it is the better one."""
    return (key.name in rules.increasing) != key.is_reversed
