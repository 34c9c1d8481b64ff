"""What is known of a store that is lost: a cluster that begins anew must not take its jobs and attempts for its own."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class LostStore:
    """Of all stores before this one."""

    numbers: list[tuple[int, int]] = field(default_factory=list)
    """First and last of numbers that were never given out here, but by such a store."""
    renewed_at: float = float("-inf")
    """When this generation began with jobs that had not ended, UTC seconds."""
    attempts: dict[int, int] = field(default_factory=dict)
    """Job -> its newest attempt as this generation began; left out are jobs that had none."""

    def had(self, number: int) -> bool:
        """Whether a job of that number can only be of a store that is lost."""
        return any(first <= number <= last for first, last in self.numbers)
