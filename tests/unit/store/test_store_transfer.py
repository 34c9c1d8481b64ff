"""A store from one database into another: every row, or nothing at all."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from store_samples import batch_of, damage, job_row, noted, submitted
from stores import POSTGRESQL, PostgresqlStore, SqliteStore, StoreAtHand

from gsched.base.errors import BadRequest, Conflict, GschedError, Internal, NotFound
from gsched.model.views.start_estimate import StartEstimate
from gsched.store import transfer
from gsched.store.eventlog import EventLog, blob_id
from gsched.store.mark import MARK_NAME
from gsched.store.passing_blobs import own_message
from gsched.store.safeguards.continuity import StoreLost
from gsched.store.safeguards.failure import StoreInUse
from gsched.store.tables import migrations
from gsched.store.tables.schema import HostRecordRow
from gsched.store.transfer import TABLES, back_up, copy_whole_store, put_back

SCRIPT = b"#!/bin/sh\n\0\xff\n" * 50
MakeStore = Callable[[str], StoreAtHand]


@pytest.fixture
def make(tmp_path: Path, request: pytest.FixtureRequest) -> MakeStore:
    """Places for stores, each with a folder of its own."""

    def one(kind: str) -> StoreAtHand:
        folder = tmp_path / f"s{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        if kind == "sqlite":
            return SqliteStore(folder / "gsched.db")
        server = request.getfixturevalue("postgresql_server")
        return PostgresqlStore(server.new_url(), folder, server)

    return one


@pytest.fixture(params=["sqlite", POSTGRESQL])
def source(request: pytest.FixtureRequest, make: MakeStore) -> StoreAtHand:
    """A store with something of everything."""
    store = make(request.param)
    message = own_message(b"a message")
    with closing(store.open()) as log:
        for number in range(1, 301):
            log.append(batch_of(number), [job_row(number, name=f"ü{number}")], next_job_id=number + 1)
        log.append([noted(1)], [job_row(2, finished_at=9.5, exit_code=3, gpus=0.5, description=None)])
        log.append([noted(1)], blobs={blob_id(data): data for data in (SCRIPT, message, b"")})
        log.add_hosts([HostRecordRow(1.5, 3, 1, b"whole"), HostRecordRow(2.5, 4, 0, b"part")])
        log.add_hosts([], [StartEstimate(job_id=1, at=5.0, p50_at=7.25)])
        log.save_checkpoint(2, b"state")
        log.save_checkpoint_of(900, [log.put_part(b"one"), log.put_part(b"two")])
    return store


@pytest.fixture(params=["sqlite", POSTGRESQL])
def target(request: pytest.FixtureRequest, make: MakeStore) -> StoreAtHand:
    return make(request.param)


def content(store: StoreAtHand) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables."""
    order = {table.name: ", ".join(column.name for column in table.primary_key) for table in TABLES}
    found = {name: store.rows(f"select * from {name} order by {keys}") for name, keys in order.items()}
    found["meta"] = [row for row in found["meta"] if row[0] != "in_use"]
    return found


def nothing_in(store: StoreAtHand) -> bool:
    if isinstance(store, SqliteStore):
        return sorted(file.name for file in store.folder.iterdir()) in ([], ["STORE.lock"])
    return not store.rows("select 1 from pg_tables where schemaname = current_schema()")


def test_every_row_arrives_and_the_store_goes_on(source: StoreAtHand, target: StoreAtHand) -> None:
    before = content(source)
    copied = copy_whole_store(source.place, target.place)
    assert content(target) == before == content(source)
    assert copied.rows == {name: len(rows) for name, rows in before.items()}
    assert (copied.mark.seq, copied.mark.next_job_id) == (902, 301)
    with closing(target.open()) as log:
        assert (log.last_seq, log.cluster_id) == (902, copied.mark.cluster_id)
        assert log.load_checkpoint() == (900, b"onetwo")
        assert log.get_blob(blob_id(SCRIPT)) == SCRIPT
        assert log.append(batch_of(301)) == 905
        log.add_hosts([HostRecordRow(3.5, 905, 1, b"next")])
    assert [row[0] for row in target.rows("select number from host_record order by number")] == [1, 2, 3]


def test_there_and_back(make: MakeStore, source: StoreAtHand, target: StoreAtHand) -> None:
    back = make("sqlite" if isinstance(source, SqliteStore) else "postgresql")
    copy_whole_store(source.place, target.place)
    copy_whole_store(target.place, back.place)
    assert content(back) == content(source)


def test_a_file_for_its_owner_alone_with_its_mark(source: StoreAtHand, make: MakeStore) -> None:
    target = make("sqlite")
    copied = copy_whole_store(source.place, f"sqlite:///{target.place}")
    assert sorted(file.name for file in target.folder.iterdir()) == ["STORE.lock", "STORE.mark", "gsched.db"]
    assert all(file.stat().st_mode & 0o077 == 0 for file in target.folder.iterdir())
    with closing(target.open()) as log:
        assert log.mark == copied.mark
        assert log.numbers_from == 301


def test_a_master_that_has_either_is_in_the_way(source: StoreAtHand, target: StoreAtHand) -> None:
    with closing(source.open()), pytest.raises(StoreInUse):
        copy_whole_store(source.place, target.place)
    assert nothing_in(target)
    with closing(target.open()), pytest.raises(StoreInUse):
        copy_whole_store(source.place, target.place)


def test_what_is_there_is_not_overwritten(source: StoreAtHand, target: StoreAtHand) -> None:
    target.open().close()
    before = content(target)
    with pytest.raises(Conflict, match=r"there is a (store|file) already"):
        copy_whole_store(source.place, target.place)
    assert content(target) == before


def test_a_copy_that_fails_leaves_nothing(
    source: StoreAtHand, target: StoreAtHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(source)
    real = transfer._rows
    reads = 0

    def differing(connection: Any, table: Any) -> Any:
        nonlocal reads
        reads += 1
        rows = real(connection, table)
        return (tuple(reversed(row)) for row in rows) if reads == len(TABLES) + 4 else rows

    monkeypatch.setattr(transfer, "_rows", differing)
    with pytest.raises(Internal, match="the copy differs in row 1 of the table event: it was not kept"):
        copy_whole_store(source.place, target.place)
    assert nothing_in(target)
    assert content(source) == before
    monkeypatch.undo()
    copy_whole_store(source.place, target.place)


def test_a_store_of_an_earlier_version_is_brought_up_to_date_first(
    make: MakeStore, target: StoreAtHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make("sqlite")
    with monkeypatch.context() as past:
        past.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:5])
        past.setattr(EventLog, "_newest_dictionaries", lambda _: ([], 0))  # there was no such table
        old.open().close()
    with pytest.raises(Conflict, match="has format 5: start the master of this gsched with it once"):
        copy_whole_store(old.place, target.place)
    assert nothing_in(target)


def test_what_is_no_store_is_not_copied(make: MakeStore, target: StoreAtHand, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no store"):
        copy_whole_store(make("sqlite").place, target.place)
    with pytest.raises(BadRequest, match="the folder of the store does not exist"):
        copy_whole_store(str(tmp_path / "none" / "x.db"), target.place)
    assert nothing_in(target)


def test_a_store_that_lacks_something_is_not_copied(make: MakeStore, target: StoreAtHand) -> None:
    store = make("sqlite")
    with closing(store.open()) as log:
        log.append(batch_of(1))
    store.damage("delete from event where seq = 3")
    with pytest.raises(StoreLost, match="has lost events 3 to 3"):
        copy_whole_store(store.place, target.place)
    assert nothing_in(target)


def test_a_file_that_was_not_closed_and_has_lost_its_log_is_not_copied(make: MakeStore, target: StoreAtHand) -> None:
    store, killed = make("sqlite"), make("sqlite")
    with closing(store.open()) as log:
        log.append(batch_of(1))
        shutil.copy(store.place, killed.place)
    with pytest.raises(Conflict, match="was not closed, and its write-ahead log"):
        copy_whole_store(killed.place, target.place)
    assert nothing_in(target)


def test_a_file_whose_master_was_killed_is_copied_with_its_log(make: MakeStore, target: StoreAtHand) -> None:
    store, killed = make("sqlite"), make("sqlite")
    with closing(store.open()) as log:
        log.append(batch_of(1))
        for file in store.folder.glob("gsched.db*"):
            shutil.copy(file, killed.folder)
    assert copy_whole_store(killed.place, target.place).mark.seq == 3


def test_a_folder_that_knows_of_another_store_takes_none(source: StoreAtHand, make: MakeStore) -> None:
    target = make("sqlite")
    with closing(target.open()) as log:
        log.append([submitted(1)], next_job_id=2)
    for file in target.folder.glob("gsched.db*"):
        file.unlink()
    assert (target.folder / MARK_NAME).exists()
    with pytest.raises(StoreLost, match=r"is not the one that STORE\.mark knows"):
        copy_whole_store(source.place, target.place)
    assert not list(target.folder.glob("gsched.db*"))


@pytest.mark.slow
@pytest.mark.needs_postgresql
def test_a_value_that_the_other_database_has_no_place_for_is_named(make: MakeStore) -> None:
    store, target = make("sqlite"), make("postgresql")
    with closing(store.open()) as log:
        log.append(batch_of(1), [job_row(1, name="with\0nul")])
    damage(Path(store.place), "update event set at = 'yesterday' where seq = 2")
    with pytest.raises(GschedError, match=r"the table event cannot be copied: .*yesterday") as refused:
        copy_whole_store(store.place, target.place)
    assert "\n" not in refused.value.text
    assert nothing_in(target)
    damage(Path(store.place), "update event set at = 1.0 where seq = 2")
    copy_whole_store(store.place, target.place)
    assert target.rows("select name from job") == [("with�nul",)]


@pytest.mark.needs_root
def test_files_are_made_by_their_folders_owner_alone(source: StoreAtHand, make: MakeStore) -> None:
    target = make("sqlite")
    os.chown(target.folder, 65534, 65534)
    with pytest.raises(GschedError, match="belongs to another user, who must run this"):
        copy_whole_store(source.place, target.place)
    assert not list(target.folder.iterdir())


@pytest.fixture
def in_use(make: MakeStore) -> Iterator[tuple[PostgresqlStore, EventLog]]:
    """A store in PostgreSQL that its master writes to."""
    store = make("postgresql")
    assert isinstance(store, PostgresqlStore)
    with closing(store.open()) as log:
        log.append(batch_of(1), [job_row(1)], {blob_id(SCRIPT): SCRIPT}, next_job_id=2)
        yield store, log


def test_no_file_of_somebody_else_is_removed_or_replaced(make: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = make("sqlite"), make("sqlite")
    source.open().close()
    (target.folder / "gsched.db.new").write_text("mine")
    real = transfer._compare

    def coming_meanwhile(*words: Any) -> None:
        Path(target.place).write_text("mine, too")
        real(*words)

    with monkeypatch.context() as patch:
        patch.setattr(transfer, "_compare", coming_meanwhile)
        with pytest.raises(Conflict, match="there is a file already"):
            copy_whole_store(source.place, target.place)
    assert (target.folder / "gsched.db.new").read_text() == "mine"
    assert Path(target.place).read_text() == "mine, too"
    assert sorted(file.name for file in target.folder.glob("[!S]*")) == ["gsched.db", "gsched.db.new"]


@pytest.mark.slow
@pytest.mark.needs_postgresql
def test_a_backup_is_made_while_the_master_writes(in_use: tuple[PostgresqlStore, EventLog], tmp_path: Path) -> None:
    store, log = in_use
    (tmp_path / "kept").mkdir()
    file = tmp_path / "kept" / "monday"
    before = content(store)
    real = transfer._copy_table

    def writing_meanwhile(source: Any, into: Any, table: Any) -> int:
        log.append(batch_of(2))
        return real(source, into, table)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "_copy_table", writing_meanwhile)
        mark = back_up(store.place, file)
    assert (mark.cluster_id, mark.seq) == (log.cluster_id, 3)
    assert content(SqliteStore(file)) == before, "all of one moment"
    assert [path.name for path in file.parent.iterdir()] == ["monday"] and file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(Conflict, match="there is a file already"):
        back_up(store.place, file)
    with pytest.raises(BadRequest, match="No such file"):
        back_up(store.place, tmp_path / "none" / "x")


@pytest.mark.slow
@pytest.mark.needs_postgresql
def test_a_backup_is_put_into_an_empty_database_as_a_new_generation(
    in_use: tuple[PostgresqlStore, EventLog], make: MakeStore, tmp_path: Path
) -> None:
    store, log = in_use
    (tmp_path / "kept").mkdir()
    file = tmp_path / "kept" / "monday"
    back_up(store.place, file)
    log.append(batch_of(2), next_job_id=3)
    known = {MARK_NAME: log.mark}
    log.close()
    with pytest.raises(Conflict, match="there is a store already"):
        put_back(file, store.place, known)
    other = make("postgresql")
    other.folder = store.folder
    assert put_back(file, other.place, known).generation == 2
    with closing(other.open()) as again:
        assert (again.cluster_id, again.generation, again.last_seq) == (log.cluster_id, 2, 3)
        assert again.numbers_from == 3, "no number is given twice"
        assert again.get_blob(blob_id(SCRIPT)) == SCRIPT
    with pytest.raises(StoreLost, match="is of generation 1, but STORE"):
        store.open()
    (tmp_path / "text").write_text("a text that is no database, and long enough to be one" * 40)
    (tmp_path / "empty").touch()
    for bad in ("text", "empty", "kept", "none", "x" * 300):
        with pytest.raises(GschedError, match=re.escape(f"{tmp_path / bad}")) as refused:
            put_back(tmp_path / bad, make("postgresql").place, {})
        assert "\n" not in refused.value.text
    foreign = {"the agent of h": msgspec.structs.replace(log.mark, cluster_id="x" * 32)}
    with pytest.raises(Conflict, match="is not a copy of this cluster's store"):
        put_back(file, make("postgresql").place, foreign)
