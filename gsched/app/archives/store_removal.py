"""Who takes archived jobs out of the store: the master that has it, or this process where none does."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

from gsched.app.archives.part_removal import Remove
from gsched.master.succession import open_store
from gsched.master.upkeep.archived_removal import check_store, remove_at_once
from gsched.model.config import ClusterConfig
from gsched.model.event import HistoryArchived
from gsched.model.views.archive_question import ArchivedJobs, RemovedArchived
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.safeguards.failure import StoreInUse
from gsched.wire.calls.client import Client
from gsched.wire.identity.caller_identity import user_name


def client_of_master(config: ClusterConfig, leads: str, connect: Callable[[], Client]) -> Client | None:
    """A client of the master that has the store; None where none has it. `leads`: the host of the one that answers.

    Raises GschedError; also where the store is lost or damaged.
    """
    if leads:
        return connect()
    History(config.locations.store_place).close()  # none is made where there is none
    try:
        open_store(config).close()
    except StoreInUse:
        return connect()  # it begins or ends, or has much to do: it is waited for
    return None


@contextlib.contextmanager
def remover(config: ClusterConfig, client: Client | None) -> Iterator[Remove]:
    """What takes jobs out. Without a client the store is held against every master meanwhile. Raises GschedError."""
    if client is not None:
        yield client.remove_archived
        return
    with contextlib.closing(open_store(config)) as store:
        yield _Removal(store).remove


class _Removal:
    """From a store that no master has."""

    def __init__(self, store: EventLog) -> None:
        self._store = store
        self._noted: set[str] = set()

    def remove(self, wanted: ArchivedJobs) -> RemovedArchived:
        if wanted.part.name not in self._noted:
            check_store(self._store, wanted.part)
            by = user_name(os.geteuid())
            self._store.append([HistoryArchived(at=time.time(), by=by, part=wanted.part.name)])
            self._noted.add(wanted.part.name)
        return remove_at_once(self._store, wanted)
