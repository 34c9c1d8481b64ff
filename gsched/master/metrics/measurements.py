"""What the master counts and times for /metrics: cycles, commits, starts and ends of jobs, calls.

Each of them is written by one thread and may be read by any. Adding to one costs less than a microsecond or two; it
must never wait, and never hold anything of a single job.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from gsched.model.event import AnyEvent, JobFinished, JobStarted
from gsched.model.views.view import JobView

CYCLE_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
COMMIT_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
START_BOUNDS_S = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0, 604800.0)


class Histogram:
    """Counts of values up to each bound, and their sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[int]:
        """How many values are at most each bound; the last number is that of all."""
        total, found = 0, []
        for count in list(self._counts):
            total += count
            found.append(total)
        return found


class Measurements:
    """What one master has measured of itself since its start."""

    def __init__(self) -> None:
        self.cycles = Histogram(CYCLE_BOUNDS_S)
        self.commits = Histogram(COMMIT_BOUNDS_S)
        self.starts: dict[str, Histogram] = {}
        """Queue -> seconds from a job's submission to its first start."""
        self.ends: dict[tuple[str, str], int] = {}
        """(queue, DONE or EXIT) -> jobs."""
        self.calls: dict[tuple[str, str], int] = {}
        """(SERVICE.METHOD, status) -> calls that have been answered."""
        self.calls_s: dict[str, float] = {}
        """SERVICE.METHOD -> seconds that all of them took."""

    @contextmanager
    def timed(self, histogram: Histogram) -> Iterator[None]:
        """Add the time that the block takes."""
        began = time.monotonic()
        try:
            yield
        finally:
            histogram.add(time.monotonic() - began)

    def note_events(self, events: Iterable[AnyEvent], job_of: Callable[[int], JobView | None]) -> None:
        """Starts and ends among events that are committed; `job_of` gives the job that one is about."""
        for event in events:
            if isinstance(event, JobStarted) and event.attempt == 1:
                job = job_of(event.job_id)
                if job is not None:
                    self._starts(job.spec.queue).add(max(0.0, event.at - job.submitted_at))
            elif isinstance(event, JobFinished):
                job = job_of(event.job_id)
                if job is not None:
                    key = (job.spec.queue, job.state)
                    self.ends[key] = self.ends.get(key, 0) + 1

    def _starts(self, queue: str) -> Histogram:
        found = self.starts.get(queue)
        if found is None:
            found = self.starts[queue] = Histogram(START_BOUNDS_S)
        return found

    def note_call(self, method: str, status: str, took_s: float) -> None:
        """A call has been answered."""
        key = (method, status)
        self.calls[key] = self.calls.get(key, 0) + 1
        self.calls_s[method] = self.calls_s.get(method, 0.0) + took_s
