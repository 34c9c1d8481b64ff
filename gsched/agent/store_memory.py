"""What an agent remembers of its master's store, so that no other store is taken for it. It decides nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from gsched.store.mark import StoreMark, remember, remembered, update_memory
from gsched.wire.v1 import agent_pb2

log = logging.getLogger(__name__)


class StoreMemory:
    """What the agent of this spool folder remembers of the master's store."""

    def __init__(self, spool: Path) -> None:
        self._spool = spool
        self._known = self._written = remembered(spool) or StoreMark()

    def message(self) -> agent_pb2.StoreMark:
        """For a hello: what was known before this session."""
        known = self._known
        return agent_pb2.StoreMark(
            cluster_id=known.cluster_id,
            generation=known.generation,
            seq=known.seq,
            next_job_id=known.next_job_id,
            epoch=known.epoch,
        )

    def is_of_former_master(self, told: agent_pb2.StoreMark) -> bool:
        """Whether the master that says so was replaced: another has led this store since, and was heard."""
        known = self._known
        is_same = (told.cluster_id, told.generation) == (known.cluster_id, known.generation)
        return is_same and 0 < told.epoch < known.epoch

    def take(self, told: agent_pb2.StoreMark) -> None:
        """The master has said how far its store has come. Synced when its bounds move, not with each order."""
        if not told.cluster_id:
            return
        self._known = StoreMark(
            cluster_id=told.cluster_id,
            generation=told.generation,
            seq=told.seq,
            next_job_id=told.next_job_id,
            epoch=told.epoch,
        )
        if self._known.bounds != self._written.bounds:
            self._keep(remember)
        elif self._known != self._written:
            self._keep(update_memory)

    def write(self) -> None:
        """Keep it in the folder."""
        self._keep(remember)

    def _keep(self, how: Callable[[Path, StoreMark], None]) -> None:
        try:
            how(self._spool, self._known)
        except OSError as error:
            log.warning("%s: what is known of the master's store cannot be kept: %s", self._spool, error.strerror)
        else:
            self._written = self._known
