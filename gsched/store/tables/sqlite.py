"""SQLite's own side: which file is meant, how its connections are set up. It knows nothing of jobs or events."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool, StaticPool

from gsched.base.errors import BadRequest

BUSY_TIMEOUT_S = 5.0
"""How long to wait for another program that holds the database (an administrator's sqlite3 shell)."""
LOG_BYTES_KEPT = 16 << 20
"""To this size the write-ahead log is cut after it was larger (a checkpoint of the state went through it)."""
_READERS = 8


def store_path(url_or_path: str | Path) -> Path:
    """The database file of `sqlite:////abs/path`, `sqlite:///relative` or a plain path. Raises BadRequest.

    Other databases are refused by their name alone: their URLs hold passwords.
    """
    text = str(url_or_path)
    if "://" not in text:
        if not text or text == ":memory:":
            raise BadRequest("the store must be a file, not memory")
        return Path(text).absolute()
    scheme = text.partition("://")[0]
    if scheme not in ("sqlite", "sqlite+pysqlite"):
        raise BadRequest(f"a store in '{scheme}' is not supported: only sqlite:///path is")
    try:
        url = make_url(text)
    except ArgumentError:
        raise BadRequest(f"'{text}' is not a URL of the form sqlite:///path") from None
    if url.host or url.query or not url.database or url.database == ":memory:":
        raise BadRequest(f"'{text}' does not name a file as sqlite:///path does, without options")
    return Path(url.database).absolute()


def _lossy(text: bytes) -> str:
    """Text of a column even if damaged: a strict decoder would end a whole replay in the driver."""
    return text.decode("utf-8", "replace")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,  # transactions begin where we say, not where the driver guesses
        check_same_thread=False,
    )
    connection.text_factory = _lossy
    return connection


def reader_engine(path: Path) -> Engine:
    """Connections that cannot write and, in WAL mode, neither wait for the writer nor make it wait. For any thread."""

    def connect() -> sqlite3.Connection:
        connection = _connect(path, "ro")
        connection.execute("PRAGMA case_sensitive_like=ON")  # as LIKE is in PostgreSQL, and as names of jobs are
        return connection

    engine = create_engine(
        "sqlite+pysqlite://", creator=connect, poolclass=QueuePool, pool_size=_READERS, max_overflow=-1
    )

    @event.listens_for(engine, "before_cursor_execute", retval=True)
    def take_index(*execution: Any) -> tuple[str, Any]:
        """The statement with its execution option `indexed_by`, (table, index), in SQLite's words."""
        _, _, statement, parameters, context, _ = execution
        table, index = context.execution_options.get("indexed_by", ("", ""))
        if index:
            statement = statement.replace(f"FROM {table}", f"FROM {table} INDEXED BY {index}", 1)
        return statement, parameters

    return engine


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def writer_engine(path: Path) -> Engine:
    """The one connection that writes; makes the file, readable by its owner alone, when there is none.

    Each commit is on disk when it returns (WAL, synchronous=FULL). Its transactions take the write lock at once, so
    that a lock held by somebody else shows at BEGIN, where nothing is lost.
    """

    def connect() -> sqlite3.Connection:
        # Environments of users go in here. SQLite gives its -wal and -shm files the mode of the database.
        # A database that exists is never opened and closed here: that drops the locks of all connections to it.
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            pass
        connection = _connect(path, "rw")
        try:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # of a new file, which can shrink then
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            if mode != "wal":
                raise BadRequest(f"the store {path} cannot use a write-ahead log here (journal mode {mode})")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute(f"PRAGMA journal_size_limit={LOG_BYTES_KEPT}")
        except BaseException:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite+pysqlite://", creator=connect, poolclass=StaticPool)

    event.listen(engine, "begin", _begin)
    return engine


def single_file_engine(path: Path) -> Engine:
    """A connection that writes to a database without a write-ahead log, so that all of it is one file."""

    def connect() -> sqlite3.Connection:
        connection = _connect(path, "rw")
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # as `writer_engine`
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    engine = create_engine("sqlite+pysqlite://", creator=connect, poolclass=StaticPool)

    event.listen(engine, "begin", _begin)
    return engine


def throwaway_engine(path: Path) -> Engine:
    """A connection that makes a new file, for its owner alone, of which nothing is to survive a crash."""

    def connect() -> sqlite3.Connection:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = _connect(path, "rw")
        connection.execute("PRAGMA journal_mode=OFF")
        connection.execute("PRAGMA synchronous=OFF")
        return connection

    engine = create_engine("sqlite+pysqlite://", creator=connect, poolclass=StaticPool)

    event.listen(engine, "begin", _begin)
    return engine
