"""What bench/saturation.py measures the scheduler against: EASY backfilling, and a bound.

Neither knows anything of the scheduler. EASY serves jobs in order; the first that does not fit gets the earliest time
at which it will, and later ones start where they fit if they end by then or leave enough for it. It knows all run
times, or what run limits say. The bound is on the GPU time that any schedule could have delivered by a time, whatever
the order and wherever GPUs are.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Free = npt.NDArray[np.int64]
"""Free GPUs of each host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A job that takes `gpus` on each of `hosts` hosts for `lasts` seconds. The sequence they stand in is the order of
    submission."""

    arrives: float
    lasts: float
    gpus: int
    hosts: int = 1
    priority: int = 0
    """-sp."""

    @property
    def gpu_seconds(self) -> float:
        return self.gpus * self.hosts * self.lasts


@dataclass(frozen=True, slots=True)
class Place:
    """When a job started, and on which hosts."""

    start: float
    hosts: tuple[int, ...]


def easy(jobs: Sequence[Work], hosts: int, gpus: int, thought: Sequence[float] | None = None) -> list[Place]:
    """Where EASY backfilling starts each job. All must fit on the empty cluster.

    `thought`: how long each job is thought to last at most, infinite where nobody knows; None: as long as it does.
    """
    return _Easy(jobs, hosts, gpus, [job.lasts for job in jobs] if thought is None else thought).run()


class _Easy:
    def __init__(self, jobs: Sequence[Work], hosts: int, gpus: int, thought: Sequence[float]) -> None:
        self._jobs = jobs
        self._thought = thought
        self._now = 0.0
        self._free: Free = np.full(hosts, gpus, np.int64)
        self._running: list[tuple[float, int]] = []
        """Heap of end, job."""
        self._waiting: list[tuple[int, float, int]] = []
        """In serving order: -sp, arrival, job."""
        self._places: dict[int, Place] = {}

    def run(self) -> list[Place]:
        for job in self._jobs:
            if not _fits(job, self._free):
                raise ValueError(f"a job of {job.hosts} x {job.gpus} GPUs does not fit on the empty cluster")
        coming = sorted((job.arrives, number) for number, job in enumerate(self._jobs))
        at = 0
        while at < len(coming) or self._running:
            arrival = coming[at][0] if at < len(coming) else np.inf
            self._now = min(arrival, self._running[0][0] if self._running else np.inf)
            while self._running and self._running[0][0] <= self._now:
                _, number = heapq.heappop(self._running)
                self._free[list(self._places[number].hosts)] += self._jobs[number].gpus
            while at < len(coming) and coming[at][0] <= self._now:
                number = coming[at][1]
                self._waiting.append((-self._jobs[number].priority, self._jobs[number].arrives, number))
                at += 1
            self._waiting.sort()
            self._cycle()
        return [self._places[number] for number in range(len(self._jobs))]

    def _cycle(self) -> None:
        served = 0
        while served < len(self._waiting) and self._start(self._waiting[served][2], None):
            served += 1
        del self._waiting[:served]
        if self._waiting:
            self._backfill()

    def _backfill(self) -> None:
        head = self._jobs[self._waiting[0][2]]
        start, then = self._reservation(head)
        full: set[tuple[int, int]] = set()
        """Shapes that fit nowhere now."""
        for entry in self._waiting[1:]:
            number, job = entry[2], self._jobs[entry[2]]
            shape = job.gpus, job.hosts
            if shape in full:
                continue
            if not _fits(job, self._free):
                full.add(shape)
                if not self._free.any():
                    break
            elif self._now + self._thought[number] <= start:
                self._start(number, None)
            elif self._start(number, (head, then)):
                then[list(self._places[number].hosts)] -= job.gpus
        self._waiting = [entry for entry in self._waiting if entry[2] not in self._places]

    def _reservation(self, head: Work) -> tuple[float, Free]:
        """When the first job is thought to fit, and what is free then; infinite when nobody knows."""
        then = self._free.copy()
        ends = sorted((self._places[number].start + self._thought[number], number) for _, number in self._running)
        for at, (end, number) in enumerate(ends):
            if end == np.inf:
                break
            then[list(self._places[number].hosts)] += self._jobs[number].gpus
            if (at + 1 == len(ends) or ends[at + 1][0] > end) and _fits(head, then):
                return max(end, self._now), then
        return np.inf, then

    def _start(self, number: int, beside: tuple[Work, Free] | None) -> bool:
        """Start it on the fullest hosts that can take it; those first that a job it must stay beside does not need."""
        job, free = self._jobs[number], self._free
        able = np.flatnonzero(free >= job.gpus)
        if len(able) < job.hosts:
            return False
        cost: Free = np.zeros(len(able), np.int64)
        if beside is not None:
            head, then = beside
            cost = ((then[able] >= head.gpus) & (then[able] - job.gpus < head.gpus)).astype(np.int64)
        order = np.lexsort((free[able], cost))[: job.hosts]
        rows = able[order]
        if beside is not None and int((then >= head.gpus).sum()) - int(cost[order].sum()) < head.hosts:
            return False
        self._free[rows] -= job.gpus
        self._places[number] = Place(self._now, tuple(map(int, rows)))
        heapq.heappush(self._running, (self._now + job.lasts, number))
        return True


def _fits(job: Work, free: Free) -> bool:
    return int((free >= job.gpus).sum()) >= job.hosts


def most_gpu_seconds(jobs: Sequence[Work], gpus: int, until: float) -> float:
    """No schedule delivers more GPU time by then: before any moment at most what had arrived, each job on its own GPUs
    alone, and after it at most all GPUs.
    """
    edges = {0.0, until, *(job.arrives for job in jobs), *(job.arrives + job.lasts for job in jobs)}
    moments = np.array(sorted(edge for edge in edges if edge <= until))
    arrived, lasts, width = (
        np.array(column, np.float64)
        for column in zip(*((job.arrives, job.lasts, job.gpus * job.hosts) for job in jobs), strict=True)
    )
    alone = (np.clip(moments[:, None] - arrived, 0.0, lasts) * width).sum(axis=1)
    return float((alone + gpus * (until - moments)).min())


def least_makespan(jobs: Sequence[Work], gpus: int) -> float:
    """No schedule ends all jobs sooner."""
    alone = max(job.arrives + job.lasts for job in jobs)
    total = sum(job.gpu_seconds for job in jobs)
    low, high = alone, alone + total / gpus
    for _ in range(60):
        middle = (low + high) / 2
        if most_gpu_seconds(jobs, gpus, middle) >= total * (1 - 1e-12):
            high = middle
        else:
            low = middle
    return high
