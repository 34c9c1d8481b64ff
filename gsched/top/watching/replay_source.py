"""Looks of a recording, one a second or some more, or step by step while it is paused."""

from __future__ import annotations

from collections.abc import Callable

from gsched.top.watching.look import ClusterLook
from gsched.top.watching.recording import Recording

SPEEDS = (1, 2, 5, 10, 30, 60)
"""Looks a second."""


class ReplaySource:
    """Begins at the first look; behind the last one it stays there."""

    away_since: float | None = None

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.number = 0
        self.is_paused = False
        self.speed = SPEEDS[0]
        self.look: ClusterLook | None = recording.look(0)

    @property
    def described(self) -> str:
        """Where it is, in a few words."""
        state = " (paused)" if self.is_paused else f" ({self.speed} a second)" if self.speed > 1 else ""
        return f"recording {self.number + 1}/{len(self._recording)}{state}"

    def start(self, tell: Callable[[], object]) -> None:
        """There is something to show."""
        tell()

    def stop(self) -> None:
        """Nothing more is asked."""
        self._recording.close()

    def tick(self) -> None:
        """A second is over. Raises BadRequest when the file is not any more what it was."""
        if not self.is_paused:
            self._go_to(self.number + self.speed)

    def step(self, by: int) -> None:
        """Pause, and go so many looks on. Raises BadRequest as `tick`."""
        self.is_paused = True
        self._go_to(self.number + by)

    def change_speed(self, by: int) -> None:
        """To a speed so many places on, and go on."""
        self.is_paused = False
        self.speed = SPEEDS[min(max(SPEEDS.index(self.speed) + by, 0), len(SPEEDS) - 1)]

    def toggle(self) -> None:
        """Pause, or go on."""
        self.is_paused = not self.is_paused

    def last(self) -> ClusterLook:
        """The look that was recorded last."""
        return self._recording.look(len(self._recording) - 1)

    def _go_to(self, number: int) -> None:
        number = min(max(number, 0), len(self._recording) - 1)
        if number != self.number:
            self.look = self._recording.look(number)
            self.number = number
