"""The values of all hosts in columns, so that a class of jobs is matched against all hosts at once.

A row is a host, rows are in the order of host names. Columns are made when they are first asked for and then kept up
to date row by row: whoever keeps them between cycles says which hosts have changed. Nothing here decides anything.
It satisfies gsched.resreq.judging.columns.ValueColumns: numbers are float64 with NaN for unknown, Booleans are 1 and 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, MutableSequence, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gsched.model.hosts.resource import GPU_COUNTERS
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.ledgers.ledger import Ledger
from gsched.model.scheduling.column_part import ColumnPart, Flags, HostNumbers
from gsched.model.scheduling.row_log import RowLog, RowNumbers
from gsched.model.scheduling.snapshot import HostSnapshot
from gsched.resreq.judging.columns import TextColumn

MOST_LOGGED = 4
"""How many times the number of hosts the log of changes holds before it begins anew."""


def singly(column: HostNumbers | Flags) -> MutableSequence[float]:
    """The column itself for one row at a time, which costs a third of what the array takes for it."""
    return cast("MutableSequence[float]", column.data)


class HostColumns:
    """All hosts of a cluster, and which rows have changed."""

    def __init__(self, hosts: Mapping[str, HostSnapshot], ledger: Ledger) -> None:
        self.names: list[str] = sorted(hosts)
        self.index: dict[str, int] = {name: row for row, name in enumerate(self.names)}
        self.hosts: list[HostSnapshot] = [hosts[name] for name in self.names]
        self.ledger = ledger
        """The ledger that the columns show."""
        self.memo: dict[Hashable, Any] = {}
        """What others derive from the columns and keep with them; forgotten with them."""
        self.log = RowLog()
        """Rows whose ledgers have changed."""
        self.standing_log = RowLog()
        """Rows of which more than the ledger has changed."""
        self.lasting: set[int] = set()
        """Rows whose ledgers have changed for good, not for trying, since whoever keeps what is expected
        there (gsched.policy.future.releases) last emptied it."""
        self.tried: set[int] = set()
        """Rows that a cycle has used since `show`."""
        self.kept_of_rows: dict[int, Any] = {}
        """What others keep with a row for as long as its ledger does not change for good."""
        self._before: list[tuple[NDArray[Any], NDArray[Any]]] | None = None
        """Columns of the ledger, with what they showed before the first of these rows was used; None: not known of all
        columns, so rows must be read again."""
        self.epoch = 0
        """Grows when the logs begin anew: whoever reads them begins anew too."""
        self.shape = 0
        """Grows when there are more columns of what the ledgers say, or others."""
        size = len(self.names)
        self.free: HostNumbers = np.zeros(size)
        """Free slots, infinite without a limit."""
        self._free = singly(self.free)
        self.empty: Flags = np.zeros(size, dtype=np.bool_)
        """Whether nothing is held there."""
        self.unlocked: Flags = np.zeros(size, dtype=np.bool_)
        """Whether no exclusive job runs there."""
        self._numbers: dict[str, HostNumbers] = {}
        self._texts: dict[str, TextColumn] = {}
        self._amounts: dict[str, MutableSequence[float]] = {}
        self._counts: dict[str, MutableSequence[float]] = {}
        """Those of `_numbers` that depend on the ledger: on what is reserved, and on slots and devices."""
        self._reserved: set[str] = {"slots", *GPU_COUNTERS}
        self._shared: dict[str, HostNumbers] = {}
        """Of resources that hosts share: what is left for each host, whichever of them holds the rest."""
        self._shared_rows: dict[str, tuple[RowNumbers, float]] = {}
        """Instance of one -> its rows, and what is shown there."""
        self._of_hosts: dict[Hashable, tuple[Callable[[HostSnapshot], float], HostNumbers]] = {}
        self._derived: dict[
            Hashable, tuple[Callable[[HostSnapshot, HostLedger], float], HostNumbers, MutableSequence[float]]
        ] = {}
        self._idle_counts: dict[Hashable, MutableSequence[float]] = {}
        """Those of them, and of the counters, that count GPUs which nobody holds: see `taking`."""
        self._others: list[tuple[Callable[[HostSnapshot, HostLedger], float], MutableSequence[float]]] = []
        """Those of them that do not."""
        for row in range(size):
            self._read_ledger(row, devices=False)

    @property
    def size(self) -> int:
        return len(self.names)

    def host_ledger(self, row: int) -> HostLedger:
        """The ledger of a row's host."""
        return self.ledger.host(self.names[row])

    # -- columns --------------------------------------------------------------------------------------------------

    def number(self, name: str) -> HostNumbers | None:
        """What is left of a resource on each host; None if it is one of text."""
        found = self._shared.get(name)
        if found is not None:
            return found
        found = self._numbers.get(name)
        if found is None:
            if name in self._texts or any(isinstance(host.values.get(name), str) for host in self.hosts):
                return None
            found = self._numbers[name] = np.array(
                [_number(host, self.ledger.host(host.name), name) for host in self.hosts], np.float64
            )
            if name in self._reserved:
                self._changed_shape()
                (self._counts if name in _DEVICE_OR_SLOT else self._amounts)[name] = singly(found)
                if name in _IDLE_COUNTERS:
                    self._idle_counts[name] = singly(found)
        return found

    def text(self, name: str) -> TextColumn | None:
        """The values of a resource of text; what is no text is unknown."""
        found = self._texts.get(name)
        if found is None:
            values = (host.values.get(name) for host in self.hosts)
            found = self._texts[name] = TextColumn.of(value if isinstance(value, str) else None for value in values)
        return found

    def derived(
        self, key: Hashable, compute: Callable[[HostSnapshot, HostLedger], float], *, counts_idle: bool = False
    ) -> HostNumbers:
        """A column of what `compute` says of each host's GPUs and their holders. `key` stands for the function.

        `counts_idle`: it falls by one with each GPU that nobody held and that is taken whole, unless it is 0.
        """
        found = self._derived.get(key)
        if found is None:
            values = np.array([compute(host, self.ledger.host(host.name)) for host in self.hosts], np.float64)
            found = self._derived[key] = (compute, values, singly(values))
            self._changed_shape()
            if counts_idle:
                self._idle_counts[key] = found[2]
            else:
                self._others.append((compute, found[2]))
        return found[1]

    def standing(self, key: Hashable, compute: Callable[[HostSnapshot], float]) -> HostNumbers:
        """A column of what `compute` says of each host without its ledger. `key` stands for the function."""
        found = self._of_hosts.get(key)
        if found is None:
            values = np.array([compute(host) for host in self.hosts], np.float64)
            found = self._of_hosts[key] = (compute, values)
        return found[1]

    def is_live(self, names: Iterable[str]) -> bool:
        """Whether one of these resources depends on the ledger."""
        return not self._reserved.isdisjoint(names)

    def value(self, row: int, name: str) -> float | str | bool | None:
        """What a host has left of a resource. Raises KeyError where there is no such resource."""
        value = math.inf if name == "slots" else self.hosts[row].values[name]
        if name not in self._reserved or not (name in _DEVICE_OR_SLOT or isinstance(value, float | int)):
            return value
        column = self.number(name)
        if column is None:
            return value
        left: float = column.data[row]
        return left if left == left else None

    def of(self, column: NDArray[Any]) -> NDArray[Any]:
        """The column itself: as of a part."""
        return column

    def range_of(self, column: NDArray[Any]) -> tuple[float, float]:
        """The least and the most that the rows could have: as of a part, which knows it."""
        return -math.inf, math.inf

    def short_of(self, column: NDArray[Any], wanted: float) -> Flags:
        """The rows that have less than wanted, or nobody knows what: as of a part."""
        found: Flags = ~(column >= wanted)
        return found

    def part(self, rows: RowNumbers) -> ColumnPart:
        """Some rows, as columns."""
        return ColumnPart(self, rows)

    def rows_of(self, names: Iterable[str]) -> RowNumbers:
        """The rows of the hosts of these names, ascending; names of no host are passed over."""
        index = self.index
        return np.array(sorted({index[name] for name in names if name in index}), dtype=np.int64)

    def shared_left(self, row: int) -> dict[str, float | None]:
        """What is left for a host of the resources that it shares with others; None: nobody knows."""
        found = {name: float(column[row]) for name, column in self._shared.items() if name in self.hosts[row].values}
        return {name: None if math.isnan(left) else left for name, left in found.items()}

    # -- changes --------------------------------------------------------------------------------------------------

    def try_out(self, row: int, *, devices: bool = True) -> None:
        """The ledger of the row has changed, by a cycle that works on a fork: `show` looks at the host once
        more. `devices`: who holds its GPUs has changed too.
        """
        if not self.tried:
            self._remember()
        self.tried.add(row)
        self._read_ledger(row, devices=devices)
        self.log.add(row)

    def taking(self, part: HostAllocation) -> Callable[[int, Mapping[str, float]], None]:
        """What says that a cycle has taken such a part on a host, where that needs no look at the ledger, as its GPUs
        are alike (HostLedger.idle_alike). It is given the row, and what is reserved there now; it serves while `shape`
        is the same.
        """
        if not self._reserved.issuperset(part.amounts):
            self._reserve(part.amounts)
        slots, count, tried, hosts, note = part.slots, len(part.gpus), self.tried, self.hosts, self.log.rows.append
        by_slots = [self._free, *([self._counts["slots"]] if "slots" in self._counts else [])]
        amounts = [(name, self._amounts[name]) for name in part.amounts if name in self._amounts]
        by_gpus = [*self._idle_counts.values()] if count else []
        if count and part.gpus[0].claim == "ngpus" and "ngpus" in self._counts:
            by_gpus.append(self._counts["ngpus"])
        others = self._others if count else []
        empty = singly(self.empty)

        def take(row: int, reserved: Mapping[str, float]) -> None:
            if not tried:
                self._remember()
            tried.add(row)
            empty[row] = False
            for column in by_slots:
                column[row] -= slots
            for name, column in amounts:
                column[row] = hosts[row].values[name] - reserved[name]  # type: ignore[operator]  # there is enough of it
            for column in by_gpus:
                if column[row]:
                    column[row] -= count
            for compute, column in others:
                column[row] = compute(hosts[row], self.host_ledger(row))
            note(row)

        return take

    def share(self, key: str, resource: str, hosts: Sequence[str], left: float, *, tries: bool) -> None:
        """So much (NaN: nobody knows) is left of an instance, called `key`, of a resource that these hosts share.

        `tries`: a cycle has taken of it for trying; otherwise it is so when a cycle begins.
        """
        if resource not in self._shared:
            self._shared[resource] = np.full(self.size, np.nan)
            self._reserved.add(resource)
            self._numbers.pop(resource, None)
            self._amounts.pop(resource, None)
            self._changed_shape()
            self._begin_anew()
        known = self._shared_rows.get(key)
        rows, shown = (self.rows_of(hosts), math.nan) if known is None else known
        self._shared_rows[key] = (rows, left)
        if shown == left or (math.isnan(shown) and math.isnan(left)):
            return
        self._shared[resource][rows] = left
        if tries:
            if not self.tried:
                self._remember()
            self.tried.update(rows.tolist())
        self.log.extend(rows.tolist())

    def renew(self, host: HostSnapshot) -> None:
        """The host has new values. It must be one of these."""
        row = self.index[host.name]
        self._before = None
        old, self.hosts[row] = self.hosts[row], host
        if old.values is not host.values:
            ledger = self.ledger.host(host.name)
            for name, column in self._numbers.items():
                value = host.values.get(name)
                if isinstance(value, str):
                    self._forget_kinds()
                    break
                if name not in _DEVICE_OR_SLOT or (name in old.values) is not (name in host.values):
                    column[row] = _number(host, ledger, name)  # what the ledger alone decides is as it was
            for name in [name for name in self._texts if old.values.get(name) != host.values.get(name)]:
                del self._texts[name]
        for compute_standing, column in self._of_hosts.values():
            column[row] = compute_standing(host)
        self.standing_log.add(row)

    def show(self, ledger: Ledger, changed: Iterable[str]) -> None:
        """Show this ledger from now on, of which the hosts named differ from those shown before."""
        self.ledger = ledger
        index = self.index
        lasting = {index[name] for name in changed if name in index}
        self.lasting |= lasting
        for row in lasting:
            self.kept_of_rows.pop(row, None)
        again = lasting | self._take_back(sorted(self.tried - lasting))
        for row in sorted(again):
            self._read_ledger(row, devices=True)
        self.log.extend(sorted(self.tried | lasting))
        self.tried.clear()
        if self.log.length + self.standing_log.length > MOST_LOGGED * self.size + 1024:
            self._begin_anew()

    def _reserve(self, names: Iterable[str]) -> None:
        """From now on what is left of these resources depends on the ledger."""
        self._reserved.update(names)
        known = self._reserved & self._numbers.keys()
        self._amounts = {name: singly(self._numbers[name]) for name in known - _DEVICE_OR_SLOT}
        self._changed_shape()

    def _changed_shape(self) -> None:
        self.shape += 1
        self._before = None

    def _remember(self) -> None:
        """Rows begin to be used for trying: `_take_back` undoes it."""
        names = [*self._amounts, *self._counts]
        of_ledgers = [self.free, self.empty, self.unlocked, *(self._numbers[name] for name in names)]
        of_ledgers += [values for _, values, _ in self._derived.values()]
        self._before = [(column, column.copy()) for column in of_ledgers]

    def _take_back(self, rows: list[int]) -> set[int]:
        """Show rows as they were before they were used; those that must be read again."""
        if self._before is None:
            return set(rows)
        is_few = 2 * len(rows) < self.size  # all others are as they were
        places: slice | RowNumbers = np.array(rows, dtype=np.int64) if is_few else slice(None)
        for column, before in self._before:
            column[places] = before[places]
        return set()

    def _begin_anew(self) -> None:
        self.log.clear()
        self.standing_log.clear()
        self.epoch += 1

    def _forget_kinds(self) -> None:
        """A resource has another type than before: all columns are read anew."""
        self._numbers.clear()
        self._texts.clear()
        self._amounts.clear()
        for name in self._counts:
            self._idle_counts.pop(name, None)
        self._counts.clear()
        self._changed_shape()
        self._begin_anew()

    def _read_ledger(self, row: int, *, devices: bool) -> None:
        host = self.hosts[row]
        ledger = self.ledger.host(host.name)
        most = ledger.max_slots
        free = math.inf if most is None else most - ledger.slots_used
        self._free[row] = free if free > 0 else 0
        self.empty[row] = not ledger.held
        self.unlocked[row] = ledger.exclusive is None
        reserved = ledger.reserved
        if not self._reserved.issuperset(reserved):
            self._reserve(reserved)
        values = host.values
        for name, amounts in self._amounts.items():
            value = values.get(name)
            left = value - reserved.get(name, 0.0) if type(value) is float else _number(host, ledger, name)
            amounts[row] = left
        for name, counts in self._counts.items():
            if devices or name not in GPU_COUNTERS:
                counts[row] = _number(host, ledger, name)
        if devices:
            for compute, _, one in self._derived.values():
                one[row] = compute(host, ledger)


_DEVICE_OR_SLOT = frozenset({"slots", *GPU_COUNTERS})
_IDLE_COUNTERS = frozenset({"ngpus_shared", "ngpus_excl_t", "ngpus_excl_p"})
"""Counters of which one less is left for each GPU that nobody held and that is taken whole."""


def _number(host: HostSnapshot, ledger: HostLedger, name: str) -> float:
    if name == "slots":
        return math.inf if ledger.free_slots is None else ledger.free_slots
    value = host.values.get(name, _ABSENT)
    if name in GPU_COUNTERS:
        left = None if value is _ABSENT else ledger.left(name)
        return math.nan if left is None else left
    if not isinstance(value, float | int):
        return math.nan
    return float(value - ledger.reserved.get(name, 0.0)) if ledger.reserved else float(value)


_ABSENT = object()


def values_of(column: TextColumn | HostNumbers | None, rows: Sequence[int]) -> list[Any]:
    """The values of some rows, None where they are unknown."""
    if column is None:
        return [None] * len(rows)
    if isinstance(column, TextColumn):
        words: list[str | None] = [*column.words, None]
        return [words[column.codes[row]] for row in rows]
    return [None if math.isnan(value) else value for value in column[list(rows)].tolist()]
