"""One class of jobs against all hosts at once: which could take a job, which is the best, and why the others cannot.

The rule is that of host_fit, said in array operations; a property test holds the two together. What was
found is kept with the columns between cycles, and only rows that changed are looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.model.column_part import ColumnPart, Flags, Numbers, RowValues
from gsched.model.columns import HostColumns, singly
from gsched.model.host_ledger import HostLedger
from gsched.model.queue import Queue
from gsched.model.resource import GPU_COUNTERS
from gsched.model.row_log import RowNumbers
from gsched.model.snapshot import HostSnapshot
from gsched.policy.devices import cpu_affinity, gpu_choice
from gsched.policy.match.columns_single import Test
from gsched.policy.match.host_fit import FitRules, is_beyond
from gsched.policy.requirement.demand import Conjunct, Demand, DemandTerm, DeviceKind, HostNeed

ReasonCodes = NDArray[np.uint8]

NOT_IN_QUEUE, NOT_ASKED, EXCLUDED, CLOSED, BUSY, RECENT, KEPT, UNSATISFIED, BEYOND, LOCKED, NOT_EMPTY, SLOTS = range(12)
AMOUNT, DEVICE, FITS = 32, 128, 255
"""Why a host cannot take a job: the smallest code that applies. From AMOUNT on one for each amount that is needed, in
its order, from DEVICE on one for each kind of device."""
_CODES = FITS + 1
_FEW = 8
"""A class is looked at anew on all hosts when more than one in so many have changed."""


@dataclass(frozen=True, slots=True, eq=False)
class TaskRequest:
    """What is placed: some tasks of a term of a class of jobs, in one queue."""

    queue: Queue
    demand: Demand
    term: DemandTerm
    need: HostNeed
    on_first: bool = False
    """Whether it must be one of the first execution hosts that -m names."""


class Match:
    """One class of jobs against all hosts. `codes` says for each host what keeps the class from it, or FITS."""

    def __init__(self, columns: HostColumns, asked: TaskRequest, rules: FitRules) -> None:
        self.asked = asked
        self.codes: ReasonCodes = np.zeros(0, dtype=np.uint8)
        self.counts: NDArray[np.int64] = np.zeros(_CODES, dtype=np.int64)
        self.revision = 0
        """Grows whenever a host's code changes."""
        self.changed: set[int] = set()
        """Rows looked at since whoever keeps reasons emptied it."""
        self._columns = columns
        self._rules = rules
        self._fixed = self._never()
        self._is_fixed = bool((self._fixed != FITS).any())
        self._stands_by = (asked.queue.name, repr(asked.term.requirement.select), asked.term.bounds)
        """All that decides what is standing on a host, but for `_fixed`."""
        self._standing: ReasonCodes = self._fixed
        self._epoch = -1
        self._read = self._read_standing = 0
        self._recent: Flags | None = None
        self._shape = -1
        self._conjuncts: list[Callable[[int], object]] = []
        """Those of select[] that look at what is held, as of that shape of the columns."""
        need, term = asked.need, asked.term
        self._looked_at = term.names | {name for name, _ in term.bounds}
        self.guards_cores = rules.cores_per_gpu > 0 and not need.wants_gpus
        """Whether slots are kept from it for free GPUs."""
        self.amounts: list[tuple[Numbers, float]] = []
        """(what is left on each host, what is wanted) of each amount."""
        self.devices: list[tuple[Numbers, int]] = []
        """(what can be had on each host, what is wanted) of each kind of devices, and last of processor units."""

    @property
    def fitting(self) -> int:
        """How many hosts could take a job."""
        return int(self.counts[FITS])

    @property
    def is_live(self) -> bool:
        """Whether what select[] says depends on what is held."""
        return self._columns.is_live(self._looked_at)

    # -- keeping up -----------------------------------------------------------------------------------------------

    def sync(self, recent: Flags | None) -> None:
        """Bring the codes up to date. `recent`: hosts that take no more jobs for a moment; None: no such rule."""
        columns = self._columns
        if self._epoch != columns.epoch or (self._recent is None) != (recent is None):
            self._sync_all(recent)
            return
        if recent is None and (self._read, self._read_standing) == (columns.log.length, columns.standing_log.length):
            return
        standing, some = _changed(columns, self._read, self._read_standing)
        if recent is not None and self._recent is not None:
            some = columns.part(np.union1d(some.rows, np.flatnonzero(recent != self._recent)))
        if not some.size:
            return
        if some.size * _FEW > columns.size:
            self._sync_all(recent)
            return
        again = some if self.is_live else standing
        if again.size:
            codes = again.once(self._stands_by, lambda: self._standing_codes(again))
            self._standing[again.rows] = np.minimum(codes, self._fixed[again.rows]) if self._is_fixed else codes
        codes = np.minimum(self._standing[some.rows], self._moving_codes(some, recent))
        self._note(some.rows, codes, standing.size > 0)
        self._noted(recent)

    def _sync_all(self, recent: Flags | None) -> None:
        self._epoch = self._columns.epoch
        self._bind()
        self._standing = np.minimum(self._standing_codes(self._columns), self._fixed)
        self.codes = np.minimum(self._standing, self._moving_codes(self._columns, recent))
        self.counts = np.bincount(self.codes, minlength=_CODES)
        self.revision += 1
        self._noted(recent)

    def _noted(self, recent: Flags | None) -> None:
        self._read, self._read_standing = self._columns.log.length, self._columns.standing_log.length
        self._recent = None if recent is None else recent.copy()

    def _note(self, rows: RowNumbers, codes: ReasonCodes, has_standing: bool) -> None:
        old = self.codes[rows]
        differ = old != codes
        if differ.any():
            self.counts += np.bincount(codes[differ], minlength=_CODES)
            self.counts -= np.bincount(old[differ], minlength=_CODES)
            self.codes[rows] = codes
            self.revision += 1
        elif has_standing and ((old == CLOSED) | (old == BUSY)).any():
            self.revision += 1  # the words may be others
        self.changed.update(rows.tolist())

    def selects(self, row: int) -> bool:
        """Whether what select[] and thresholds say of held things holds for the row, as the columns show it; the rest
        of them is in the codes.
        """
        columns, term = self._columns, self.asked.term
        if self._shape != columns.shape:
            self._shape = columns.shape
            self._conjuncts = [self._conjunct(each) for each in term.conjuncts if columns.is_live(each.names)]
        for holds in self._conjuncts:
            if not holds(row):
                return False
        return not term.bounds or not is_beyond(term.bounds, RowValues(columns, row), self._rules.increasing)

    def _conjunct(self, conjunct: Conjunct) -> Callable[[int], object]:
        """Whether a part of select[] holds for a row: quick where one resource is compared with a number."""
        columns, simple = self._columns, conjunct.comparison
        column = None if simple is None else columns.number(simple.name)
        if simple is None or column is None:
            return lambda row: conjunct.holds(RowValues(columns, row))
        values, relation, number = singly(column), simple.relation, simple.number
        return lambda row: relation(values[row], number)  # of NaN no such relation holds

    def single_rule(self) -> list[Test] | None:
        """The same for one row at a time: what must be met. None where it cannot be said so. Locked hosts and those
        that take no more for now are left to the caller.
        """
        if self.guards_cores or self.asked.need.exclusive:
            return None
        stands: Flags = self._standing == FITS
        tests: list[tuple[Numbers | Flags, float]] = [*self.devices, *self.amounts]
        tests += [(self._columns.free, self.asked.need.slots), (stands, 1)]
        return [(singly(values), float(wanted)) for values, wanted in tests]

    def quick_rule(self, recent: Flags | None) -> Callable[[RowNumbers], Flags]:
        """Which rows could take a job, where only books have changed since the last sync: quicker than the codes.

        select[] counts as it was then.
        """
        columns, need = self._columns, self.asked.need
        stands: Flags = self._standing == FITS
        tests: list[tuple[Numbers, float]] = [*self.amounts, *self.devices]
        if not self.guards_cores:
            tests.append((columns.free, need.slots))

        def fits(rows: RowNumbers) -> Flags:
            found: Flags = stands[rows]
            for values, wanted in tests:
                found &= values[rows] >= wanted
            if self.guards_cores:
                found &= self.usable_slots(rows) >= need.slots
            if need.exclusive:
                found &= columns.empty[rows]
            if columns.any_locked:
                found &= ~columns.locked[rows]
            if recent is not None:
                found &= ~recent[rows]
            return found

        return fits

    # -- the rule -------------------------------------------------------------------------------------------------

    def _never(self) -> ReasonCodes:
        """What only a new configuration changes."""
        columns, asked, demand = self._columns, self.asked, self.asked.demand
        codes = np.full(columns.size, FITS, dtype=np.uint8)
        for row, host in enumerate(columns.hosts):
            if host.exclusive_resources and asked.term.names.isdisjoint(host.exclusive_resources):
                codes[row] = KEPT
        if demand.excluded_hosts:
            codes[columns.rows_of(demand.excluded_hosts)] = EXCLUDED
        if asked.on_first:
            self._keep(codes, demand.first_hosts, NOT_ASKED)
        if demand.asked_hosts and not demand.other_hosts:
            self._keep(codes, [*demand.asked_hosts, *demand.first_hosts], NOT_ASKED)
        members = self._rules.queue_hosts.get(asked.queue.name)
        if members is not None:
            self._keep(codes, members, NOT_IN_QUEUE)
        return codes

    def _keep(self, codes: ReasonCodes, names: Iterable[str], code: int) -> None:
        others = np.ones(self._columns.size, dtype=np.bool_)
        others[self._columns.rows_of(names)] = False
        codes[others] = code

    def _standing_codes(self, view: HostColumns | ColumnPart) -> ReasonCodes:
        """What does not change by what is held, except for a select[] that looks at that."""
        columns, queue = self._columns, self.asked.queue.name
        codes = np.full(view.size, FITS, dtype=np.uint8)
        for name, bound in self.asked.term.bounds:
            codes[self._beyond(view, name, bound)] = BEYOND
        codes[~self.asked.term.mask(view).holds] = UNSATISFIED
        busy = columns.standing(("busy", queue), lambda host: bool(host.busy.get(queue) or host.busy.get("")))
        codes[view.of(busy) > 0] = BUSY
        codes[view.of(columns.standing("closed", is_closed)) > 0] = CLOSED
        return codes

    def _beyond(self, view: HostColumns | ColumnPart, name: str, bound: float) -> Flags:
        values = view.number(name)
        if values is None:
            return np.ones(view.size, dtype=np.bool_)
        fine: Flags = values <= bound if name in self._rules.increasing else values >= bound
        return ~fine

    def _moving_codes(self, view: HostColumns | ColumnPart, recent: Flags | None) -> ReasonCodes:
        """What changes by what is held."""
        columns, need = self._columns, self.asked.need
        free = view.of(columns.free)
        codes = np.full(len(free), FITS, dtype=np.uint8)
        for number, (values, count) in reversed(list(enumerate(self.devices))):
            codes[view.of(values) < count] = DEVICE + min(number, FITS - DEVICE - 1)
        for number, (values, wanted) in reversed(list(enumerate(self.amounts))):
            codes[~(view.of(values) >= wanted)] = AMOUNT + min(number, DEVICE - AMOUNT - 1)
        if self.guards_cores:
            codes[self.usable_slots(view.rows if isinstance(view, ColumnPart) else None) < need.slots] = SLOTS
        codes[free < need.slots] = SLOTS
        if need.exclusive:
            codes[~view.of(columns.empty)] = NOT_EMPTY
        if columns.any_locked:
            codes[view.of(columns.locked)] = LOCKED
        if recent is not None:
            codes[view.of(recent)] = RECENT
        return codes

    def usable_slots(self, rows: RowNumbers | None = None) -> Numbers:
        """Free slots of hosts, without those that are kept for their free GPUs."""
        chosen = slice(None) if rows is None else rows
        free = self._columns.free[chosen]
        return free - self._rules.cores_per_gpu * self.idle[chosen] if self.guards_cores else free

    def _bind(self) -> None:
        """Look up the columns; they stay the same until the columns' epoch changes."""
        columns, need = self._columns, self.asked.need
        nothing = np.full(columns.size, np.nan)
        found = ((columns.number(name), amount) for name, amount in need.amounts.items())
        self.amounts = [(nothing if values is None else values, amount) for values, amount in found]
        self.devices = [
            (columns.derived(kind, _obtainable(kind), counts_idle=gpu_choice.is_plain(kind)), count)
            for kind, count in need.devices
        ]
        if need.auto_gpu and not need.devices:
            self.devices = [(columns.derived("any", lambda _, books: gpu_choice.obtainable_any(books)), 1)]
        if need.affinity is not None:
            self.devices.append((self.task_room, need.slots))

    @property
    def task_room(self) -> Numbers:
        """How many tasks the free processor units of each host could take; of a job with affinity[]."""
        asked = self.asked.need.affinity
        assert asked is not None
        return self._columns.derived(asked, lambda _, books: cpu_affinity.room(books, asked))

    @property
    def idle(self) -> Numbers:
        """Devices of each host that nobody holds."""
        return self._columns.derived("idle", lambda _, books: books.idle(), counts_idle=True)


def _obtainable(kind: DeviceKind) -> Callable[[HostSnapshot, HostLedger], float]:
    claim, is_counter, is_plain = kind.claim, kind.claim in GPU_COUNTERS, gpu_choice.is_plain(kind)

    def obtainable(host: HostSnapshot, books: HostLedger) -> float:
        if is_counter and claim not in host.values:
            return 0  # a counter can be claimed where it is mapped only
        return books.idle(claim) if is_plain else gpu_choice.obtainable(books, kind)

    return obtainable


def _changed(columns: HostColumns, read: int, read_standing: int) -> tuple[ColumnPart, ColumnPart]:
    """(rows of which more than the books has changed, all rows that have) since then, ascending. All classes that were
    looked at in the cycle before ask for the same.
    """
    since = (columns.epoch, read, read_standing, columns.log.length, columns.standing_log.length)
    kept: tuple[tuple[int, ...], tuple[ColumnPart, ColumnPart]] | None = columns.memo.get("changed")
    if kept is None or kept[0] != since:
        chosen = np.zeros(columns.size, dtype=np.bool_)
        chosen[columns.standing_log.since(read_standing)] = True
        standing = np.flatnonzero(chosen)
        chosen[columns.log.since(read)] = True
        kept = (since, (columns.part(standing), columns.part(np.flatnonzero(chosen))))
        columns.memo["changed"] = kept
    return kept[1]


def is_closed(host: HostSnapshot) -> bool:
    """Whether the host says itself that it takes nothing."""
    return bool(host.closed)
