"""Room that removed rows have left goes back to the disk: for a file of SQLite in slices, for PostgreSQL by VACUUM.

Its own connection does it, while a master may run: it changes no row, and nobody waits for it longer than for a slice.
A file that was made before files could shrink has to be written anew, and then no master may have it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from gsched.base.errors import Conflict, Unavailable
from gsched.model.store_url import StoreUrl
from gsched.store.safeguards.failure import StoreFull, error_text
from gsched.store.safeguards.filesystem import room_left
from gsched.store.safeguards.lock import StoreLock
from gsched.store.tables import postgresql
from gsched.store.tables.schema import metadata
from gsched.store.tables.sqlite import BUSY_TIMEOUT_S

SLICE_PAGES = 100
"""Pages that are moved while others wait: some milliseconds."""
PAUSE_S = 0.05
MOST_BUSY = 100
"""Slices that are tried again since somebody else writes."""
_INCREMENTAL = 2
"""Value of SQLite's auto_vacuum."""


class Compacted(NamedTuple):
    """Sizes in bytes."""

    before: int
    after: int


class CannotShrink(Conflict):
    """A file that was made before it could shrink; nothing has been changed."""


def compact_file(path: Path) -> Compacted:
    """Give the free pages of a store in a file back; its master may run.

    Raises CannotShrink, Unavailable where others write all the time, or the file cannot be written.
    """
    with _told(path), contextlib.closing(_connected(path)) as connection:
        before = _size(connection)
        if _pragma(connection, "auto_vacuum") != _INCREMENTAL:
            free = _pragma(connection, "freelist_count") * _pragma(connection, "page_size")
            raise CannotShrink(
                f"the file {path} was made before it could shrink ({free >> 20} MiB of it are free, and are used for"
                " what comes next): stop the master, and say gadmin history compact --convert"
            )
        for _ in _slices(connection):
            time.sleep(PAUSE_S)
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return Compacted(before, _size(connection))


def convert_file(path: Path) -> Compacted:
    """Write a store in a file anew, so that it can shrink from then on; no master may have it. Killed in the middle,
    the file is as it was.

    Raises StoreInUse, StoreFull where the disk has not as much room as the file needs once more, Unavailable.
    """
    lock = StoreLock(path.parent)
    try:
        with _told(path), contextlib.closing(_connected(path)) as connection:
            before = _size(connection)
            needed, left = 2 * before, room_left(path.parent)  # the new content, and the log through which it comes
            if left < needed:
                text = f"{path.parent} has {left >> 20} MiB left, and {needed >> 20} are needed"
                raise StoreFull(f"{text}: nothing was done")
            connection.execute(f"PRAGMA auto_vacuum={_INCREMENTAL}")
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return Compacted(before, _size(connection))
    finally:
        lock.release()


def compact_server(url: StoreUrl) -> Compacted:
    """VACUUM the tables of a store in PostgreSQL; its master may run. Room is given back where a table ends in free
    pages, and is used for what comes next elsewhere. Raises Unavailable, BadRequest.
    """
    engine = postgresql.writer_engine(url).execution_options(isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            before = _relations(connection)
            for table in metadata.sorted_tables:
                connection.exec_driver_sql(f"VACUUM (ANALYZE) {table.name}")
            return Compacted(before, _relations(connection))
    except DBAPIError as error:
        raise Unavailable(f"the store {url.name} cannot be compacted: {error_text(error)}") from error
    finally:
        engine.dispose()


def _relations(connection: Connection) -> int:
    sizes = " + ".join(f"pg_total_relation_size('{table.name}')" for table in metadata.sorted_tables)
    return int(connection.exec_driver_sql(f"SELECT {sizes}").scalar() or 0)


def _slices(connection: sqlite3.Connection) -> Iterator[None]:
    busy = 0
    while _pragma(connection, "freelist_count"):
        try:
            connection.execute(f"PRAGMA incremental_vacuum({SLICE_PAGES})").fetchall()
        except sqlite3.OperationalError as error:
            busy += 1
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or busy > MOST_BUSY:
                raise
        yield


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise Unavailable(f"the store {path} cannot be compacted: {error}") from error


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _size(connection: sqlite3.Connection) -> int:
    return _pragma(connection, "page_count") * _pragma(connection, "page_size")
