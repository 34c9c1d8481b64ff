"""Copies of a store: whole while it is written to, put back as a new generation, never in another one's place."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from store_samples import job_row, submitted

from gsched.base.errors import BadRequest, Conflict
from gsched.store.eventlog import EventLog
from gsched.store.mark import MARK_NAME, StoreMark
from gsched.store.safeguards.copies import copy_store, restore_copy
from gsched.store.safeguards.failure import StoreDamaged, StoreInUse


def used(path: Path, events: int = 3) -> EventLog:
    """A store that has acknowledged so many submissions."""
    log = EventLog(path)
    for number in range(1, events + 1):
        log.append([submitted(number)], [job_row(number)], next_job_id=number + 1)
    return log


def files(folder: Path) -> dict[str, bytes]:
    """All but what SQLite makes to look, and who holds the lock."""
    others = ("-wal", "-shm", ".lock")
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() if not path.name.endswith(others)
    }


def test_a_copy_is_whole_and_one_file_while_the_store_is_in_use(store_file: Path, tmp_path: Path) -> None:
    log = used(store_file)
    copy = tmp_path / "copies" / "monday"
    copy.parent.mkdir()
    mark = copy_store(store_file, copy)
    assert (mark.cluster_id, mark.generation, mark.seq) == (log.cluster_id, 1, 3)
    assert [path.name for path in copy.parent.iterdir()] == ["monday"]
    assert copy.stat().st_mode & 0o777 == 0o600
    assert log.append([submitted(4)]) == 4, "nobody had to wait, and nothing is locked"
    log.close()
    with pytest.raises(BadRequest, match="monday: File exists"):
        copy_store(store_file, copy)
    again = EventLog(copy)
    assert [seq for seq, _ in again.read()] == [1, 2, 3]
    again.close()


def test_a_copy_is_put_back_as_a_new_generation_whose_numbers_are_new(store_file: Path, tmp_path: Path) -> None:
    log = used(store_file)
    copy = tmp_path / "monday"
    copy_store(store_file, copy)
    log.append([submitted(4), submitted(5)], next_job_id=6)
    with pytest.raises(StoreInUse):
        restore_copy(copy, store_file, {}, 0.0)
    log.close()
    restored = restore_copy(copy, store_file, {}, 0.0)
    kept = f"{store_file}.lost-19700101T000000Z"
    assert restored.kept[0] == kept and not restored.may_lack
    assert (restored.mark.generation, restored.mark.seq) == (2, 3)
    log = EventLog(store_file)
    assert (log.generation, log.last_seq, log.numbers_from, log.renewed) == (2, 3, 6, None)
    log.close()
    assert Path(kept).is_file() and copy.is_file()


def test_what_is_put_back_in_an_empty_folder_goes_on_from_what_agents_know(store_file: Path, tmp_path: Path) -> None:
    log = used(store_file)
    copy = tmp_path / "monday"
    copy_store(store_file, copy)
    log.close()
    folder = tmp_path / "new"
    folder.mkdir(mode=0o700)
    known = {"the agent of h": StoreMark(cluster_id=log.cluster_id, generation=4, seq=9, next_job_id=1001)}
    restore_copy(copy, folder / "store.db", known, 0.0)
    log = EventLog(folder / "store.db", witnesses=known)
    assert (log.generation, log.last_seq, log.numbers_from) == (5, 3, 1001)
    log.close()


def test_numbers_that_only_the_replaced_store_knows_are_not_used_again(store_file: Path, tmp_path: Path) -> None:
    log = used(store_file)
    copy = tmp_path / "monday"
    copy_store(store_file, copy)
    log.append([submitted(7)], [job_row(7), job_row(2 << 32 | 8)], next_job_id=9)
    log.close()
    (store_file.parent / MARK_NAME).unlink()
    restore_copy(copy, store_file, {}, 0.0)
    log = EventLog(store_file)
    assert (log.generation, log.numbers_from) == (2, 9)
    log.close()


def test_a_copy_that_somebody_made_by_hand_is_told_apart(store_file: Path, tmp_path: Path) -> None:
    """`cp` of the database alone, while the master ran: what was in the log is not in it."""
    log = used(store_file)
    copy = tmp_path / "by-hand"
    shutil.copy(store_file, copy)
    log.close()
    assert restore_copy(copy, store_file, {}, 0.0).may_lack


@pytest.mark.parametrize("wrong", ["other", "letter", "empty", "missing", "damaged", "foreign"])
def test_what_is_no_copy_of_this_store_changes_nothing(store_file: Path, tmp_path: Path, wrong: str) -> None:
    used(store_file).close()
    file = tmp_path / "elsewhere" / "file"
    file.parent.mkdir(mode=0o700)
    expected: type[Exception]
    match wrong:
        case "other":
            used(file).close()
            expected, words = Conflict, "is not a copy of this cluster's store: its cluster id is "
        case "letter":
            file.write_text("a letter to my aunt\n" * 100)
            expected, words = StoreDamaged, "cannot be read: file is not a database"
        case "empty":
            file.touch()
            expected, words = BadRequest, "there is no store in it"
        case "missing":
            expected, words = BadRequest, "No such file or directory"
        case "foreign":
            with sqlite3.connect(file) as connection:
                connection.execute("create table letters (text)")
            connection.close()
            expected, words = Conflict, "not a gsched store"
        case _:
            copy_store(store_file, file)
            with sqlite3.connect(file) as connection:
                (page,) = connection.execute("select rootpage from sqlite_master where name = 'job'").fetchone()
                (size,) = connection.execute("pragma page_size").fetchone()
            connection.close()
            with file.open("r+b") as opened:
                opened.seek((page - 1) * size)
                opened.write(b"\xff" * size)
            expected, words = StoreDamaged, "the store is damaged, and no copy was made"
    before = files(store_file.parent)
    with pytest.raises(expected, match=words):
        restore_copy(file, store_file, {}, 0.0)
    assert files(store_file.parent) == before
    EventLog(store_file).close()
