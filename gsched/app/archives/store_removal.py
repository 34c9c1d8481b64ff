"""Who takes archived jobs out of the store: the master that has it, or this process where none does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from gsched.app.archives.part_removal import Remove
from gsched.master.succession import open_store
from gsched.master.upkeep.archived_removal import remove_at_once
from gsched.model.config import ClusterConfig
from gsched.store.history_queries import History
from gsched.store.safeguards.failure import StoreInUse
from gsched.wire.calls.client import Client


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
        yield lambda wanted: remove_at_once(store, wanted)
