"""How much work waits before a job, and how fast it gets done: a first guess of how long the job waits.

Work is GPUs times seconds; of jobs without GPUs it is slots times seconds, and neither kind waits for the other here. A
job waits for the work of all that wait with no more GPUs than it wants, in queues of no lower priority: smaller ones
fit before it. It gets done by as many GPUs as started jobs hold. The guess is rough; what it is worth is for
gsched.policy.future.wait_forecasts to find out. It plans nothing. What it costs depends on the kinds of jobs that wait,
not on their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

SOONEST_S = 20.0
"""Added to each guess: however little waits, something has to end first."""


class WaitingShape(NamedTuple):
    """What a job takes."""

    queue: str
    gpus: float
    """On all its hosts together; of a shared GPU its part."""
    slots: int
    stated_s: float | None = None
    """Its run limit, or its estimate without one; None: nothing was said."""

    @property
    def size(self) -> float:
        """What it takes of that which it waits for."""
        return self.gpus or float(self.slots)


@dataclass(slots=True)
class _KindWaiting:
    """Jobs that wait with as many GPUs in one queue."""

    jobs: int = 0
    stated: float = 0.0
    """Size times stated seconds of those that have stated some."""
    unstated: float = 0.0
    """Size of the others."""

    def add(self, shape: WaitingShape, count: int) -> None:
        self.jobs += count
        if shape.stated_s is None:
            self.unstated += count * shape.size
        else:
            self.stated += count * shape.size * shape.stated_s


class _MeanRun:
    """How long jobs run in the mean, each in a unit of its own. Those that still run count: the time that all have run
    is divided by the number of ends, as of an exponential distribution with censored values.
    """

    def __init__(self) -> None:
        self._ended, self._ends = 0.0, 0
        self._running, self._begun = 0.0, 0.0
        """Sums over those that run: 1 / unit, begin / unit."""

    def begin(self, at: float, unit_s: float) -> None:
        self._running += 1.0 / unit_s
        self._begun += at / unit_s

    def end(self, begun_at: float, at: float, unit_s: float) -> None:
        self._running -= 1.0 / unit_s
        self._begun -= begun_at / unit_s
        self._ended += max(0.0, at - begun_at) / unit_s
        self._ends += 1

    def mean(self, now: float) -> float:
        return max(0.0, self._ended + now * self._running - self._begun) / (self._ends + 1)


class WaitingWork:
    """Of one cluster. Times are seconds, from whatever time on."""

    def __init__(self) -> None:
        self._priorities: Mapping[str, int] = {}
        self._waiting: dict[int, tuple[WaitingShape, int]] = {}
        self._kinds: dict[tuple[str, float], _KindWaiting] = {}
        self._running: dict[int, tuple[WaitingShape, float]] = {}
        self._held_gpus, self._held_slots = 0.0, 0.0
        """By started jobs with GPUs, and by those without."""
        self._share = _MeanRun()
        """Of what they have stated."""
        self._run_s = _MeanRun()

    def configure(self, priorities: Mapping[str, int]) -> None:
        """Queue -> PRIORITY; one that is not named has the least."""
        self._priorities = priorities

    def wait(self, number: int, shape: WaitingShape, count: int = 1) -> None:
        """So many jobs (elements of an array) of that number wait."""
        self.leave(number)
        if count > 0:
            self._waiting[number] = shape, count
            self._kinds.setdefault((shape.queue, shape.gpus), _KindWaiting()).add(shape, count)

    def leave(self, number: int, left: int = 0) -> None:
        """Of that number no more than `left` wait any more."""
        shape, count = self._waiting.get(number, (None, 0))
        if shape is None or left >= count:
            return
        kind = self._kinds[shape.queue, shape.gpus]
        kind.add(shape, left - count)
        if left > 0:
            self._waiting[number] = shape, left
        else:
            del self._waiting[number]
        if not kind.jobs:  # and with it what was lost to rounding
            del self._kinds[shape.queue, shape.gpus]

    def begin(self, number: int, shape: WaitingShape, at: float) -> None:
        """A job has started."""
        self.end(number, at)
        self._running[number] = shape, at
        self._hold(shape, 1)
        self._run_s.begin(at, 1.0)
        if shape.stated_s:
            self._share.begin(at, shape.stated_s)

    def end(self, number: int, at: float) -> None:
        """An attempt is over, if one of that number has begun."""
        shape, begun = self._running.pop(number, (None, 0.0))
        if shape is None:
            return
        self._hold(shape, -1)
        self._run_s.end(begun, at, 1.0)
        if shape.stated_s:
            self._share.end(begun, at, shape.stated_s)

    def _hold(self, shape: WaitingShape, sign: int) -> None:
        if shape.gpus:
            self._held_gpus += sign * shape.gpus
        else:
            self._held_slots += sign * shape.slots
        if not self._running:
            self._held_gpus = self._held_slots = 0.0

    def guess_s(self, shape: WaitingShape, now: float, count: int = 1) -> float:
        """How long such a job would wait that comes now, the last of so many; above 0."""
        share = min(1.0, self._share.mean(now))
        run_s = self._run_s.mean(now)
        stated, unstated = 0.0, 0.0
        priority = self._priorities.get(shape.queue, 0)
        for (queue, gpus), kind in self._kinds.items():
            before = gpus <= shape.gpus and bool(gpus) == bool(shape.gpus)
            if before and (queue == shape.queue or self._priorities.get(queue, 0) >= priority):
                stated, unstated = stated + kind.stated, unstated + kind.unstated
        own_s = run_s if shape.stated_s is None else shape.stated_s * share
        work = stated * share + unstated * run_s + count * shape.size * own_s
        held = self._held_gpus if shape.gpus else self._held_slots
        return SOONEST_S + work / max(held, shape.size, 0.01)
