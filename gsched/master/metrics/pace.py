"""Work beside the engine's thread that must not be felt there: a little of it, then a longer rest.

Threads of a Python process share one interpreter. What goes through a hundred thousand jobs at one go would take half
of the time that a scheduling cycle has meanwhile; in slices with rests it takes one part in twenty at the most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

SLICE_S = 0.0005
"""Processor time after which there is a rest."""
REST = 19.0
"""How many times as long as the work before it."""
LOOK_EVERY = 32
"""Items between two looks at the clock."""


class Pace:
    """Makes one thread work in short slices with rests between them. A page of some thousand series is made without a
    rest that anybody would notice.
    """

    def __init__(
        self, used: Callable[[], float] = time.thread_time, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._used = used
        self._sleep = sleep
        self._began: float | None = None
        self._seen = 0

    def through(self, items: Iterable[T]) -> Iterator[T]:
        """The items, with rests between them."""
        for item in items:
            self._seen += 1
            if self._seen % LOOK_EVERY == 0:
                self.rest()
            yield item

    def rest(self) -> None:
        """Rest if it is time to. The clock counts from the first call on: it is that of the calling thread."""
        now = self._used()
        if self._began is None:
            self._began = now
        worked = now - self._began
        if worked >= SLICE_S:
            self._sleep(worked * REST)
            self._began = self._used()
