"""How far what one waits for is, on the terminal of who waits (gsub -K, gwait): one line that is written over, and gone
in the end.

Never where standard error is no terminal, or one that cannot write over a line. The master is asked for counts alone,
ever more rarely.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence

from gsched.base.errors import GschedError
from gsched.cli.render.text.array_progress import finished_in, progress_line
from gsched.cli.session.call import Call
from gsched.wire.calls.client import Client

FIRST_S = 1.0
MOST_S = 15.0
SLOWER = 1.3
"""Each pause is so much longer than the one before."""
MOST_ARRAYS = 100
_CLEAR = "\r\x1b[K"


@contextlib.contextmanager
def progress_shown(call: Call, client: Client, job_ids: Sequence[int]) -> Iterator[None]:
    """While the block runs, the progress of those of the numbers that are arrays is shown."""
    if not call.stderr_is_tty or call.env.get("TERM", "dumb") in ("", "dumb") or not job_ids:
        yield
        return
    over = threading.Event()
    shown = _ProgressLine(call, client, job_ids[:MOST_ARRAYS], over)
    thread = threading.Thread(target=shown.run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        shown.clear()


class _ProgressLine:
    def __init__(self, call: Call, client: Client, job_ids: Sequence[int], over: threading.Event) -> None:
        self._call, self._client, self._job_ids, self._over = call, client, tuple(job_ids), over
        self._began: tuple[float, int] | None = None
        """When it was looked at first (monotonic), and how many elements were over by then."""
        self._is_shown = False

    def run(self) -> None:
        """Until it is over."""
        pause = FIRST_S
        while not self._over.wait(pause):
            pause = min(MOST_S, pause * SLOWER)
            try:
                if not self._show():
                    return
            except (GschedError, OSError):
                continue  # who waits is told by the waiting itself

    def clear(self) -> None:
        """The line is empty again."""
        if self._is_shown:
            with contextlib.suppress(OSError):
                self._call.error(_CLEAR)

    def _show(self) -> bool:
        """False when none of the numbers is an array."""
        arrays = self._client.arrays(self._job_ids)
        counts: dict[str, int] = {}
        for array in arrays:
            for state, count in array.counts.items():
                counts[state] = counts.get(state, 0) + count
        if not counts:
            return False
        text = progress_line(counts, self._left_s(counts, time.monotonic()))
        if not self._over.is_set():
            self._call.error(_CLEAR + text[: max(10, (self._call.width or 80) - 1)])
            self._is_shown = True
        return True

    def _left_s(self, counts: dict[str, int], now: float) -> float | None:
        """By the pace since the first look; None while none has ended since."""
        over, total = finished_in(counts), sum(counts.values())
        if self._began is None:
            self._began = (now, over)
        since, before = self._began
        return (now - since) * (total - over) / (over - before) if over > before else None
