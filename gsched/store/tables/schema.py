"""The tables, as SQLAlchemy Core describes them, and the read-side row of a job. Changes go through `migrations`.

Types and statements are the portable ones of Core. SQLite's own are `sqlite` (pragmas, URL), `failure` (result codes)
and the two INSERT statements below, which PostgreSQL also knows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
from sqlalchemy.dialects.sqlite import Insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

metadata = MetaData()

NOT_ENDED = "finished_at IS NULL"
ENDED = "finished_at IS NOT NULL"

IRREGULAR = 1
"""Bit of `traits`: suspended, requeued, lost from sight, held: only its events tell what happened between its times."""
ARRAY = 2
"""Bit of `traits`: the row of an array, which stands for its elements that are no jobs of their own."""

CounterColumn = BigInteger().with_variant(Integer, "sqlite")
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
    Column("seq", CounterColumn, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("job_id", CounterColumn),
    # JSON as bytes: a damaged text is then still a value, not an error of the driver in the middle of a replay.
    Column("payload", LargeBinary, nullable=False),
    Index("event_job", "job_id"),
)

job = Table(
    "job",
    metadata,
    Column("job_id", CounterColumn, primary_key=True, autoincrement=False),
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
    # From here on NULL in rows that were written before step 3 of the migrations: only their events tell.
    Column("application", String(256)),
    Column("job_group", Text),
    Column("description", Text),
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
    Column("id", String(64), primary_key=True),
    Column("data", LargeBinary, nullable=False),
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
_FOR_GOOD = ("user", "submitted_at")


def upsert(table: Table) -> Insert:
    """INSERT of whole rows that replaces a row with the same primary key."""
    statement = sqlite_insert(table)
    keys = {column.name for column in table.primary_key}
    replaced: dict[str, Any] = {name: statement.excluded[name] for name in table.c.keys() if name not in keys}  # noqa: SIM118
    return statement.on_conflict_do_update(index_elements=sorted(keys), set_=replaced)


def put_job() -> Insert:
    """INSERT of a job's row, or what has changed of it but its NAMES; see `rename_job`."""
    statement = sqlite_insert(job)
    fixed = {"job_id", *NAMES, *_FOR_GOOD}
    replaced: dict[str, Any] = {name: statement.excluded[name] for name in job.c.keys() if name not in fixed}  # noqa: SIM118
    replaced["traits"] = job.c.traits.op("|")(statement.excluded.traits)
    return statement.on_conflict_do_update(index_elements=["job_id"], set_=replaced)


def rename_job() -> str:
    """UPDATE of a row's NAMES where one of them is another: takes NAMES, the number, and NAMES again."""
    given = ", ".join(f"{name} = ?" for name in NAMES)
    differs = " OR ".join(f"{name} <> ?" for name in NAMES)
    return f"UPDATE job SET {given} WHERE job_id = ? AND ({differs})"


def insert_new(table: Table) -> Insert:
    """INSERT that leaves a row with the same primary key as it is."""
    return sqlite_insert(table).on_conflict_do_nothing()
