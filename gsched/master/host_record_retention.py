"""Takes away what was seen of hosts, and said of starts, so long ago that nobody is to look at it: HOST_HISTORY_DAYS.

A few records at a time, in the engine's thread, when it has nothing else to do. Jobs, events and configurations are
kept: it touches nothing else.
"""

from __future__ import annotations

import logging

from gsched.base.errors import GschedError
from gsched.store.eventlog import EventLog

log = logging.getLogger(__name__)
EVERY_S = 3600.0
PAUSE_S = 1.0
"""From one piece to the next while there is more."""
AT_ONCE = 200
"""Rows of one piece: some MiB."""
DAY_S = 86_400.0


class HostRecordRetention:
    """Of one store. Times are UTC seconds."""

    def __init__(self, store: EventLog) -> None:
        self._store = store
        self._due: float | None = None

    def step(self, days: int, now: float) -> None:
        """Take away some of what is older than so many days (0: it is kept for ever), if it is time."""
        if self._due is None or self._due > now + EVERY_S:  # the clock may have been set back
            self._due = now
        if not days or now < self._due:
            return
        self._due = now + EVERY_S
        try:
            are_more = self._store.drop_hosts(now - days * DAY_S, AT_ONCE)
            if self._store.drop_estimates(now - days * DAY_S, AT_ONCE) or are_more:
                self._due = now + PAUSE_S
        except GschedError as error:
            log.warning("old records of hosts and starts are taken away later: %s", error.text)
