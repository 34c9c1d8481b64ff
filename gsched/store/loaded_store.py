"""A store that is made of rows and events from elsewhere, to be read once and thrown away: archives are asked by it.

Nothing of it is durable. It must never be the store of a master.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from gsched.model.views.view import EventRecord
from gsched.store.tables import sqlite
from gsched.store.tables.batched import batched
from gsched.store.tables.migrations import migrate
from gsched.store.tables.schema import JobRow, event
from gsched.store.tables.statements import insert_new, insert_rows, put_jobs

AT_ONCE = 2_000
EVENTS_AT_ONCE = 200
"""One may be many MiB."""
_ADD_EVENT = insert_new(event)


class LoadedStore:
    """A new file of SQLite, for its owner alone."""

    def __init__(self, path: Path) -> None:
        self._engine = sqlite.throwaway_engine(path)
        migrate(self._engine, str(path), time.time())

    def add_jobs(self, rows: Iterable[JobRow]) -> None:
        """Of two rows of one job the later one counts."""
        for some in batched(rows, AT_ONCE):
            with self._engine.begin() as connection:
                put_jobs(connection, some)

    def add_events(self, events: Iterable[EventRecord]) -> None:
        """Of two of one number the first one counts."""
        for some in batched(events, EVENTS_AT_ONCE):
            rows = [(each.seq, each.at, each.kind, each.job_id, each.payload.encode()) for each in some]
            with self._engine.begin() as connection:
                insert_rows(connection, _ADD_EVENT, rows)

    def close(self) -> None:
        """Its file stays, for who reads it."""
        self._engine.dispose()
