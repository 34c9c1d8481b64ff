"""Values of one quantity over time: their smallest, mean and largest. Pure."""

from __future__ import annotations

import msgspec


class TimedMeasure(msgspec.Struct, array_like=True):
    """Values that were seen of one quantity, each for some seconds."""

    seconds: float = 0.0
    total: float = 0.0
    """Of value times seconds."""
    low: float | None = None
    high: float | None = None

    def add(self, value: float, seconds: float) -> None:
        self._merge(seconds, value * seconds, value, value)

    def merge(self, other: TimedMeasure) -> None:
        """Take in what another one has seen."""
        if other.low is not None and other.high is not None:
            self._merge(other.seconds, other.total, other.low, other.high)

    def _merge(self, seconds: float, total: float, low: float, high: float) -> None:
        self.seconds += seconds
        self.total += total
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)

    @property
    def mean(self) -> float | None:
        """By time; None when no time has passed."""
        if self.low is None or self.high is None or self.seconds <= 0.0:
            return None
        return min(max(self.total / self.seconds, self.low), self.high)  # a sum of floats may miss by its last digit
