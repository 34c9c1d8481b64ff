"""Numbered steps from an empty file to today's tables. A step that was ever released never changes; add one instead.

Add one, if need be an empty one, also where events change so that a program of before cannot read them.

Steps are written out, not derived from `schema`: the schema moves on, a step describes the past. A test compares the
outcome of all steps with the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    inspect,
    select,
    update,
)
from sqlalchemy.types import TypeEngine

from gsched.base.errors import Conflict
from gsched.base.ids import new_token
from gsched.store.mark import StoreMark
from gsched.store.tables.schema import long_text, meta, short_text
from gsched.store.tables.statements import insert_rows, upsert

FORMAT = "gsched store"
"""Value of meta key `format`: how a file is known to be ours."""


TIDY_UP_SHARE = 0.02
"""Of a table: what changes until a server of PostgreSQL tidies it up."""


class ForeignDatabase(Conflict):
    """A database that somebody else's program has made."""


def _step_1(connection: Connection) -> None:
    """The log, what it refers to, and one row per job for queries."""
    tables = MetaData()
    counter = BigInteger().with_variant(Integer, "sqlite")
    Table("meta", tables, Column("key", short_text(64), primary_key=True), Column("value", long_text(), nullable=False))
    Table(
        "event",
        tables,
        Column("seq", counter, primary_key=True, autoincrement=False),
        Column("at", Double, nullable=False),
        Column("kind", short_text(64), nullable=False),
        Column("job_id", counter),
        Column("payload", LargeBinary, nullable=False),
        Index("event_job", "job_id"),
    )
    Table(
        "job",
        tables,
        Column("job_id", counter, primary_key=True, autoincrement=False),
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
        Index("job_user", "user"),
        Index("job_state", "state"),
        Index("job_finished", "finished_at"),
    )
    Table("blob", tables, Column("id", short_text(64), primary_key=True), Column("data", LargeBinary, nullable=False))
    Table(
        "checkpoint",
        tables,
        Column("seq", counter, primary_key=True, autoincrement=False),
        Column("at", Double, nullable=False),
        Column("crc", counter, nullable=False),
        Column("payload", LargeBinary, nullable=False),
    )
    tables.create_all(connection, checkfirst=False)


def _step_2(connection: Connection) -> None:
    """Accounting by project over a span of time reads an index, not the table."""
    table = Table("job", MetaData(), Column("project", short_text(256)), Column("finished_at", Double))
    Index("job_project", table.c.project, table.c.finished_at).create(connection)


def _step_3(connection: Connection) -> None:
    """Jobs are found by time, user, queue and name, each by an index; rows tell by themselves what most jobs took.

    The new columns are empty in rows that are there: their events are read instead.
    """
    _add_columns(connection, application=short_text(256), job_group=long_text(), description=long_text())
    _add_columns(connection, cpu_s=Double(), gpus=Double(), traits=Integer())
    for name in ("job_user", "job_state", "job_finished", "job_project"):
        connection.exec_driver_sql(f"DROP INDEX {name}")
    user = connection.dialect.identifier_preparer.quote("user")
    for name, columns, which in (
        ("job_submitted", "submitted_at", ""),
        ("job_user", f"{user}, submitted_at", ""),
        ("job_queue", "queue, submitted_at", ""),
        ("job_name", "name, submitted_at", ""),
        ("job_open", "submitted_at", "finished_at IS NULL"),
        ("job_dispatched", "dispatched_at", "dispatched_at IS NOT NULL"),
        ("job_finished", "finished_at", "finished_at IS NOT NULL"),
        ("job_user_finished", f"{user}, finished_at", "finished_at IS NOT NULL"),
        ("job_project", "project, finished_at", "finished_at IS NOT NULL"),
    ):
        where = f" WHERE {which}" if which else ""
        connection.exec_driver_sql(f"CREATE INDEX {name} ON job ({columns}){where}")


def _step_4(_: Connection) -> None:
    """Texts in events and checkpoints are codes with parameters. The tables stay as they are, but a program of before
    must refuse the store: it would take each such event for a damaged one, and set its job aside.
    """


def _step_5(connection: Connection) -> None:
    """Rows tell what jobs made of the time of their GPUs. The new columns are empty in rows that are there."""
    _add_columns(connection, gpu_seen_s=Double(), gpu_busy_s=Double(), gpu_energy_j=Double())


def _step_6(connection: Connection) -> None:
    """What was seen of hosts is kept, for looks at the past."""
    tables = MetaData()
    counter = BigInteger().with_variant(Integer, "sqlite")
    Table(
        "host_record",
        tables,
        Column("number", counter, primary_key=True),
        Column("at", Double, nullable=False),
        Column("seq", counter, nullable=False),
        Column("whole", Integer, nullable=False),
        Column("data", LargeBinary, nullable=False),
    )
    tables.create_all(connection, checkfirst=False)
    connection.exec_driver_sql("CREATE INDEX host_record_whole ON host_record (at) WHERE whole = 1")


def _step_7(connection: Connection) -> None:
    """What was said of the starts of jobs is kept, to be judged later; of jobs that are there nothing is known."""
    tables = MetaData()
    counter = BigInteger().with_variant(Integer, "sqlite")
    said = [Column(name, Double) for name in ("p50_at", "p90_at", "mean_at", "plan_at", "limit_at")]
    Table(
        "start_estimate",
        tables,
        Column("job_id", counter, primary_key=True, autoincrement=False),
        Column("at", Double, primary_key=True),
        *said,
    )
    tables.create_all(connection, checkfirst=False)
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("CREATE INDEX start_estimate_at ON start_estimate (at)")


def _step_8(connection: Connection) -> None:
    """Events and blobs are packed (gsched.store.packing). Those that are there stay as they are."""
    counter = BigInteger().with_variant(Integer, "sqlite")
    tables = MetaData()
    Table(
        "dictionary",
        tables,
        Column("number", counter, primary_key=True, autoincrement=False),
        Column("words", LargeBinary, nullable=False),
    )
    tables.create_all(connection, checkfirst=False)


def _step_9(connection: Connection) -> None:
    """A server of PostgreSQL tidies up the tables that grow for ever while there is little to tidy up: without a word
    it waits until a fifth of the table has changed, which is months of jobs at once, and knows nothing of the newest
    ones when it chooses how to find them. Where an administrator has said something else that stays.
    """
    if connection.dialect.name != "postgresql":
        return
    for table, what in (("job", "vacuum"), ("event", "vacuum_insert"), ("job", "analyze"), ("event", "analyze")):
        name = f"autovacuum_{what}_scale_factor"
        is_said = f"SELECT reloptions::text LIKE '%{name}=%' FROM pg_class WHERE oid = '{table}'::regclass"
        if not connection.exec_driver_sql(is_said.replace("%", "%%")).scalar():
            connection.exec_driver_sql(f"ALTER TABLE {table} SET ({name} = {TIDY_UP_SHARE})")


def _step_10(_: Connection) -> None:
    """Jobs of another batch system may be recorded. A program of before must refuse the store: it would set each of
    them aside.
    """


def _step_11(_: Connection) -> None:
    """Events below a floor (gsched.store.tables.floor) may be gone. The tables stay as they are, but a program of
    before must refuse the store: it would take what is gone for damage.
    """


def _step_12(connection: Connection) -> None:
    """It is noted which event names which blob, so that blobs go after their jobs (gsched.store.retention)."""
    tables = MetaData()
    counter = BigInteger().with_variant(Integer, "sqlite")
    Table(
        "blob_use",
        tables,
        Column("seq", counter, primary_key=True, autoincrement=False),
        Column("hash", counter, primary_key=True, autoincrement=False),
        Index("blob_use_hash", "hash"),
        sqlite_with_rowid=False,
    )
    tables.create_all(connection, checkfirst=False)


def _step_13(_: Connection) -> None:
    """It may be recorded that outputs were removed from a host, and that jobs leave the store for an archive. A program
    of before must refuse the store: it knows no such events.
    """


def _add_columns(connection: Connection, **columns: TypeEngine[Any]) -> None:
    """To the rows of jobs, empty in those that are there."""
    for name, kind in columns.items():
        connection.exec_driver_sql(f"ALTER TABLE job ADD COLUMN {name} {kind.compile(dialect=connection.dialect)}")


MIGRATIONS: list[Callable[[Connection], None]] = [
    _step_1,
    _step_2,
    _step_3,
    _step_4,
    _step_5,
    _step_6,
    _step_7,
    _step_8,
    _step_9,
    _step_10,
    _step_11,
    _step_12,
    _step_13,
]
"""Step n leads from version n-1 to n; version 0 is an empty database."""


def schema_version(connection: Connection, store: str) -> int:
    """Version of the tables, 0 for a database without any. Raises Conflict for a database of somebody else."""
    tables = inspect(connection).get_table_names()
    if not tables:
        return 0
    values = read_meta(connection) if "meta" in tables else {}
    version = values.get("schema_version", "")
    if values.get("format") != FORMAT or not version.isdigit():
        raise ForeignDatabase(f"{store} is a database, but not a gsched store: it is left as it is")
    return int(version)


def read_meta(connection: Connection) -> dict[str, str]:
    """All of the meta table."""
    return {str(key): str(value) for key, value in connection.execute(select(meta.c.key, meta.c.value))}


def check_version(version: int, store: str) -> None:
    """Raises Conflict when the store is newer than this program."""
    if version > len(MIGRATIONS):
        raise Conflict(
            f"the store {store} has format {version}, made by a newer gsched; this one knows up to {len(MIGRATIONS)}"
        )


def make_tables(connection: Connection) -> None:
    """All steps at once, in the transaction that has been begun; what the meta table holds is the caller's."""
    for step in MIGRATIONS:
        step(connection)


def migrate(engine: Engine, store: str, now: float, origin: StoreMark | None = None) -> int:
    """Bring the database to the newest version, each step in a transaction of its own; returns the version it had.

    `now` (UTC seconds) becomes created_at of a new store. `origin`: the cluster and the generation that it is of from
    now on. Raises Conflict for a foreign or newer database.
    """
    with engine.begin() as connection:
        before = schema_version(connection, store)
    check_version(before, store)
    for number, step in enumerate(MIGRATIONS[before:], before + 1):
        with engine.begin() as connection:
            step(connection)
            if number == 1:
                cluster_id = (origin.cluster_id if origin is not None else "") or new_token()
                values = {"format": FORMAT, "schema_version": "1", "cluster_id": cluster_id, "created_at": repr(now)}
                _put_meta(connection, values)
                if origin is not None:
                    note_generation(connection, origin.generation)
            connection.execute(update(meta).where(meta.c.key == "schema_version").values(value=str(number)))
    if before and origin is not None:
        with engine.begin() as connection:
            note_generation(connection, origin.generation)
    return before


def note_generation(connection: Connection, generation: int) -> None:
    """The store is of that generation from now on."""
    _put_meta(connection, {"generation": str(generation)})


def _put_meta(connection: Connection, values: Mapping[str, str]) -> None:
    insert_rows(connection, upsert(meta), list(values.items()))
