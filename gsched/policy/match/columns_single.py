"""The best host for one class where what changes is looked at host by host: for a few, quicker than an array operation.

Hosts that were taken from get their new keys when it is the class's turn again; whether one could still take a job is
asked of the best alone, for most that changed never become it. It decides what the keys say and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from gsched.model.scheduling.columns import HostColumns
from gsched.model.scheduling.row_log import RowNumbers
from gsched.policy.match.least_row import Least

UNKNOWN = 1e300
"""Key of a host whose value nobody knows: behind all others."""
_INFINITY = float("inf")
_FEW = 48
"""So many changed hosts are looked at one by one."""
Test = tuple[Sequence[float], float]
"""(values, the least that a row must have)."""


class KeyOf(NamedTuple):
    """The key of a row is `base[row] + column[row] * factor`; where that is NaN, UNKNOWN."""

    base: Sequence[float]
    column: Sequence[float]
    factor: float


def best_of(
    columns: HostColumns,
    least: Least,
    tests: Sequence[Test],
    key_of: KeyOf,
    is_out: Callable[[int], bool],
    look: Callable[[RowNumbers], None],
) -> Callable[[], int | None]:
    """What gives the row of the least key that could take a job, None when there is none; to be called in one cycle.

    `least` has the keys of all rows as they are now. `tests`: what a row must have, the one first that fails most;
    `is_out`: whether another thing keeps the class from it; `look`: renews the keys of many rows.
    """
    changed, tried = columns.log.rows, columns.tried
    view, again, line = least.view, least.again, least.line
    follow = _follower(least, tests[0], key_of, look)
    read = len(changed)

    def takes(row: int) -> bool:
        for values, enough in tests:
            if not values[row] >= enough:
                return False
        return not is_out(row)

    def best() -> int | None:
        nonlocal read
        if read != len(changed):
            rows = changed[read:]
            read += len(rows)
            follow(rows)
        while True:
            while again and view[again[0][1]] != again[0][0]:
                heappop(again)
            while line and view[line[-1][1]] != line[-1][0]:
                line.pop()
            top = line[-1] if line else least.top()
            if top is None:
                return None
            if again and again[0] < top:
                top = again[0]
            row = top[1]
            if row not in tried or takes(row):  # of what nobody has used the key says it
                return row
            view[row] = _INFINITY

    return best


def _follower(
    least: Least, test: Test, key_of: KeyOf, look: Callable[[RowNumbers], None]
) -> Callable[[list[int]], None]:
    """What renews the keys of rows that have changed; of those that do not pass the test they may stay as they were."""
    view, again = least.view, least.again
    base, column, factor = key_of
    values, wanted = test

    def follow(rows: list[int]) -> None:
        if len(rows) > _FEW:
            look(np.array(rows, dtype=np.int64))
            return
        for row in rows:
            if values[row] >= wanted:
                key = base[row] + column[row] * factor
                if key != view[row]:
                    if key != key:
                        key = UNKNOWN
                    view[row] = key
                    if key != _INFINITY:
                        heappush(again, (key, row))

    return follow
