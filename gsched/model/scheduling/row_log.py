"""Rows of a table in the order in which they changed, for readers that each remember how far they have read.

It never says what has changed there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

RowNumbers = NDArray[np.int64]


class RowLog:
    """Rows in the order in which they changed; readers remember how far they have read."""

    __slots__ = ("add", "rows")

    def __init__(self) -> None:
        self.rows: list[int] = []
        """All that was added, for readers of a few rows."""
        self.add = self.rows.append

    @property
    def length(self) -> int:
        return len(self.rows)

    def extend(self, rows: Sequence[int]) -> None:
        """Add several."""
        self.rows.extend(rows)

    def since(self, position: int) -> RowNumbers:
        """What was added after the first `position` rows; a row may come more than once."""
        return np.array(self.rows[position:], dtype=np.int64)

    def clear(self) -> None:
        self.rows.clear()
