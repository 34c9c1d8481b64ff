"""The tables, as SQLAlchemy Core describes them, and the read-side row of a job. Changes go through `migrations`.

Types and statements are the portable ones of Core, and those of `statements`. SQLite's own are `sqlite` (pragmas, URL)
and `failure` (result codes).
"""

from __future__ import annotations

from typing import NamedTuple

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
    text,
)

metadata = MetaData()

NOT_ENDED = "finished_at IS NULL"
ENDED = "finished_at IS NOT NULL"

IRREGULAR = 1
"""Bit of `traits`: suspended, requeued, lost from sight, held: only its events tell what happened between its times."""
ARRAY = 2
"""Bit of `traits`: the row of an array, which stands for its elements that are no jobs of their own."""

CounterColumn = BigInteger().with_variant(Integer, "sqlite")
"""64 bits everywhere; SQLite makes only an INTEGER primary key the row's own address."""


def short_text(characters: int) -> String:
    """A text that is expected to be no longer. Compared by code points: PostgreSQL's own order is that of a language,
    and it would refuse a longer one, which SQLite takes.
    """
    return String(characters).with_variant(Text(collation="C"), "postgresql")


def long_text() -> Text:
    """Any text, compared by code points."""
    return Text().with_variant(Text(collation="C"), "postgresql")


meta = Table(
    "meta",
    metadata,
    Column("key", short_text(64), primary_key=True),
    Column("value", long_text(), nullable=False),
)

event = Table(
    "event",
    metadata,
    # Given by the one writer, without gaps: a gap on replay means that something was lost.
    Column("seq", CounterColumn, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("kind", short_text(64), nullable=False),
    Column("job_id", CounterColumn),
    # JSON as bytes: a damaged text is then still a value, not an error of the driver in the middle of a replay.
    Column("payload", LargeBinary, nullable=False),
    Index("event_job", "job_id"),
)

job = Table(
    "job",
    metadata,
    Column("job_id", CounterColumn, primary_key=True, autoincrement=False),
    Column("user", short_text(256), nullable=False),
    Column("queue", short_text(256), nullable=False),
    Column("name", long_text(), nullable=False),
    Column("project", short_text(256), nullable=False),
    Column("host", long_text(), nullable=False),
    Column("state", short_text(8), nullable=False),
    Column("submitted_at", Double, nullable=False),
    Column("dispatched_at", Double),
    Column("finished_at", Double),
    Column("exit_code", Integer),
    # From here on NULL in rows that were written before step 3 of the migrations: only their events tell.
    Column("application", short_text(256)),
    Column("job_group", long_text()),
    Column("description", long_text()),
    Column("cpu_s", Double),
    Column("gpus", Double),
    Column("traits", Integer),
    # Likewise, before step 5.
    Column("gpu_seen_s", Double),
    Column("gpu_busy_s", Double),
    Column("gpu_energy_j", Double),
    Index("job_submitted", "submitted_at"),
    Index("job_user", "user", "submitted_at"),
    Index("job_queue", "queue", "submitted_at"),
    Index("job_name", "name", "submitted_at"),
    Index("job_open", "submitted_at", sqlite_where=text(NOT_ENDED)),
    # Those of times that most rows do not have yet hold only the rows that have them.
    Index("job_dispatched", "dispatched_at", sqlite_where=text("dispatched_at IS NOT NULL")),
    Index("job_finished", "finished_at", sqlite_where=text(ENDED)),
    Index("job_user_finished", "user", "finished_at", sqlite_where=text(ENDED)),
    Index("job_project", "project", "finished_at", sqlite_where=text(ENDED)),
)

blob = Table(
    "blob",
    metadata,
    Column("id", short_text(64), primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

dictionary = Table(
    "dictionary",
    metadata,
    # What blobs have in common that say so in their first bytes, see gsched.store.packing. It stays as long as they do.
    Column("number", CounterColumn, primary_key=True, autoincrement=False),
    Column("words", LargeBinary, nullable=False),
)

blob_use = Table(
    "blob_use",
    metadata,
    # Which event names which blob, as gsched.store.retention.blob_uses has it: made while old jobs are taken away.
    Column("seq", CounterColumn, primary_key=True, autoincrement=False),
    Column("hash", CounterColumn, primary_key=True, autoincrement=False),
    Index("blob_use_hash", "hash"),
    sqlite_with_rowid=False,
)

checkpoint = Table(
    "checkpoint",
    metadata,
    Column("seq", CounterColumn, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("crc", CounterColumn, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)

host_record = Table(
    "host_record",
    metadata,
    # What was seen of hosts, packed by gsched.master.host_recorder; those of one master's run follow each other.
    Column("number", CounterColumn, primary_key=True),
    Column("at", Double, nullable=False),
    # The newest event by then: what is seen belongs behind it.
    Column("seq", CounterColumn, nullable=False),
    # 1: it says all of all hosts; 0: what has changed since the record before.
    Column("whole", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("host_record_whole", "at", sqlite_where=text("whole = 1")),
)

start_estimate = Table(
    "start_estimate",
    metadata,
    # As gsched.model.views.start_estimate has them: what was said of a job's start, and when.
    Column("job_id", CounterColumn, primary_key=True, autoincrement=False),
    Column("at", Double, primary_key=True),
    Column("p50_at", Double),
    Column("p90_at", Double),
    Column("mean_at", Double),
    Column("plan_at", Double),
    Column("limit_at", Double),
    # SQLite finds them by the order in which they came.
    Index("start_estimate_at", "at").ddl_if(dialect="postgresql"),
)


class HostRecordRow(NamedTuple):
    """A row of `host_record` that is to be written; the store gives its number."""

    at: float
    seq: int
    whole: int
    data: bytes


class JobRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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
    application: str | None = ""
    job_group: str | None = ""
    description: str | None = ""
    cpu_s: float | None = None
    """CPU seconds of its last attempt, once that is over."""
    gpus: float | None = None
    """GPUs that its last attempt has or had; of a shared one the part."""
    traits: int | None = 0
    """IRREGULAR, ARRAY; what was ever said of a job stays."""
    gpu_seen_s: float | None = 0.0
    """Of its last attempt, as gsched.model.efficiency.gpu_seconds has it; 0: it had no GPU, or nothing is known."""
    gpu_busy_s: float | None = 0.0
    gpu_energy_j: float | None = None


NAMES = ("queue", "name", "project")
"""What a job is found by that hardly ever changes: rewritten only when it has, for the sake of the indexes."""
