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
