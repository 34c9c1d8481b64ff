"""Tasks that end together: what glaunch does, and a moment at which those that are left get SIGTERM, then SIGKILL."""

from __future__ import annotations

import select
import signal
import time
from typing import Any

from gsched.app.glaunch import FrameReader, LaunchClient
from gsched.run.supervisor.run_limits import KILL_WAIT_S


class TaskGroupClient(LaunchClient):
    """One launch whose tasks can be ended."""

    _ends_at: float | None = None
    """When the tasks that are left are to be ended: SIGTERM, or SIGKILL after that."""
    _is_ending = False

    def _wait(self, connection: Any, frames: FrameReader) -> None:
        """Wait for the agent, for standard input, and for when something is due."""
        waiting = select.poll()
        waiting.register(connection, select.POLLIN)
        if self._wants:
            waiting.register(0, select.POLLIN)
        left_s = None if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())
        ready = [fd for fd, _ in waiting.poll(None if left_s is None else left_s * 1000 + 1)]
        if connection.fileno() in ready:
            frames.fill()
        elif 0 in ready:
            self._read_piece(connection)
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            self._end_rest(connection)

    def _begin_to_end(self) -> None:
        self._ends_at = time.monotonic()

    def _end_rest(self, connection: Any) -> None:
        """SIGTERM to what is left, SIGKILL after KILL_WAIT_S. Source: srun(1), --kill-on-bad-exit."""
        numbers = (signal.SIGKILL,) if self._is_ending else (signal.SIGCONT, signal.SIGTERM)
        self._is_ending = True
        self._signals += numbers
        self._tell_signals(connection)
        self._ends_at = time.monotonic() + KILL_WAIT_S
