"""A line on standard error that says how far a simulation is. Nothing is printed where nobody looks."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from gsched.cli.render.cluster.simulation_report import duration

EVERY_S = 0.5


class ProgressLine:
    """Rewritten in place on a terminal; with `always` a line each time where there is none."""

    def __init__(self, *, always: bool) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._says = self._on_terminal or always
        self._next = time.monotonic() + EVERY_S
        self._is_shown = False

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._is_shown and self._on_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def show_finished(self, over: int, all_of_them: int) -> None:
        """So many simulations are over."""
        self._say(f"{over} of {all_of_them} simulations are over", is_last=over == all_of_them)

    def show(self, ended: int, jobs: int, virtual_s: float) -> None:
        """So many jobs have ended, after so many seconds of virtual time."""
        text = f"{ended} of {jobs} jobs ({100 * ended // max(1, jobs)} %), {duration(virtual_s)} of virtual time"
        self._say(text, is_last=ended == jobs)

    def show_arrived(self, arrived: int, tasks: int, _: float) -> None:
        """So many tasks have arrived."""
        self._say(f"{arrived} of {tasks} tasks have arrived", is_last=arrived == tasks)

    def show_replayed(self, starts: int, recorded_s: float) -> None:
        """So many starts have been decided again, of so many seconds of the record."""
        self._say(f"{starts} starts decided again, {duration(recorded_s)} of history", is_last=False)

    def _say(self, text: str, *, is_last: bool) -> None:
        now = time.monotonic()
        if not self._says or (now < self._next and not (is_last and not self._on_terminal)):
            return
        self._next = now + EVERY_S
        sys.stderr.write(f"\r{text}\x1b[K" if self._on_terminal else f"{text}\n")
        sys.stderr.flush()
        self._is_shown = True
