"""Room that removed rows have left goes back to the disk, and what a store keeps can be counted."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from store_samples import batch_of, job_row, noted
from stores import PostgresqlStore, SqliteStore, StoreAtHand

from gsched.app.stores.kept_history import KeptHistory
from gsched.base.errors import NotFound
from gsched.model.config import Params
from gsched.model.store_url import parse_store_url
from gsched.store.eventlog import EventLog, blob_id
from gsched.store.retention.compaction import CannotShrink, compact_file, compact_server, convert_file
from gsched.store.retention.kept_amounts import kept_amounts
from gsched.store.safeguards.failure import StoreFull, StoreInUse

MIB = 1 << 20


def fill(log: EventLog, jobs: int = 200) -> None:
    for number in range(1, jobs + 1):
        script = str(number).encode() * 20_000
        log.append(
            batch_of(number),
            [job_row(number, finished_at=1000.0 + number, state="DONE")],
            {blob_id(script): script},
        )


def empty(store: StoreAtHand) -> None:
    """As if most were removed."""
    store.damage("DELETE FROM blob")
    store.damage("DELETE FROM event WHERE seq < 500")


def cluster(store: StoreAtHand, **ages: int) -> Any:
    is_server = isinstance(store, PostgresqlStore)
    locations = SimpleNamespace(
        store=store.place if is_server else "", store_place=store.place, state_dir=str(store.folder)
    )
    return SimpleNamespace(locations=locations, params=Params(**ages))


def told(config: Any) -> list[str]:
    lines: list[str] = []
    KeptHistory(config, lines.append).say_status(1000.0 + 86_400.0 + 51, UTC)
    return lines


@pytest.fixture
def file(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "gsched.db")


def test_a_file_shrinks_while_its_master_writes(file: SqliteStore) -> None:
    log = file.open()
    fill(log)
    log.append([noted(1, "x" * MIB)])
    empty(file)
    before = Path(file.place).stat().st_size
    found = compact_file(Path(file.place))
    assert found.after < found.before
    log.append([noted(1)])
    log.close()
    assert Path(file.place).stat().st_size <= before
    again = file.open()
    assert again.last_seq == 602
    again.close()
    assert compact_file(Path(file.place)).after == found.after, "nothing is left to give back"


def old_file(file: SqliteStore) -> None:
    """A store as it was made before files could shrink."""
    file.open().close()
    with closing(sqlite3.connect(file.place)) as connection:
        connection.execute("PRAGMA auto_vacuum=0")
        connection.execute("VACUUM")
    log = file.open()
    fill(log)
    log.close()
    empty(file)


def test_an_old_file_is_told_how_and_converted(file: SqliteStore) -> None:
    old_file(file)
    with pytest.raises(CannotShrink, match=r"made before it could shrink .* gadmin history compact --convert"):
        compact_file(Path(file.place))
    log = file.open()
    with pytest.raises(StoreInUse):
        convert_file(Path(file.place))
    log.close()
    found = convert_file(Path(file.place))
    assert found.after < found.before
    log = file.open()
    assert log.last_seq == 600
    fill(log, 50)
    log.close()
    empty(file)
    again = compact_file(Path(file.place))
    assert again.after < again.before


def test_a_conversion_needs_room(file: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    old_file(file)
    monkeypatch.setattr("gsched.store.retention.compaction.room_left", lambda _: 100)
    with pytest.raises(StoreFull, match=r"has 0 MiB left, and .* are needed: nothing was done"):
        convert_file(Path(file.place))
    with pytest.raises(CannotShrink):
        compact_file(Path(file.place))


@pytest.mark.slow
@pytest.mark.needs_postgresql
def test_tables_of_a_server_are_vacuumed(postgresql_server: Any, tmp_path: Path) -> None:
    store = PostgresqlStore(postgresql_server.new_url(), tmp_path, postgresql_server)
    log = store.open()
    fill(log)
    empty(store)
    found = compact_server(parse_store_url(store.place))
    assert found.after < found.before
    log.append([noted(1)])
    log.close()


def test_what_is_kept_is_counted(store: StoreAtHand) -> None:
    log = store.open()
    fill(log, 100)
    found = kept_amounts(store.place)
    counts = {kind.name: kind.number for kind in found.kinds}
    assert (counts["finished jobs"], counts["events"], counts["jobs that are not over"]) == (100, 300, 0)
    assert counts["scripts, environments and other contents"] == 100
    assert next(kind.oldest for kind in found.kinds if kind.name == "finished jobs") == 1001.0
    assert found.total_bytes > 0 and found.floor.seq == 0
    lines = told(cluster(store, job_history_days=1))
    assert lines[0].split() == ["KIND", "COUNT", "MIB", "OLDEST"]
    assert any(line.split() == ["finished", "jobs", "100", "-", "1970-01-01", "00:16:41"] for line in lines)
    assert "JOB_HISTORY_DAYS=1: 50 jobs go next" in lines
    assert "EVENT_HISTORY_DAYS=0: as long as the jobs" in lines
    assert "JOB_HISTORY_DAYS=0: for ever" in told(cluster(store))
    assert not [line for line in told(cluster(store)) if "SIZE" in line]
    told_of_size = [line for line in told(cluster(store, event_history_mb=1)) if "SIZE" in line]
    assert told_of_size == ["EVENT_HISTORY_SIZE=1: events take 0.0 MiB, none go next"]
    log.close()


def test_no_store_is_said_to_be_none(file: SqliteStore) -> None:
    kept = KeptHistory(cluster(file), print)
    with pytest.raises(NotFound, match="there is no store"):
        kept.say_status(0.0, UTC)
    with pytest.raises(NotFound, match="there is no store"):
        kept.compact(convert=False)
