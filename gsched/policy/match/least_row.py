"""The row of the least key, among many of which a few change between two questions.

The keys are an array, for whoever works on all of them at once; single keys are changed through `set`, which is what
keeps the order. The first few hundred rows are put in order when they are first asked for, the next when these are used
up; rows whose key has changed since stand in a heap. So a question costs a few comparisons, not a look at all keys.
Among equal keys the smaller row is the first, as with `argmin`.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from gsched.model.scheduling.column_part import HostNumbers
from gsched.model.scheduling.columns import singly

_AT_ONCE = 256
"""Rows that are put in order at a time; more if they are equal."""
_INFINITY = float("inf")


class Least:
    """Keys without NaN; infinite ones are no candidates. Nobody else may change the array."""

    __slots__ = ("_bound", "_is_begun", "_keys", "again", "line", "view")

    def __init__(self, keys: HostNumbers) -> None:
        self._keys = keys
        self.view = singly(keys)
        """The keys, for reading one at a time."""
        self.line: list[tuple[float, int]] = []
        """(key, row) of those that were put in order, the least last; out of date unless it is the row's key."""
        self._bound = -_INFINITY
        """All rows whose keys have not changed since are in `line`, up to this key."""
        self._is_begun = False
        self.again: list[tuple[float, int]] = []
        """Heap of (key, row) of what has changed; out of date as above. Infinite keys are never in it."""

    def set(self, row: int, key: float) -> None:
        """The row has this key now."""
        if self.view[row] != key:
            self.view[row] = key
            if key != _INFINITY:
                heappush(self.again, (key, row))

    def row(self) -> int | None:
        """The row of the least key; None when all are infinite."""
        top = self.top()
        return None if top is None else top[1]

    def top(self) -> tuple[float, int] | None:
        """The least key and its row; None when all are infinite."""
        view, again, line = self.view, self.again, self.line
        while again and view[again[0][1]] != again[0][0]:
            heappop(again)
        while True:
            while line and view[line[-1][1]] != line[-1][0]:
                line.pop()
            if line:
                return again[0] if again and again[0] < line[-1] else line[-1]
            if again and again[0][0] <= self._bound and self._is_begun:
                return again[0]
            if self._bound == _INFINITY:
                return None
            self._put_in_order()

    def _put_in_order(self) -> None:
        """The rows that come next."""
        keys = self._keys
        chosen = keys < _INFINITY
        if self._is_begun:
            chosen &= keys > self._bound
        rows = np.flatnonzero(chosen)
        those = keys[rows]
        self._bound = _INFINITY
        if len(rows) > _AT_ONCE:
            self._bound = float(np.partition(those, _AT_ONCE - 1)[_AT_ONCE - 1])
            near = those <= self._bound
            rows, those = rows[near], those[near]
        order = np.argsort(those, kind="stable")[::-1]
        self.line[:] = zip(those[order].tolist(), rows[order].tolist(), strict=True)
        self._is_begun = True
