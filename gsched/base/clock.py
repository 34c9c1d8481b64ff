"""Time as an object, so that everything above can be driven by a clock that does not tick by itself.

Records carry UTC seconds (`now`), durations are taken with `monotonic`. Nothing pure reads a clock: time is an
argument.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """Where a process gets its time from."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean something."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class RecentValue(Generic[T]):
    """What is dear to find out and seldom changes: `find` is called when it is asked for, but not again for `seconds`.

    Never for what must be true now. `monotonic`: a clock that is never set back.
    """

    def __init__(self, find: Callable[[], T], seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._find = find
        self._seconds = seconds
        self._monotonic = monotonic
        self._found: tuple[float, T] | None = None

    def __call__(self) -> T:
        now = self._monotonic()
        if self._found is None or now - self._found[0] >= self._seconds:
            self._found = (now, self._find())
        return self._found[1]
