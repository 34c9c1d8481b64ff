"""Time as an object, so that everything above can be driven by a clock that does not tick by itself.

Records carry UTC seconds (`now`), durations are taken with `monotonic`. Nothing pure reads a clock: time is an
argument.
"""

from __future__ import annotations

import time
from typing import Protocol


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


class ManualClock:
    """A clock for tests and simulations; both readings move together and only by `advance`."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._start = start
        self._elapsed = 0.0

    def now(self) -> float:
        return self._start + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass; raises ValueError if negative."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self._elapsed += seconds
