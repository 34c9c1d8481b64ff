"""Until when queues start jobs, by their time windows: nobody is promised a time at which the queue is closed.

It knows windows only, not who opened or closed a queue by hand, and decides nothing. Source: lsb.queues(5), RUN_WINDOW
and DISPATCH_WINDOW.
"""

from __future__ import annotations

import math

from gsched.model.queues.queue import Queue
from gsched.model.queues.window import WEEK_MIN, is_open
from gsched.model.scheduling.snapshot import Snapshot

_MOST_EDGES = 16
"""Times at which windows open or close that are looked at: a queue that is open beyond them is taken to close then."""


class DispatchWindows:
    """Until when queues start jobs by their time windows, for one cycle."""

    def __init__(self, snapshot: Snapshot, now: float) -> None:
        self._snapshot = snapshot
        self._now = now
        self._closes: dict[str, float] = {}

    def closes(self, name: str) -> float:
        """When the queue starts no jobs any more, UTC seconds: now if it is closed, infinite if it has no windows."""
        found = self._closes.get(name)
        if found is None:
            queue = self._snapshot.queues.get(name)
            found = self._closes[name] = math.inf if queue is None else self._found(queue)
        return found

    def _found(self, queue: Queue) -> float:
        windows = (*queue.run_window, *queue.dispatch_window)
        if not windows:
            return math.inf
        minutes, at = 0, self._snapshot.minute_of_week
        for _ in range(_MOST_EDGES):
            if not (is_open(queue.run_window, at) and is_open(queue.dispatch_window, at)):
                break
            minutes += min(each.until_change_min(at) for each in windows)
            at = (self._snapshot.minute_of_week + minutes) % WEEK_MIN
        return self._now - self._now % 60.0 + 60.0 * minutes if minutes else self._now
