"""Which reads the audit log has already: who follows the output of a job, as an open page does, asks for it every few
seconds, and is one reader. It never keeps the first line of a reader, or of a refusal, from the log.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

READ_AGAIN_S = 600.0
"""Who goes on reading has a line in the log so often."""
MOST_KEPT = 10_000
"""Of these lines are remembered; what comes on top is logged once too often."""


class RepeatedReads:
    """The lines of late, for any thread. `monotonic` is a clock in seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._logged: dict[tuple[tuple[str, str], ...], float] = {}

    def is_news(self, facts: Mapping[str, str]) -> bool:
        """Whether the log is to have the line of these facts: the first time, and again after a while."""
        key, now = tuple(facts.items()), self._monotonic()
        with self._lock:
            if now - self._logged.get(key, float("-inf")) < READ_AGAIN_S:
                return False
            if len(self._logged) >= MOST_KEPT:
                self._logged = {each: at for each, at in self._logged.items() if now - at < READ_AGAIN_S}
            if len(self._logged) >= MOST_KEPT:
                self._logged.clear()
            self._logged[key] = now
        return True
