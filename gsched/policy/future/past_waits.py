"""How long jobs are expected to wait, by how long others like them have waited, and how far off that would have been.

A job is like another if user, queue and number of GPUs are the same; where too few such jobs are known, those of the
queue with as many GPUs, then those of the queue count. Jobs that start at once tell nothing about those that must wait.
It plans nothing, and no cycle asks it. Source of the moving level: adaptive conformal inference, Gibbs and Candès 2021.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, NamedTuple

AT_ONCE_S = 5.0
"""A job that starts so soon has not waited."""
NEWEST = 200
"""Waits that are kept of jobs that are alike."""
LEAST = 10
"""With fewer nothing is said."""
GOAL = 0.9
"""Share of the jobs that start by their p90."""
STEP = 0.02
"""How much a start outside moves the level at which the p90 is read."""
MINUTE_S = 60.0
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


@dataclass(slots=True)
class EstimateErrors:
    """How far off estimates were that were made when jobs were submitted, each by the jobs that had started by then."""

    waited: int = 0
    """Jobs that had to wait."""
    inside: list[bool] = field(default_factory=list)
    """Of each that an estimate was made of, whether it started by its p90."""
    off_s: list[float] = field(default_factory=list)
    """How far it started from its p50."""
    mean_off_s: list[float] = field(default_factory=list)
    """How far from the mean wait of all that had started: the constant guess."""

    @property
    def share_inside(self) -> float | None:
        return sum(self.inside) / len(self.inside) if self.inside else None

    def within_minute(self, off_s: Sequence[float]) -> float | None:
        """The share that is off by no more than a minute."""
        return sum(each <= MINUTE_S for each in off_s) / len(off_s) if off_s else None

    @staticmethod
    def median(off_s: Sequence[float]) -> float | None:
        """In seconds."""
        return _quantile(sorted(off_s), 0.5) if off_s else None


class PastWaits:
    """Waits of jobs that have started, and what they say of the next ones."""

    def __init__(self) -> None:
        self._waits: dict[tuple[object, ...], deque[float]] = {}
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
        for scope in _scopes(start.user, start.queue, start.gpus):
            self._waits.setdefault(scope, deque(maxlen=NEWEST)).append(start.waited_s)
        if told is not None:
            is_outside = start.waited_s > told.p90_s
            self._level = min(max(self._level + STEP * (is_outside - (1.0 - GOAL)), _LEVELS[0]), _LEVELS[1])

    def estimate(self, user: str, queue: str, gpus: float, waited_s: float = AT_ONCE_S) -> WaitEstimate | None:
        """Of a job that has waited for so long and waits on; None: nobody knows."""
        for scope in _scopes(user, queue, gpus):
            ordered = sorted(self._waits.get(scope, ()))
            longer = ordered[bisect_left(ordered, waited_s) :]
            if len(longer) >= LEAST:
                p50, p90 = _quantile(longer, 0.5), _quantile(longer, min(self._level, 1.0)) * max(self._level, 1.0)
                return WaitEstimate(p50, max(p50, p90), len(longer))
        return None


def waits_of(starts: Iterable[PastStart]) -> tuple[PastWaits, EstimateErrors]:
    """What these starts say of others, and how far off it was, job by job, with what was known at each submission."""
    known, errors = PastWaits(), EstimateErrors()
    under_way: list[tuple[float, int, PastStart, WaitEstimate | None]] = []
    for place, start in enumerate(sorted(starts, key=lambda each: each.submitted_at)):
        for earlier, told in _started_by(under_way, start.submitted_at):
            known.note(earlier, told)
        told = known.estimate(start.user, start.queue, start.gpus) if start.waited_s > AT_ONCE_S else None
        _judge(errors, start, told, known.mean_s)
        heappush(under_way, (start.started_at, place, start, told))
    for earlier, told in _started_by(under_way, math.inf):
        known.note(earlier, told)
    return known, errors


def _started_by(
    under_way: list[tuple[float, int, PastStart, WaitEstimate | None]], at: float
) -> Iterator[tuple[PastStart, WaitEstimate | None]]:
    while under_way and under_way[0][0] <= at:
        _, _, start, told = heappop(under_way)
        yield start, told


def _judge(errors: EstimateErrors, start: PastStart, told: WaitEstimate | None, mean_s: float) -> None:
    errors.waited += start.waited_s > AT_ONCE_S
    if told is not None:
        errors.inside.append(start.waited_s <= told.p90_s)
        errors.off_s.append(abs(start.waited_s - told.p50_s))
        errors.mean_off_s.append(abs(start.waited_s - mean_s))


def _scopes(user: str, queue: str, gpus: float) -> tuple[tuple[object, ...], ...]:
    """The narrowest first."""
    return (user, queue, gpus), ("", queue, gpus), ("", queue, "")


def _quantile(ordered: Sequence[float], level: float) -> float:
    """Nearest rank."""
    return ordered[max(0, math.ceil(level * len(ordered)) - 1)]
