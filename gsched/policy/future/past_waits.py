"""How long jobs are expected to wait, by how long others like them have waited.

A job is like another if user, queue and number of GPUs are the same; where too few such jobs are known, those of the
queue with as many GPUs, then those of the queue count. Jobs that start at once tell nothing about those that must wait.
It plans nothing, and no cycle asks it. Source of the moving level: adaptive conformal inference, Gibbs and Candès 2021.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, NamedTuple

AT_ONCE_S = 5.0
"""A job that starts so soon has not waited."""
NEWEST = 200
"""Waits that are kept of jobs that are alike."""
LEAST = 10
"""With fewer nothing is said."""
MOST_KINDS = 3_000
"""Beyond them the kind of which no job has started for the longest time is forgotten."""
GOAL = 0.9
"""Share of the jobs that start by their p90."""
STEP = 0.02
"""How much a start outside moves the level at which the p90 is read."""
_LEVELS: Final = (0.5, 3.0)
"""Least and largest level; beyond 1, when waits grow, the p90 is so many times the longest one."""


class PastStart(NamedTuple):
    """A job that has started. Times in seconds, from whatever time on."""

    user: str
    queue: str
    gpus: float
    submitted_at: float
    started_at: float

    @property
    def waited_s(self) -> float:
        return self.started_at - self.submitted_at


@dataclass(frozen=True, slots=True)
class WaitEstimate:
    """How long a job is expected to wait from its submission on, in seconds."""

    p50_s: float
    p90_s: float
    jobs: int
    """So many waits it comes from."""


ToldOfStart = Callable[[PastStart, WaitEstimate | None, float], None]
"""(a job that has started, what would have been said of it, mean wait in seconds)."""


class _Waits:
    """The newest waits of jobs that are alike."""

    __slots__ = ("newest", "ordered")

    def __init__(self) -> None:
        self.newest: deque[float] = deque()
        """In the order in which the jobs started."""
        self.ordered: list[float] = []
        """The same, the shortest first."""

    def add(self, waited_s: float) -> None:
        if len(self.newest) == NEWEST:
            del self.ordered[bisect_left(self.ordered, self.newest.popleft())]
        self.newest.append(waited_s)
        insort(self.ordered, waited_s)


class PastWaits:
    """Waits of jobs that have started, and what they say of the next ones. What is kept is bounded."""

    def __init__(self) -> None:
        self._waits: dict[tuple[object, ...], _Waits] = {}
        """Those of which a job has started most recently come last."""
        self._level = GOAL
        self._count, self._sum_s = 0, 0.0

    @property
    def mean_s(self) -> float:
        """Of all waits."""
        return self._sum_s / self._count if self._count else 0.0

    def note(self, start: PastStart, told: WaitEstimate | None = None) -> None:
        """A job has started; `told`: what had been said of it when it was submitted."""
        if start.waited_s <= AT_ONCE_S:
            return
        self._count, self._sum_s = self._count + 1, self._sum_s + start.waited_s
        for scope in scopes_of(start.user, start.queue, start.gpus):
            waits = self._waits.pop(scope, None) or _Waits()
            waits.add(start.waited_s)
            self._waits[scope] = waits
        while len(self._waits) > MOST_KINDS:
            del self._waits[next(iter(self._waits))]
        if told is not None:
            is_outside = start.waited_s > told.p90_s
            self._level = min(max(self._level + STEP * (is_outside - (1.0 - GOAL)), _LEVELS[0]), _LEVELS[1])

    def estimate(self, user: str, queue: str, gpus: float, waited_s: float = AT_ONCE_S) -> WaitEstimate | None:
        """Of a job that has waited for so long and waits on; None: nobody knows."""
        for scope in scopes_of(user, queue, gpus):
            waits = self._waits.get(scope)
            if waits is None:
                continue
            shorter = bisect_left(waits.ordered, waited_s)
            count = len(waits.ordered) - shorter
            if count >= LEAST:
                p50 = waits.ordered[shorter + _rank(count, 0.5)]
                p90 = waits.ordered[shorter + _rank(count, min(self._level, 1.0))] * max(self._level, 1.0)
                return WaitEstimate(p50, max(p50, p90), count)
        return None


def waits_of(starts: Iterable[PastStart], said: ToldOfStart | None = None) -> PastWaits:
    """What these starts say of others. `said` is told of each what would have been said of it at its submission, by the
    starts before, and the mean wait of these.
    """
    known = PastWaits()
    under_way: list[tuple[float, int, PastStart, WaitEstimate | None]] = []
    for place, start in enumerate(sorted(starts, key=lambda each: each.submitted_at)):
        for earlier, told in _started_by(under_way, start.submitted_at):
            known.note(earlier, told)
        told = known.estimate(start.user, start.queue, start.gpus) if start.waited_s > AT_ONCE_S else None
        if said is not None:
            said(start, told, known.mean_s)
        heappush(under_way, (start.started_at, place, start, told))
    for earlier, told in _started_by(under_way, math.inf):
        known.note(earlier, told)
    return known


def _started_by(
    under_way: list[tuple[float, int, PastStart, WaitEstimate | None]], at: float
) -> Iterator[tuple[PastStart, WaitEstimate | None]]:
    while under_way and under_way[0][0] <= at:
        _, _, start, told = heappop(under_way)
        yield start, told


def scopes_of(user: str, queue: str, gpus: float) -> tuple[tuple[object, ...], ...]:
    """The kinds that a job is of, the narrowest first."""
    return (user, queue, gpus), ("", queue, gpus), ("", queue, "")


def _rank(count: int, level: float) -> int:
    """Place of the quantile among so many: nearest rank."""
    return max(0, math.ceil(level * count) - 1)
