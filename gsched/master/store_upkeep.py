"""What the master does to its store while nobody wants anything: rows are packed, and what is too old is taken away.

A small piece at a time, in the engine's thread, and a pause after each: who comes meanwhile waits for one piece. It
must never go on with a store of which nobody knows what it holds.
"""

from __future__ import annotations

import logging

from gsched.base.errors import GschedError
from gsched.model.config import Params
from gsched.store.eventlog import EventLog
from gsched.store.safeguards.failure import StoreBroken

log = logging.getLogger(__name__)
EVERY_S = 3600.0
"""Between two looks for what is too old."""
PAUSE_S = 1.0
"""From one piece to the next while there is more of that."""
AT_ONCE = 200
"""Rows of one piece of that: some MiB."""
DAY_S = 86_400.0
PACKING_PAUSE_S = 0.1
"""From one piece of packing to the next."""
LATER_S = 60.0
"""After one that the store did not take."""


class HostRecordRetention:
    """Takes away what was seen of hosts, and said of starts, before HOST_HISTORY_DAYS, and nothing else. Of one store.

    Times are UTC seconds.
    """

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
        except StoreBroken:
            raise
        except GschedError as error:
            log.warning("old records of hosts and starts are taken away later: %s", error.text)


class StoreUpkeep:
    """Of one store. Times are UTC seconds."""

    def __init__(self, store: EventLog) -> None:
        self._store = store
        self._hosts = HostRecordRetention(store)
        self._pack_at = 0.0

    def due_at(self, now: float) -> float:
        """When there is something to do next that does not wait for its hour."""
        return max(self._pack_at, now) if self._store.has_unpacked else float("inf")

    def step(self, params: Params, now: float) -> None:
        """Do a piece of what is due: to be called when there is nothing else to do. Raises StoreBroken."""
        self._hosts.step(params.host_history_days, now)
        if self._store.has_unpacked and not now < self._pack_at <= now + LATER_S:  # the clock may have been set back
            self._pack_at = now + PACKING_PAUSE_S
            try:
                self._store.pack_some()
            except StoreBroken:
                raise
            except GschedError as error:
                self._pack_at = now + LATER_S
                log.warning("rows of large submissions are packed later: %s", error.text)
