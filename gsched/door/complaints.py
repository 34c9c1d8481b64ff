"""What is logged of callers who do not speak the protocol: a line a second of each user, so that nobody fills the disk.

Of one thread alone. Never holds more than a name and a number of each user who was complained of in the last second.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

PAUSE_S = 1.0


class Complaints:
    """Complaints about callers as lines of one log."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._said: dict[int, tuple[float, int]] = {}
        """Number of a user -> when a line was last written of it, how many were left out since."""

    def say(self, uid: int, text: str) -> None:
        """Write it, or count it where there was a line of this user just now."""
        now = self._clock()
        at, left_out = self._said.get(uid, (now - PAUSE_S, 0))
        if now - at < PAUSE_S:
            self._said[uid] = at, left_out + 1
            return
        self._said = {
            each: (then, count) for each, (then, count) in self._said.items() if count or now - then < PAUSE_S
        }
        self._said[uid] = now, 0
        self._log.warning("uid %d %s%s", uid, text, f" (and {left_out} more like it)" if left_out else "")
