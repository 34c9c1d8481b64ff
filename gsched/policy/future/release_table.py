"""A table of hosts: what is free now and after each expected end. It knows no jobs and no ledger.

Rows are hosts. Ends are UTC seconds, infinite when nobody knows; where a host has fewer holdings than there is room
for, the ends behind its last are NaN.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SPARE = 8
"""Holdings for which a table has room beyond the most that a host had."""


class ReleaseRows(NamedTuple):
    """Some hosts: what is free, and of each holding, by end, the end and what gets free then."""

    free_slots: Floats
    free_gpus: Floats
    end: Floats
    slots: Floats
    gpus: Floats


class ReleaseTable:
    """Hosts as rows, with what is free after each end added up."""

    def __init__(self, rows: ReleaseRows) -> None:
        self.slots, self.gpus, self.end = rows.free_slots, rows.free_gpus, rows.end
        self.slots_after: Floats = np.cumsum(rows.slots, axis=1) + rows.free_slots[:, np.newaxis]
        self.gpus_after: Floats = np.cumsum(rows.gpus, axis=1) + rows.free_gpus[:, np.newaxis]

    @property
    def width(self) -> int:
        """Most holdings of a host."""
        return int(self.end.shape[1])

    def copy(self) -> ReleaseTable:
        return ReleaseTable(self.rows(np.arange(len(self.slots))))

    def rows(self, rows: Ints) -> ReleaseRows:
        """Some rows, as they were given."""
        slots, gpus = self.slots[rows], self.gpus[rows]
        return ReleaseRows(
            slots,
            gpus,
            self.end[rows],
            np.diff(self.slots_after[rows], axis=1, prepend=slots[:, np.newaxis]),
            np.diff(self.gpus_after[rows], axis=1, prepend=gpus[:, np.newaxis]),
        )

    def put(self, places: Ints, rows: ReleaseRows) -> None:
        """Write rows at these places; they have no more holdings than there is room for."""
        width = min(self.width, rows.end.shape[1])
        self.slots[places], self.gpus[places] = rows.free_slots, rows.free_gpus
        self.end[places] = np.nan
        self.end[places, :width] = rows.end[:, :width]
        for table, free, grown in (
            (self.slots_after, rows.free_slots, rows.slots),
            (self.gpus_after, rows.free_gpus, rows.gpus),
        ):
            after = np.cumsum(grown[:, :width], axis=1) + free[:, np.newaxis]
            table[places, :width] = after
            if width < self.width:
                table[places, width:] = after[:, -1:] if width else free[:, np.newaxis]

    def widen(self, width: int) -> None:
        """Make room for so many holdings on each host."""
        if width <= self.width:
            return
        more = width - self.width + SPARE
        self.end = np.pad(self.end, ((0, 0), (0, more)), constant_values=np.nan)
        self.slots_after = np.pad(self.slots_after, ((0, 0), (0, more)), mode="edge")
        self.gpus_after = np.pad(self.gpus_after, ((0, 0), (0, more)), mode="edge")

    def earliest(self, slots: int, gpus: int, rows: Ints) -> Floats:
        """For each row: when so many slots and devices are free; minus infinity for now, NaN for never."""
        enough = (self.slots_after[rows] >= slots) & (self.gpus_after[rows] >= gpus)
        first = enough.argmax(axis=1)
        places = np.arange(len(rows))
        bounds = np.where(enough[places, first], self.end[rows, first], np.nan)
        bounds[(self.slots[rows] >= slots) & (self.gpus[rows] >= gpus)] = -np.inf
        return np.asarray(bounds)
