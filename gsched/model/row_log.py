"""Rows of a table in the order in which they changed, for readers that each remember how far they have read.

It never says what has changed there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


class RowLog:
    """Rows in the order in which they changed; readers remember how far they have read."""

    __slots__ = ("_rows", "length")

    def __init__(self) -> None:
        self.length = 0
        self._rows: Rows = np.zeros(1024, dtype=np.int64)

    def add(self, row: int) -> None:
        if self.length == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        self._rows[self.length] = row
        self.length += 1

    def extend(self, rows: Sequence[int]) -> None:
        """Add several."""
        length = self.length + len(rows)
        if length > len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros(length, dtype=np.int64)])
        self._rows[self.length : length] = rows
        self.length = length

    def since(self, position: int) -> Rows:
        """What was added after the first `position` rows; a row may come more than once."""
        return self._rows[position : self.length]

    def clear(self) -> None:
        self.length = 0
