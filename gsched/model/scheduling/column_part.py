"""Some rows of the columns of hosts, as columns of their own: what many ask of the same rows is found out once.

It never changes a column.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gsched.model.scheduling.row_log import RowNumbers
from gsched.resreq.judging.columns import TextColumn

if TYPE_CHECKING:
    from gsched.model.scheduling.columns import HostColumns

HostNumbers = NDArray[np.float64]
Flags = NDArray[np.bool_]


class ColumnPart:
    """Some rows of columns, as columns of their own. They must not change while it is used."""

    __slots__ = ("_known", "_numbers", "_ranges", "_taken", "_whole", "rows")

    def __init__(self, whole: HostColumns, rows: RowNumbers) -> None:
        self.rows = rows
        self._whole = whole
        self._taken: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}
        """Identity of a column -> the column, its rows."""
        self._known: dict[Hashable, NDArray[Any]] = {}
        self._ranges: dict[int, tuple[float, float]] = {}
        self._numbers: list[int] | None = None

    @property
    def numbers(self) -> list[int]:
        """The rows as plain numbers, not to be written to."""
        if self._numbers is None:
            self._numbers = self.rows.tolist()
        return self._numbers

    @property
    def size(self) -> int:
        return len(self.rows)

    def number(self, name: str) -> HostNumbers | None:
        """The rows of a column of numbers, not to be written to."""
        found = self._whole.number(name)
        return None if found is None else self.of(found)

    def of(self, column: NDArray[Any]) -> NDArray[Any]:
        """The rows of any column, not to be written to."""
        found = self._taken.get(id(column))
        if found is None:
            found = self._taken[id(column)] = (column, column[self.rows])
        return found[1]

    def range_of(self, column: NDArray[Any]) -> tuple[float, float]:
        """The least and the most that the rows have, NaN where nobody knows of one; of no row they are infinite."""
        found = self._ranges.get(id(column))
        if found is None:
            values = self.of(column)  # which keeps the column, and with it its id
            found = float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
            self._ranges[id(column)] = found
        return found

    def short_of(self, column: NDArray[Any], wanted: float) -> Flags:
        """The rows that have less than wanted, or nobody knows what; not to be written to."""
        key = (id(column), wanted)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = ~(self.of(column) >= wanted)  # which also keeps the column, and with it its id
        return found

    def text(self, name: str) -> TextColumn | None:
        """The rows of a column of text."""
        found = self._whole.text(name)
        return None if found is None else _PartOfText(found, self.rows)

    def once(self, key: Hashable, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """What `compute` says of the part, not to be written to; asked once for each key."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = compute()
        return found


class RowValues(Mapping[str, float | str | bool | None]):
    """The values of one row, looked up when they are asked for."""

    __slots__ = ("_columns", "_row")

    def __init__(self, columns: HostColumns, row: int) -> None:
        self._columns = columns
        self._row = row

    def __getitem__(self, name: str) -> float | str | bool | None:
        return self._columns.value(self._row, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns.hosts[self._row].values)

    def __len__(self) -> int:
        return len(self._columns.hosts[self._row].values)


class _PartOfText(TextColumn):
    """Some rows of a column of text. Comparisons are made, and remembered, by the whole column."""

    __slots__ = ("_rows", "_whole")

    def __init__(self, whole: TextColumn, rows: RowNumbers) -> None:
        super().__init__(whole.codes[rows], whole.words)
        self._whole = whole
        self._rows = rows

    def compare(self, op: str, literal: str) -> tuple[Flags, Flags]:
        """As the whole column says."""
        holds, maybe = self._whole.compare(op, literal)
        return holds[self._rows], maybe[self._rows]
