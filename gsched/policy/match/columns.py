"""One class of jobs against all hosts at once: which could take a job, which is the best, and why the others cannot.

The conditions are those of gsched.policy.match.fit_condition; here each has a number, and each host the number of the
first that it does not meet. What was found is kept with the columns between cycles, and only rows that changed are
looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsched.model.queues.queue import Queue
from gsched.model.scheduling.column_part import ColumnPart, Flags, HostNumbers
from gsched.model.scheduling.columns import HostColumns, singly
from gsched.model.scheduling.row_log import RowNumbers
from gsched.policy.match.columns_single import Test
from gsched.policy.match.fit_condition import (
    FitCondition,
    HostCondition,
    HostsView,
    RoomCondition,
    RowTest,
    ValueCondition,
)
from gsched.policy.match.host_conditions import AcceptInterval, SaidByHost, host_conditions
from gsched.policy.match.host_now import FitRules
from gsched.policy.match.room_conditions import room_conditions
from gsched.policy.match.value_conditions import value_conditions
from gsched.policy.requirement.demand import Demand, DemandTerm, HostNeed

ReasonCodes = NDArray[np.uint8]

FITS = 255
"""The code of a host that could take a job. Each other code is the place of a condition in the match's own list."""
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


_Changed = tuple[ColumnPart, ColumnPart]


class _RoomColumn(NamedTuple):
    code: int
    condition: RoomCondition
    column: HostNumbers | Flags | None
    wanted: float


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
        hosts = host_conditions(asked.queue, asked.demand, rules, on_first=asked.on_first)
        values, room = value_conditions(asked.term, rules), room_conditions(asked.need, rules)
        self.conditions: list[FitCondition] = [*hosts, AcceptInterval(asked.queue, rules), *values, *room]
        """By code."""
        self.recent_code = len(hosts)
        """That of AcceptInterval; hosts with a smaller one could not even be planned on."""
        self._first_room = len(self.conditions) - len(room)
        self._room = room
        lasting: list[tuple[int, HostCondition | ValueCondition]] = list(enumerate(hosts))
        lasting += [(code, each) for code, each in enumerate(values, self.recent_code + 1)]
        self._standing_conditions = [(code, each) for code, each in lasting if not each.is_fixed]
        said = [code for code, each in self._standing_conditions if isinstance(each, SaidByHost)]
        self._is_said = np.isin(np.arange(_CODES), said)
        self._stands_by = tuple((code, type(each), each.key) for code, each in self._standing_conditions)
        """All that decides what is standing on a host, but for `_fixed`."""
        self._fixed = self._first_unmet([(code, each) for code, each in lasting if each.is_fixed], columns)
        self._is_fixed = bool((self._fixed != FITS).any())
        self._standing: ReasonCodes = self._fixed
        self._epoch = -1
        self._read = self._read_standing = 0
        self._recent: Flags | None = None
        self._shape = -1
        self._values = values
        self._row_tests: list[RowTest] = []
        """What of the values depends on what is held, as of that shape of the columns."""
        self._looked_at = frozenset(name for each in values for name in each.names)
        self._room_columns: list[_RoomColumn] = []
        """Of each condition of room, the last first, as of the columns' epoch."""

    @property
    def fitting(self) -> int:
        """How many hosts could take a job."""
        return int(self.counts[FITS])

    @property
    def is_live(self) -> bool:
        """Whether what is asked of values depends on what is held."""
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
            self._sync_all(recent, standing)
            return
        self._look_what_stands(some if self.is_live else standing)
        codes = np.minimum(self._standing[some.rows], self._moving_codes(some, recent))
        self._note(some, codes, standing.size > 0)
        self._noted(recent)

    def _look_what_stands(self, part: ColumnPart) -> None:
        if part.size:
            codes = part.once(self._stands_by, lambda: self._first_unmet_of(part))
            self._standing[part.rows] = np.minimum(codes, self._fixed[part.rows]) if self._is_fixed else codes

    def _sync_all(self, recent: Flags | None, standing: ColumnPart | None = None) -> None:
        """`standing`: rows of which more than the ledger has changed; None: all may have."""
        columns = self._columns
        self._epoch = columns.epoch
        self._room_columns = [
            _RoomColumn(min(code, FITS - 1), each, each.column(columns), float(each.wanted))
            for code, each in reversed(list(enumerate(self._room, self._first_room)))
        ]
        if standing is None or self.is_live or standing.size * _FEW > columns.size:
            self._standing = np.minimum(self._first_unmet(self._standing_conditions, columns), self._fixed)
        else:
            self._look_what_stands(standing)
        self.codes = np.minimum(self._standing, self._moving_codes(columns, recent))
        self.counts = np.bincount(self.codes, minlength=_CODES)
        self.revision += 1
        self._noted(recent)

    def _noted(self, recent: Flags | None) -> None:
        self._read, self._read_standing = self._columns.log.length, self._columns.standing_log.length
        self._recent = None if recent is None else recent.copy()

    def _note(self, part: ColumnPart, codes: ReasonCodes, has_standing: bool) -> None:
        rows = part.rows
        old = self.codes[rows]
        differ = old != codes
        if differ.any():
            self.counts += np.bincount(codes[differ], minlength=_CODES)
            self.counts -= np.bincount(old[differ], minlength=_CODES)
            self.codes[rows] = codes
            self.revision += 1
        elif has_standing and self._is_said[old].any():
            self.revision += 1  # the words may be others
        self.changed.update(part.numbers)

    # -- codes ----------------------------------------------------------------------------------------------------

    def _first_unmet(self, conditions: Sequence[tuple[int, FitCondition]], view: HostsView) -> ReasonCodes:
        """The code of the first that is not met, row by row."""
        codes = np.full(view.size, FITS, dtype=np.uint8)
        for code, each in reversed(conditions):
            codes[each.unmet(self._columns, view)] = code
        return codes

    def _first_unmet_of(self, part: ColumnPart) -> ReasonCodes:
        """The code of the first standing condition that is not met, row by row; each is asked once for all classes."""
        codes = np.full(part.size, FITS, dtype=np.uint8)
        for (code, each), (_, *key) in zip(reversed(self._standing_conditions), reversed(self._stands_by), strict=True):
            codes[part.once(tuple(key), partial(each.unmet, self._columns, part))] = code
        return codes

    def _moving_codes(self, view: HostsView, recent: Flags | None) -> ReasonCodes:
        """What changes by what is held."""
        codes = np.full(view.size, FITS, dtype=np.uint8)
        for code, condition, column, wanted in self._room_columns:
            if column is None:
                codes[condition.unmet(self._columns, view)] = code
                continue
            least, most = view.range_of(column)
            if most < wanted:
                codes.fill(code)
            elif not least >= wanted:
                codes[view.short_of(column, wanted)] = code
        if recent is not None:
            codes[view.of(recent)] = self.recent_code
        return codes

    # -- some rows, where only ledgers have changed since the last sync ----------------------------------------------

    def selects(self, row: int) -> bool:
        """Whether the row meets what is asked of values that depend on held things, as the columns show them; the
        rest of it is in the codes.
        """
        columns = self._columns
        if self._shape != columns.shape:
            self._shape = columns.shape
            self._row_tests = [test for each in self._values for test in each.row_tests(columns)]
        for holds in self._row_tests:  # noqa: SIM110  # all() takes twice as long, and this is asked for each job
            if not holds(row):
                return False
        return True

    def single_rule(self) -> list[Test] | None:
        """What a row must have, to be asked of one row at a time; None where columns do not say all of it. Hosts that
        take no more for now are left to the caller.
        """
        stands: Flags = self._standing == FITS
        tests: list[Test] = []
        for _, _, column, wanted in self._room_columns:  # what fails most comes first
            if column is None:
                return None
            tests.append((singly(column), wanted))
        return [*tests, (singly(stands), 1.0)]

    def quick_rule(self, recent: Flags | None) -> Callable[[RowNumbers], Flags]:
        """Which rows could take a job: quicker than the codes. select[] counts as it was at the last sync."""
        columns = self._columns
        stands: Flags = self._standing == FITS

        def fits(rows: RowNumbers) -> Flags:
            found: Flags = stands[rows]
            for _, condition, column, wanted in self._room_columns:
                if column is None:
                    found &= ~condition.unmet(columns, columns.part(rows))
                else:
                    found &= column[rows] >= wanted
            if recent is not None:
                found &= ~recent[rows]
            return found

        return fits


def _changed(columns: HostColumns, read: int, read_standing: int) -> _Changed:
    """(rows of which more than the ledger has changed, all rows that have) since then, ascending. Classes that were
    looked at together ask for the same.
    """
    now = (columns.epoch, columns.log.length, columns.standing_log.length)
    known: tuple[tuple[int, ...], dict[tuple[int, int], _Changed]] = columns.memo.get("changed", ((), {}))
    if known[0] != now:
        known = columns.memo["changed"] = (now, {})
    found = known[1].get((read, read_standing))
    if found is None:
        chosen = np.zeros(columns.size, dtype=np.bool_)
        chosen[columns.standing_log.since(read_standing)] = True
        standing = np.flatnonzero(chosen)
        chosen[columns.log.since(read)] = True
        found = known[1][read, read_standing] = (columns.part(standing), columns.part(np.flatnonzero(chosen)))
    return found
