"""What the master does to its store while nobody wants anything: rows are packed, and what is too old is taken away.

A small piece at a time, in the engine's thread, and a pause after each: who comes meanwhile waits for one piece. It
must never go on with a store of which nobody knows what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from gsched.core.state.cluster_state import ClusterState
from gsched.master.upkeep.archived_removal import ArchivedRemovals
from gsched.master.upkeep.history_retention import HistoryRetention
from gsched.master.upkeep.putting_off import put_off
from gsched.model.config import Params
from gsched.store.eventlog import EventLog

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
        with put_off("old records of hosts and starts are taken away", lambda: None):
            are_more = self._store.drop_hosts(now - days * DAY_S, AT_ONCE)
            if self._store.drop_estimates(now - days * DAY_S, AT_ONCE) or are_more:
                self._due = now + PAUSE_S


class StoreUpkeep:
    """Of one store; `note_archiving`: see ArchivedRemovals, `held`: see HistoryRetention. Times are UTC seconds."""

    def __init__(
        self,
        store: EventLog,
        note_archiving: Callable[[str, str], None],
        held: Callable[[], Collection[str] | None] = frozenset,
    ) -> None:
        self._store = store
        self._hosts = HostRecordRetention(store)
        self.history = HistoryRetention(store, held)
        self.archived = ArchivedRemovals(store, note_archiving)
        self._pack_at = 0.0

    def due_at(self, now: float) -> float:
        """When there is something to do next that does not wait for its hour."""
        packing = max(self._pack_at, now) if self._store.has_unpacked else float("inf")
        return min(packing, self.history.due_at(now), self.archived.due_at(now))

    def takes_checkpoint_wish(self) -> bool:
        """Whether a checkpoint is wanted; it is asked once for each."""
        wanted = self.history.wants_checkpoint or self.archived.wants_checkpoint
        self.history.wants_checkpoint = self.archived.wants_checkpoint = False
        return wanted

    def step(self, params: Params, now: float) -> None:
        """Do a piece of what is due: to be called when there is nothing else to do. Raises StoreBroken."""
        self._hosts.step(params.host_history_days, now)
        self.history.step(params, now)
        if self._store.has_unpacked and not now < self._pack_at <= now + LATER_S:  # the clock may have been set back
            self._pack_at = now + PACKING_PAUSE_S
            with put_off("rows of large submissions are packed", lambda: self._pack_later(now + LATER_S)):
                self._store.pack_some()

    def _pack_later(self, at: float) -> None:
        self._pack_at = at


def held_blobs(state: ClusterState) -> frozenset[str] | None:
    """Blobs that the state names though the events that named them may be gone by now: those of notices that wait for
    their host. None: jobs of an accepted submission are still to be made, and nobody knows yet what they name.
    """
    return None if state.accepted else frozenset(notice.targets for notice in state.notices.all())
