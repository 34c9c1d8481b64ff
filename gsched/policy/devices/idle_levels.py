"""All hosts by how many devices nobody holds there, then by load: one order for all classes that ask for no other.

A host that was taken from moves once, whichever classes look at it. Each class walks over the few hosts that are better
than its own best one; one that would have to walk far keeps an order of its own (columns_rank). It decides nothing but
which of the hosts that meet what a class asks is the first.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

import numpy as np

from gsched.model.scheduling.column_part import Flags, HostNumbers
from gsched.model.scheduling.columns import singly

MOST_PASSED = 48
"""Hosts that a class walks over for one job."""


class LevelTests(NamedTuple):
    """What a host must meet for a job of one class."""

    devices: int
    """So many that nobody holds."""
    columns: Sequence[tuple[Sequence[float], float]]
    """(values by row, the least that a row must have)."""
    recent: Flags | None
    """Rows that take no more jobs for a moment."""
    refused: Container[int]
    """Rows that the class may not use in this cycle."""


class IdleLevels:
    """In one cycle. Places of hosts are the larger the less load they have, so that the best of a level is its last."""

    def __init__(
        self, changed: list[int], idle: Callable[[], HostNumbers], load_ranks: Callable[[], HostNumbers]
    ) -> None:
        """`changed`: log of the rows that the cycle has taken from, to which others append; `idle`: how many devices of
        each host nobody holds; `load_ranks`: the place of each host by load, from 0. Both are asked when the order is.
        """
        self._changed = changed
        self._sources = idle, load_ranks
        self._idle: Sequence[float] = ()
        self._read = -1
        self._place_of: list[int] = []
        self._level_of: list[int] = []
        self.row_of: list[int] = []
        self.lines: list[list[int]] = []
        """For each number of idle devices the places of the hosts that have just so many, ascending; nobody asks for
        those that have none, and they are left out.
        """

    def _begin(self) -> None:
        idle, load_ranks = (source() for source in self._sources)
        places, levels = (len(idle) - 1 - load_ranks).astype(np.int64), idle.astype(np.int64)
        rows = np.empty_like(places)
        rows[places] = np.arange(len(places))
        self._idle = singly(idle)
        self._read = len(self._changed)
        self._place_of, self._level_of, self.row_of = places.tolist(), levels.tolist(), rows.tolist()
        used = range(1, int(levels.max(initial=0)) + 1)
        self.lines = [[], *(np.sort(places[levels == level]).tolist() for level in used)]

    def with_at_least(self, devices: int) -> int:
        """How many hosts have so many idle devices, 1 or more."""
        if self._read < 0:
            self._begin()
        self.follow()
        return sum(map(len, self.lines[devices:]))

    def follow(self) -> None:
        """Move the hosts that have been taken from since."""
        changed, lines = self._changed, self.lines
        if self._read == len(changed):
            return
        rows = changed[self._read :]
        self._read += len(rows)
        for row in rows:
            level, before = int(self._idle[row]), self._level_of[row]
            if level == before:
                continue
            self._level_of[row] = level
            place, line = self._place_of[row], lines[before]
            if before:
                if line[-1] == place:
                    line.pop()
                else:
                    del line[bisect_left(line, place)]
            while len(lines) <= level:
                lines.append([])
            if level:
                insort(lines[level], place)

    def best_of(
        self, asked: LevelTests, left_out: dict[int, int], too_far: Callable[[], int | None]
    ) -> Callable[[], int | None]:
        """What gives the row of the best host that meets the tests, None when there is none; what `too_far` says when
        it is none of the first.

        `left_out`: rows that are passed over until something changes there -> how long the log was when they were.
        """
        follow, lines, row_of = self.follow, self.lines, self.row_of
        devices, tests, recent, refused = asked
        changed = self._changed

        def is_out(row: int) -> bool:
            if row in refused or (recent is not None and recent[row]):
                return True
            if row not in left_out:
                return False
            if row in changed[left_out[row] :]:
                del left_out[row]
                return False
            left_out[row] = len(changed)
            return True

        def best() -> int | None:
            follow()
            passed = 0
            for line in lines[devices:]:
                for place in reversed(line):
                    row = row_of[place]
                    for values, enough in tests:
                        if not values[row] >= enough:
                            break
                    else:
                        if not is_out(row):
                            return row
                    passed += 1
                    if passed > MOST_PASSED:
                        return too_far()
            return None

        return best
