"""A clock that ticks only when a test says so."""

from __future__ import annotations


class ManualClock:
    """A gsched.base.clock.Clock: both readings move together and only by `advance`."""

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
