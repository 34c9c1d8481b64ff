"""From nothing, from version 1, from the future, and from somebody else's file."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, MetaData, create_engine, inspect
from store_samples import damage, submitted
from stores import PostgresqlStore

from gsched.base.errors import BadRequest, Conflict, NotFound
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.tables import migrations, schema
from tests.support.manual_clock import ManualClock


def shape(engine: Engine) -> dict[str, Any]:
    """Everything about the tables that a difference between schema and migrations could be in."""
    found = inspect(engine)
    return {
        table: (
            [(c["name"], str(c["type"]), c["nullable"], c.get("primary_key")) for c in found.get_columns(table)],
            sorted((i["name"], i["column_names"], i["unique"]) for i in found.get_indexes(table)),
        )
        for table in found.get_table_names()
    }


def memory_engine(metadata: MetaData) -> Engine:
    engine = create_engine("sqlite://")
    metadata.create_all(engine)
    return engine


def test_the_migrations_lead_to_the_schema(store_file: Path) -> None:
    EventLog(store_file).close()
    assert shape(create_engine(f"sqlite:///{store_file}")) == shape(memory_engine(schema.metadata))


@pytest.mark.slow
@pytest.mark.needs_postgresql
def test_the_migrations_lead_to_the_schema_in_postgresql(postgresql_server: Any, tmp_path: Path) -> None:
    store, other = (PostgresqlStore(postgresql_server.new_url(), tmp_path, postgresql_server) for _ in range(2))
    store.open().close()
    engine = other.engine()
    schema.metadata.create_all(engine)
    found = shape(store.engine())
    assert found.pop("leader") and found.pop("lease")
    assert found == shape(engine)


def test_a_row_of_a_job_has_its_values_in_the_order_of_the_columns() -> None:
    assert list(schema.JobRow.__struct_fields__) == list(schema.job.c.keys())


def test_a_new_store_knows_its_version_and_its_cluster(store_file: Path) -> None:
    first = EventLog(store_file, clock=ManualClock(1234.5))
    cluster_id = first.cluster_id
    assert first.last_seq == 0
    first.close()
    again = EventLog(store_file, clock=ManualClock(9999.0))
    assert (again.cluster_id, again.created_at) == (cluster_id, 1234.5)
    assert len(cluster_id) == 32
    again.close()
    assert dict(sqlite3.connect(store_file).execute("select key, value from meta"))["schema_version"] == "13"


def test_only_its_owner_can_read_a_store(store_file: Path) -> None:
    log = EventLog(store_file)
    log.append([submitted(1)])
    files = sorted(Path(log.place).parent.iterdir())
    assert [f.name for f in files] == [
        "STORE.lock",
        "STORE.mark",
        "STORE.reserve",
        "store.db",
        "store.db-shm",
        "store.db-wal",
    ]
    assert all(f.stat().st_mode & 0o077 == 0 for f in files)
    log.close()


def test_an_empty_file_is_a_new_store(store_file: Path) -> None:
    store_file.touch()
    log = EventLog(store_file)
    assert log.append([submitted(1)]) == 1
    log.close()


OLD_ROW = (
    "insert into job"
    " (job_id, user, queue, name, project, host, state, submitted_at, dispatched_at, finished_at, exit_code)"
    " values (1, 'ann', 'normal', 'train', 'default', 'h1', 'DONE', 1000.0, 1001.0, 1002.0, 0)"
)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6, 7])
def test_a_store_of_an_older_version_is_brought_up_to_date(
    version: int, store_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as past:
        past.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:version])
        past.setattr(EventLog, "_newest_dictionaries", lambda _: ([], 0))  # there was no such table
        old = EventLog(store_file)
        old.append([submitted(1)])
        old.save_checkpoint(1, b"state")
        cluster_id = old.cluster_id
        old.close()
    damage(store_file, OLD_ROW)
    before = shape(create_engine(f"sqlite:///{store_file}"))
    indexed = str(before["job"])
    assert ("job_submitted" in indexed, "job_project" in indexed) == (version > 2, version > 1)
    new = EventLog(store_file)
    assert list(new.read()) == [(1, submitted(1))]
    assert new.load_checkpoint() == (1, b"state")
    assert new.cluster_id == cluster_id
    new.close()
    assert shape(create_engine(f"sqlite:///{store_file}")) == shape(memory_engine(schema.metadata))
    history = History(store_file)
    (row,) = history.rows_of([1])
    assert (row.name, row.finished_at, row.cpu_s, row.traits) == ("train", 1002.0, None, None)
    history.close()


def test_a_migration_that_fails_leaves_the_store_as_it_was(store_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    EventLog(store_file).close()
    before = shape(create_engine(f"sqlite:///{store_file}"))

    def half_done(connection: Connection) -> None:
        connection.exec_driver_sql("create table half (x integer)")
        raise RuntimeError("in the middle")

    with monkeypatch.context() as future:
        future.setattr(migrations, "MIGRATIONS", [*migrations.MIGRATIONS, half_done])
        with pytest.raises(RuntimeError):
            EventLog(store_file)
    assert shape(create_engine(f"sqlite:///{store_file}")) == before
    EventLog(store_file).close()


def test_a_newer_store_is_refused_and_left_alone(store_file: Path) -> None:
    EventLog(store_file).close()
    damage(store_file, "update meta set value = '99' where key = 'schema_version'")
    before = store_file.read_bytes()
    for reader in (EventLog, History):
        with pytest.raises(Conflict, match=r"store.db has format 99, made by a newer gsched; this one knows up to 13$"):
            reader(store_file)
    assert store_file.read_bytes() == before


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(3, id="texts with codes"),
        pytest.param(12, id="outputs that are removed, jobs that leave for an archive"),
    ],
)
def test_a_program_refuses_a_store_that_may_have_records_it_does_not_know(
    store_file: Path, monkeypatch: pytest.MonkeyPatch, known: int
) -> None:
    """It would set each job with such a record aside, as if that were damaged."""
    EventLog(store_file).close()
    monkeypatch.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:known])
    for reader in (EventLog, History):
        with pytest.raises(Conflict, match=rf"made by a newer gsched; this one knows up to {known}$"):
            reader(store_file)


def test_somebody_elses_database_is_refused_and_left_alone(store_file: Path) -> None:
    sqlite3.connect(store_file).execute("create table customers (name text)").connection.commit()
    before = store_file.read_bytes()
    for reader in (EventLog, History):
        with pytest.raises(Conflict, match=r"store.db is a database, but not a gsched store"):
            reader(store_file)
    assert store_file.read_bytes() == before


def test_a_meta_table_alone_makes_no_store(store_file: Path) -> None:
    damage(store_file, "create table meta (key text, value text)")
    with pytest.raises(Conflict, match="not a gsched store"):
        EventLog(store_file)


def test_a_file_that_is_no_database_is_refused_and_left_alone(store_file: Path) -> None:
    store_file.write_text("a letter to my aunt\n" * 100)
    with pytest.raises(BadRequest, match=r"store.db is not a gsched store: it is not an SQLite database$"):
        EventLog(store_file)
    with pytest.raises(NotFound, match="cannot be read as a store"):
        History(store_file)
    assert store_file.read_text().startswith("a letter")


def test_after_a_refusal_the_lock_is_free(store_file: Path) -> None:
    store_file.write_text("x" * 5000)
    with pytest.raises(BadRequest):
        EventLog(store_file)
    store_file.unlink()
    EventLog(store_file).close()


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=f"the folder of the store does not exist: {tmp_path}/no$"):
        EventLog(tmp_path / "no" / "store.db")


def test_a_store_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.db").mkdir()
    with pytest.raises(BadRequest, match=r"store.db is not a file"):
        EventLog(tmp_path / "store.db")
