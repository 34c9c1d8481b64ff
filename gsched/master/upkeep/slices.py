"""How large the next slice of work on the store is to be, by what the last one took: others wait for one of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

PAUSE_S = 0.2
"""From one slice to the next."""
SLICE_S = 0.02
"""What a slice is to take. The next is half as large after one that took longer, at the most twice as large else."""
FEWEST, MOST = 5, 400
"""Jobs of a slice. SQLite may take no more than 999 values in a statement: jobs, and the arrays of elements."""
EVENTS_EACH = 10
"""A slice has at most so many events for each of its jobs: most have fewer, and some have a hundred thousand."""


class SliceSize:
    """Of one kind of work."""

    def __init__(self) -> None:
        self.now = FEWEST

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Around a slice."""
        began = time.monotonic()
        yield
        took_s = time.monotonic() - began
        self.now = max(FEWEST, self.now // 2) if took_s > SLICE_S else min(MOST, self.now * 2)
