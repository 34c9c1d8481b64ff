"""The clock of a job's run time: it runs from when the job is let go and stands still while the job is suspended.

Told of by whoever hears of it, and at the moment that it is heard. Never asks whether the job is suspended.

Runs in the fork server's bare interpreter: standard library only.
"""

from __future__ import annotations

import time


class RunClock:
    """How long one job has run, without the time it was stopped; times are in seconds, and 0 is when `begin` was
    called.
    """

    def __init__(self) -> None:
        self._began = 0.0
        self._stopped_at: float | None = None
        self._stopped_s = 0.0

    def state(self) -> tuple[float, float | None, float]:
        """For `take_up`, in another interpreter of the same boot."""
        return self._began, self._stopped_at, self._stopped_s

    def take_up(self, state: tuple[float, float | None, float]) -> None:
        """Go on where that clock was."""
        self._began, self._stopped_at, self._stopped_s = state

    def begin(self) -> None:
        """The job is let go."""
        self._began = time.monotonic()

    def note(self, is_suspended: bool) -> None:
        """How it is from now on."""
        now = time.monotonic()
        if self._stopped_at is not None:
            self._stopped_s += now - self._stopped_at
        self._stopped_at = now if is_suspended else None

    @property
    def is_stopped(self) -> bool:
        """Whether it stands still."""
        return self._stopped_at is not None

    def ran_s(self) -> float:
        """Run time now, of a job that is not suspended."""
        return time.monotonic() - self._began - self._stopped_s

    def ran_s_at(self, at: float) -> float:
        """Run time at `at`, seconds since the epoch, if the job is not suspended from now on."""
        return at - time.time() + self.ran_s()

    @property
    def suspended_s(self) -> float:
        """How long it has stood still."""
        return self._stopped_s + (0.0 if self._stopped_at is None else time.monotonic() - self._stopped_at)

    def since_begin_s(self) -> float:
        """Time since the begin, whether the clock stood still or not."""
        return time.monotonic() - self._began
