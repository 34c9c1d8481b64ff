"""In which ways several reservations can be on the hosts beside each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from tests.support.serving_order.host_room import HostRoom
from tests.support.serving_order.past_reservation import Reservation
from tests.support.serving_order.serving_history import Moment, Room

MOST_WAYS = 100
"""In which several reservations are tried on the hosts."""


class ReservationWays:
    """At one moment."""

    def __init__(self, moment: Moment, room: HostRoom) -> None:
        self._moment = moment
        self._room = room

    def find(self, reserved: Sequence[Reservation]) -> bool | None:
        """Whether there are hosts for all of them; None if too many ways were tried in vain, the tightest first."""
        first = next(self.every(reserved), False)
        return first if first is None or first is False else True

    def every(self, reserved: Sequence[Reservation]) -> Iterator[list[tuple[Reservation, tuple[int, ...]]] | None]:
        """How they can be on the hosts, as rows of each; None in the end if there are too many ways to try all."""
        known = [each for each in reserved if each.start < math.inf or self._room.fits(each.job, each.then, each.start)]
        tries = MOST_WAYS

        def go_on(rows: list[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
            nonlocal tries
            if len(rows) == len(known):
                yield rows
                return
            each = known[len(rows)]
            placed = list(zip(known, rows, strict=False))
            then = self._beside(each, each.start, placed)
            able, order = self._room.able(each.job, then, each.start), np.argsort(then[:, 0], kind="stable")
            for other, _ in placed:
                if each.start < other.start and each.is_there(other.start):
                    beside = self._beside(other, other.start, placed)
                    able = np.logical_and(able, self._room.able(each.job, beside, each.start))
            for found in combinations([int(row) for row in order if able[row]], each.job.hosts):
                if tries <= 0:
                    return
                tries -= 1
                yield from go_on([*rows, found])

        for rows in go_on([]):
            yield list(zip(known, rows, strict=True))
        if tries <= 0:
            yield None

    def _beside(self, reserved: Reservation, at: float, placed: Sequence[tuple[Reservation, tuple[int, ...]]]) -> Room:
        """What is free when the reservation starts, beside others on these rows."""
        then = reserved.then.copy()
        for other, rows in placed:
            if other.is_there(at):
                then[list(rows)] -= self._moment.needs(other.job)
        return then
