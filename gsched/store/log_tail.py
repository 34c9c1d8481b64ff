"""What a master that waits reads of the store while another one writes it: a checkpoint, then what is committed since.

Committed records only, on connections that cannot write and never hold the writer up. Nothing tells of a commit: who
follows asks by the number of the last record that it has, which costs the database one look into an index. It
interprets nothing.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from gsched.store.checkpoint_parts import whole_checkpoint
from gsched.store.safeguards.first_look import last_seq
from gsched.store.safeguards.read_failure import unavailable
from gsched.store.tables.migrations import check_version, read_meta, schema_version
from gsched.store.tables.records import PAGE, StoredEvent, select_events, stored
from gsched.store.tables.schema import checkpoint, event
from gsched.store.tables.sources import open_source

ANSWER_S = 5.0
"""A server that says nothing for so long is given up: whoever is to lead waits for the answer."""

_log = logging.getLogger("gsched.store")


class Lineage(NamedTuple):
    """Which store it is: another one, or one that was begun anew, has other records under the same numbers."""

    cluster_id: str
    generation: int


class LogTail:
    """The store at this place, for one thread. Everything raises Unavailable where it cannot be read."""

    def __init__(self, place: str) -> None:
        """Connects to nothing yet. Raises BadRequest, NotFound for a file that is not there."""
        source = open_source(place, answer_s=ANSWER_S)
        self._name, self._engine = source.name, source.engine

    def lineage(self) -> Lineage | None:
        """Whose store it is; None: there is none yet. Raises Conflict for one of somebody else or a newer gsched."""
        with self._reading() as connection:
            version = schema_version(connection, self._name)
            check_version(version, self._name)
            if not version:
                return None
            values = read_meta(connection)
        return Lineage(values["cluster_id"], int(values.get("generation", "1")))

    def checkpoint(self, at_least: int = 0) -> tuple[int, bytes] | None:
        """(number of the last event in it, state) of the newest whole checkpoint from that event on; None: none is."""
        query = select(checkpoint.c.seq).where(checkpoint.c.seq >= at_least).order_by(checkpoint.c.seq.desc())
        with self._reading() as connection:
            numbers = [int(row[0]) for row in connection.execute(query)]
            newest = last_seq(connection)
        for seq in numbers:
            with unavailable(self._name):
                payload = whole_checkpoint(self._engine, seq, newest)
            if payload is not None:
                return seq, payload
            _log.warning("store %s: the checkpoint of event %d is damaged and not used", self._name, seq)
        return None

    def newest_checkpoint(self) -> int:
        """Number of the last event in the newest checkpoint; 0 where there is none."""
        with self._reading() as connection:
            return int(connection.scalar(select(func.max(checkpoint.c.seq))) or 0)

    def page_from(self, seq: int) -> list[StoredEvent]:
        """Records in order, from number `seq` on, itself among them; no more than a page."""
        with self._reading() as connection:
            rows: list[Any] = list(connection.execute(select_events().where(event.c.seq >= seq).limit(PAGE)))
        return [stored(row) for row in rows]

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        with unavailable(self._name), self._engine.connect() as connection:
            yield connection
