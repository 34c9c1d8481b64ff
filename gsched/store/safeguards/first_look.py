"""What a database says of itself before it is opened for writing: whose it is, how far it has come, was it closed.

A database that was not closed says so itself, in its file and not only in its log, before anything is acknowledged. So
a log that is gone is noticed even where the mark outside the database is gone too. Nothing here decides what follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, func, select

from gsched.store.mark import StoreMark
from gsched.store.tables.migrations import check_version, read_meta, schema_version
from gsched.store.tables.schema import event, meta
from gsched.store.tables.sqlite import reader_engine
from gsched.store.tables.statements import insert_rows, upsert

IN_USE = "in_use"
"""Key of the meta table: whether a process has the file open, or had when it was killed."""
_YES, _NO = "1", "0"


@dataclass(frozen=True, slots=True)
class FirstLook:
    """At a database file and what lies beside it."""

    mark: StoreMark | None = None
    """How far the database has come; None: there is none."""
    has_log: bool = False
    """A write-ahead log lies there that holds something; in a store in use it is never empty."""
    was_left_open: bool = False
    """Its last process was killed. A store that was made before this was noted says no."""


def look_at(path: Path) -> FirstLook:
    """With a connection that cannot write, for turning on the log would already change somebody else's file.

    Raises Conflict for a database of somebody else's or of a newer gsched, DBAPIError for one that cannot be read.
    """
    has_log = has_log_at(path)  # before there is a connection, which makes an empty one
    if not path.exists() or path.stat().st_size == 0:
        return FirstLook(has_log=has_log)
    readers = reader_engine(path)
    try:
        with readers.connect() as connection:
            version = schema_version(connection, str(path))
            check_version(version, str(path))
            if not version:
                return FirstLook(has_log=has_log)
            values = read_meta(connection)
            mark = StoreMark(
                cluster_id=values["cluster_id"],
                generation=int(values.get("generation", "1")),
                seq=last_seq(connection),
            )
            return FirstLook(mark, has_log, was_left_open(values))
    finally:
        readers.dispose()


def has_log_at(path: Path) -> bool:
    """Whether a write-ahead log that holds something lies beside the database."""
    log = Path(f"{path}-wal")
    return log.exists() and log.stat().st_size > 0


def last_seq(connection: Connection) -> int:
    """Number of the newest event; 0 without any."""
    return int(connection.scalar(select(func.max(event.c.seq))) or 0)


def was_left_open(values: Mapping[str, str]) -> bool:
    """Whether a process has, or had, it open; `values`: all of the meta table."""
    return values.get(IN_USE) == _YES


def note_open(connection: Connection) -> None:
    """In a transaction whose log is then copied into the file: a process has it open from now on."""
    _put(connection, _YES)


def note_closed(connection: Connection) -> None:
    """In the last transaction before it is closed."""
    _put(connection, _NO)


def _put(connection: Connection, value: str) -> None:
    insert_rows(connection, upsert(meta), [(IN_USE, value)])
