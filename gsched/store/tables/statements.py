"""Statements that write whole rows, in SQL that SQLite and PostgreSQL both know.

Rows go to the driver as tuples, in the order of the columns. SQLAlchemy would make a dict and a tuple of each first,
which takes as long as SQLite takes to store it. Nothing here opens or commits a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import msgspec
from sqlalchemy import Connection, Dialect, Table
from sqlalchemy.exc import DBAPIError

from gsched.store.tables.schema import NAMES, JobRow, event, host_record, job

if TYPE_CHECKING:
    from psycopg import Connection as DriverConnection

_FOR_GOOD = ("user", "submitted_at")
_PLACEHOLDERS = {"qmark": "?", "format": "%s"}


@dataclass(frozen=True, slots=True, eq=False)
class RowInsert:
    """An INSERT of values of these columns, in this order."""

    table: Table
    columns: tuple[str, ...]
    replaced: tuple[str, ...] | None = None
    """Columns that take the new values where a row with the same primary key is there; None: that is an error."""
    joined: tuple[str, ...] = ()
    """Columns that take the bits of both then."""

    def text(self, dialect: Dialect) -> str:
        """The statement in the form of that database's driver."""
        quote, sign = dialect.identifier_preparer.quote, _placeholder(dialect)
        names = ", ".join(map(quote, self.columns))
        text = f"INSERT INTO {self.table.name} ({names}) VALUES ({', '.join([sign] * len(self.columns))})"
        if self.replaced is None:
            return text
        changes = [f"{quote(name)} = excluded.{quote(name)}" for name in self.replaced]
        changes += [f"{name} = {self.table.name}.{name} | excluded.{name}" for name in self.joined]
        keys = ", ".join(column.name for column in self.table.primary_key)
        what = f"({keys}) DO UPDATE SET {', '.join(changes)}" if changes else "DO NOTHING"
        return f"{text} ON CONFLICT {what}"


def insert_new(table: Table) -> RowInsert:
    """INSERT of whole rows that leaves a row with the same primary key as it is."""
    return RowInsert(table, _columns(table), ())


def upsert(table: Table) -> RowInsert:
    """INSERT of whole rows that replaces a row with the same primary key."""
    keys = {column.name for column in table.primary_key}
    return RowInsert(table, _columns(table), tuple(name for name in _columns(table) if name not in keys))


def insert_rows(connection: Connection, insert: RowInsert, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert all of them."""
    if insert.replaced is None and is_server(connection):
        _stream_in(connection, insert, rows)
    else:
        _execute(connection, _text_of(insert, connection.dialect), rows)


def copy_rows(connection: Connection, insert: RowInsert, rows: Iterable[tuple[Any, ...]], at_once: int) -> None:
    """Insert very many, of which few are in memory. Raises Conflict for a value that the table does not take."""
    if is_server(connection):
        _stream_in(connection, insert, rows)
        return
    source = iter(rows)
    while some := list(islice(source, at_once)):
        insert_rows(connection, insert, some)


def is_server(connection: Connection) -> bool:
    """Whether it leads to PostgreSQL."""
    return connection.dialect.name == "postgresql"


def without_nul(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Texts of PostgreSQL hold any character but one: U+FFFD stands for it."""
    if not any(type(value) is str and "\0" in value for value in row):
        return row
    return tuple(value.replace("\0", "\ufffd") if type(value) is str else value for value in row)


ADD_EVENTS = RowInsert(event, ("seq", "at", "kind", "job_id", "payload"))
ADD_HOSTS = RowInsert(host_record, ("at", "seq", "whole", "data"))
_COLUMNS = tuple(column.name for column in job.c)
_CHANGING = tuple(name for name in _COLUMNS if name not in ("job_id", *NAMES, *_FOR_GOOD, "traits"))
_PUT_JOBS = RowInsert(job, _COLUMNS, _CHANGING, joined=("traits",))
_PUT_JOBS_AT_ONCE = RowInsert(job, _COLUMNS, (*NAMES, *_CHANGING), joined=("traits",))
"""Where a value that is the same costs no change of an index."""


def put_jobs(connection: Connection, rows: Sequence[JobRow]) -> None:
    """Insert rows of jobs, or what has changed of them; in SQLite their NAMES only where one is another."""
    if not rows:
        return
    if is_server(connection):
        _put_jobs_at_once(connection, rows)
        return
    given = [msgspec.structs.astuple(row) for row in rows]
    _execute(connection, _text_of(_PUT_JOBS, connection.dialect), given)
    names = [(row.queue, row.name, row.project) for row in rows]
    renamed = [(*each, row.job_id, *each) for row, each in zip(rows, names, strict=True)]
    _execute(connection, _rename_text(_placeholder(connection.dialect)), renamed)


def _put_jobs_at_once(connection: Connection, rows: Sequence[JobRow]) -> None:
    """In one statement, which reads them from JSON: a third of the time that a statement for each takes."""
    given = msgspec.json.encode(rows)
    if b"\\u0000" in given or len({row.job_id for row in rows}) < len(rows):
        given_rows = [without_nul(msgspec.structs.astuple(row)) for row in rows]
        _execute(connection, _text_of(_PUT_JOBS_AT_ONCE, connection.dialect), given_rows)
        return
    connection.exec_driver_sql(_json_text(connection.dialect), (given.decode(),))


@cache
def _json_text(dialect: Dialect) -> str:
    quote = dialect.identifier_preparer.quote
    columns = ", ".join(f"{quote(column.name)} {column.type.compile(dialect=dialect)}" for column in job.c)
    names = ", ".join(map(quote, _COLUMNS))
    rows = f"SELECT {names} FROM json_to_recordset(%s::json) AS given ({columns})"
    head, _, rest = _PUT_JOBS_AT_ONCE.text(dialect).partition("VALUES")
    return f"{head}{rows} ON CONFLICT{rest.partition('ON CONFLICT')[2]}"


def _stream_in(connection: Connection, insert: RowInsert, rows: Iterable[tuple[Any, ...]]) -> None:
    """As PostgreSQL takes many rows fastest. Raises DBAPIError as any statement does."""
    columns = ", ".join(map(connection.dialect.identifier_preparer.quote, insert.columns))
    source = iter(rows)
    first = next(source, None)
    if first is None:
        return
    raw = cast("DriverConnection[Any]", connection.connection.driver_connection)
    dbapi = connection.dialect.dbapi
    assert dbapi is not None
    statement = f"COPY {insert.table.name} ({columns}) FROM STDIN"
    try:
        with raw.cursor() as cursor, cursor.copy(statement.encode()) as stream:
            stream.write_row(without_nul(first))
            for row in source:
                stream.write_row(without_nul(row))
    except dbapi.Error as error:
        is_gone = connection.dialect.is_disconnect(error, raw, None)  # type: ignore[arg-type]
        if is_gone:
            connection.invalidate(error)
        raise DBAPIError(statement, None, error, connection_invalidated=is_gone) from error


def _execute(connection: Connection, text: str, rows: Sequence[tuple[Any, ...]]) -> None:
    if rows:
        given = list(map(without_nul, rows)) if is_server(connection) else list(rows)
        connection.exec_driver_sql(text, given[0] if len(given) == 1 else given)


@cache
def _text_of(insert: RowInsert, dialect: Dialect) -> str:
    return insert.text(dialect)


@cache
def _rename_text(sign: str) -> str:
    """Takes NAMES, the number, and NAMES again."""
    given = ", ".join(f"{name} = {sign}" for name in NAMES)
    differs = " OR ".join(f"{name} <> {sign}" for name in NAMES)
    return f"UPDATE job SET {given} WHERE job_id = {sign} AND ({differs})"


def _columns(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.c)


def _placeholder(dialect: Dialect) -> str:
    return _PLACEHOLDERS[dialect.paramstyle]
