"""The tables, as SQLAlchemy Core describes them, and the read-side row of a job. Changes go through `migrations`.

Types and statements are the portable ones of Core. SQLite's own are `sqlite` (pragmas, URL), `failure` (result codes)
and the two INSERT statements below, which PostgreSQL also knows.
"""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy.dialects.sqlite import Insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

metadata = MetaData()

Counter = BigInteger().with_variant(Integer, "sqlite")
"""64 bits everywhere; SQLite makes only an INTEGER primary key the row's own address."""

meta = Table(
    "meta",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

event = Table(
    "event",
    metadata,
    # Given by the one writer, without gaps: a gap on replay means that something was lost.
    Column("seq", Counter, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("job_id", Counter),
    # JSON as bytes: a damaged text is then still a value, not an error of the driver in the middle of a replay.
    Column("payload", LargeBinary, nullable=False),
    Index("event_job", "job_id"),
)

job = Table(
    "job",
    metadata,
    Column("job_id", Counter, primary_key=True, autoincrement=False),
    Column("user", String(256), nullable=False),
    Column("queue", String(256), nullable=False),
    Column("name", Text, nullable=False),
    Column("project", String(256), nullable=False),
    Column("host", Text, nullable=False),
    Column("state", String(8), nullable=False),
    Column("submitted_at", Double, nullable=False),
    Column("dispatched_at", Double),
    Column("finished_at", Double),
    Column("exit_code", Integer),
    Index("job_user", "user"),
    Index("job_state", "state"),
    Index("job_finished", "finished_at"),
    Index("job_project", "project", "finished_at"),
)

blob = Table(
    "blob",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

checkpoint = Table(
    "checkpoint",
    metadata,
    Column("seq", Counter, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("crc", Counter, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the read side finds it: one row, replaced whole whenever the job changes. Times are UTC seconds.

    `host` holds the names of the execution hosts, each once, first execution host first, separated by one space.
    """

    job_id: int
    user: str
    queue: str
    name: str = ""
    project: str = ""
    host: str = ""
    state: str
    submitted_at: float
    dispatched_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None


def upsert(table: Table) -> Insert:
    """INSERT of whole rows that replaces a row with the same primary key."""
    statement = sqlite_insert(table)
    keys = {column.name for column in table.primary_key}
    replaced: dict[str, Any] = {name: statement.excluded[name] for name in table.c.keys() if name not in keys}  # noqa: SIM118
    return statement.on_conflict_do_update(index_elements=sorted(keys), set_=replaced)


def insert_new(table: Table) -> Insert:
    """INSERT that leaves a row with the same primary key as it is."""
    return sqlite_insert(table).on_conflict_do_nothing()
