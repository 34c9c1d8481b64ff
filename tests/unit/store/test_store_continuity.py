"""A database that is gone, empty, another cluster's or short of what was acknowledged is never taken without a word."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from pathlib import Path

import msgspec
import pytest
from store_samples import submitted

from gsched.base.errors import Conflict
from gsched.store import mark as marks
from gsched.store.eventlog import EventLog
from gsched.store.mark import MARK_NAME, StoreMark, known_on_this_machine, remember, remembered
from gsched.store.safeguards.continuity import StoreFault, StoreLost
from gsched.store.safeguards.failure import StoreDamaged
from tests.support.manual_clock import ManualClock

AGENT = "the agent of h"


def used(path: Path, events: int = 3) -> EventLog:
    """A store that has acknowledged so many submissions."""
    log = EventLog(path)
    for number in range(1, events + 1):
        log.append([submitted(number)], next_job_id=number + 1)
    return log


def died(path: Path, elsewhere: Path, *, with_log: bool = True) -> Path:
    """What the store's process leaves behind when it is killed now."""
    elsewhere.mkdir(mode=0o700)
    for file in filter(Path.is_file, path.parent.iterdir()):
        if with_log or not file.name.endswith(("-wal", "-shm")):
            shutil.copy(file, elsewhere)
    return elsewhere / path.name


def remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def lost(path: Path, **words: object) -> StoreLost:
    """The refusal to open the store; everything lies as it did."""
    before = {
        file.name: file.read_bytes()
        for file in path.parent.iterdir()
        if file.is_file() and file.suffix not in (".lock", ".mark")
    }
    with pytest.raises(StoreLost) as refused:
        EventLog(path, **words)  # type: ignore[arg-type]
    now = {
        file.name: file.read_bytes()
        for file in path.parent.iterdir()
        if file.is_file() and file.suffix not in (".lock", ".mark")
    }
    assert {name: data for name, data in now.items() if name in before and not name.endswith("-shm")} == {
        name: data for name, data in before.items() if not name.endswith("-shm")
    }
    assert not {name for name in now.keys() - before.keys() if not name.endswith(("-wal", "-shm"))}
    return refused.value


def test_a_store_that_ended_well_or_was_killed_is_whole(store_file: Path, tmp_path: Path) -> None:
    log = used(store_file)
    copy = died(store_file, tmp_path / "copy")
    log.close()
    for path in (store_file, copy):
        again = EventLog(path)
        assert (again.last_seq, again.numbers_from, again.renewed) == (3, 4, None)
        again.close()


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_database_that_is_gone_is_not_made_anew(store_file: Path, is_empty: bool) -> None:
    used(store_file).close()
    remove(store_file)
    if is_empty:
        store_file.touch()
    refused = lost(store_file)
    assert refused.loss.fault is StoreFault.MISSING
    assert refused.text == (
        f"the store {store_file} is missing or empty, but STORE.mark knows of one (3 events, job numbers below 4)"
    )
    assert store_file.exists() == is_empty


def test_a_log_that_is_gone_after_a_kill_is_noticed(store_file: Path, tmp_path: Path) -> None:
    log = used(store_file)
    copy = died(store_file, tmp_path / "copy", with_log=False)
    log.close()
    refused = lost(copy)
    assert refused.loss.fault is StoreFault.SHORT
    assert (
        f"has lost events 1 to 3, of which STORE.mark knows; its write-ahead log {copy}-wal is missing" in refused.text
    )


@pytest.mark.parametrize("knows", ["nobody", "an agent that knows less", "a damaged mark"])
def test_a_log_that_is_gone_together_with_the_mark_is_noticed(store_file: Path, tmp_path: Path, knows: str) -> None:
    """The database itself says that it was in use, so there must be a log."""
    used(store_file).close()
    log = EventLog(store_file)
    log.append([submitted(4)], next_job_id=5)
    copy = died(store_file, tmp_path / "copy", with_log=False)
    cluster_id = log.cluster_id
    log.close()
    mark = copy.parent / MARK_NAME
    mark.write_text("rubbish") if knows == "a damaged mark" else mark.unlink()
    agent = {AGENT: StoreMark(cluster_id=cluster_id, seq=2, next_job_id=1001)}
    for _ in "12":
        refused = lost(copy, witnesses=agent if knows.startswith("an agent") else {})
    assert refused.loss.fault is StoreFault.UNCLOSED
    assert refused.text == (
        f"the store {copy} may have lost its newest events: it was not closed, and its write-ahead log {copy}-wal is "
        "missing"
    )
    log = EventLog(copy, renew=True)
    assert log.renewed is not None and log.renewed.goes_on
    assert (log.cluster_id, log.generation, log.last_seq) == (cluster_id, 2, 3)
    log.close()
    mark.unlink()
    EventLog(copy).close()  # that one was closed


def test_a_store_that_was_killed_is_whole_without_a_mark_as_long_as_its_log_is_there(
    store_file: Path, tmp_path: Path
) -> None:
    log = used(store_file)
    copy = died(store_file, tmp_path / "copy")
    log.close()
    (copy.parent / MARK_NAME).unlink()
    again = EventLog(copy)
    assert (again.last_seq, again.renewed) == (3, None)
    again.close()


def test_a_log_that_is_gone_with_nothing_in_it_that_the_database_lacks_is_no_loss(
    store_file: Path, tmp_path: Path
) -> None:
    used(store_file).close()
    log = EventLog(store_file)
    copy = died(store_file, tmp_path / "copy", with_log=False)
    log.close()
    EventLog(copy).close()


def test_the_newest_events_that_are_gone_are_counted(store_file: Path, tmp_path: Path) -> None:
    used(store_file).close()
    log = EventLog(store_file)
    log.append([submitted(4), submitted(5)], next_job_id=6)
    copy = died(store_file, tmp_path / "copy", with_log=False)
    log.close()
    refused = lost(copy)
    assert refused.loss.fault is StoreFault.SHORT
    assert refused.text == (
        f"the store {copy} has lost events 4 to 5, of which STORE.mark knows; its write-ahead log {copy}-wal is missing"
    )


def test_an_older_copy_put_back_is_noticed(store_file: Path, tmp_path: Path) -> None:
    used(store_file).close()
    shutil.copy(store_file, tmp_path / "backup")
    used_again = EventLog(store_file)
    used_again.append([submitted(4)], next_job_id=5)
    used_again.close()
    shutil.copy(tmp_path / "backup", store_file)
    assert lost(store_file).text == f"the store {store_file} has lost events 4 to 4, of which STORE.mark knows" + (
        f"; its write-ahead log {store_file}-wal is missing"
    )


def test_another_clusters_database_is_refused(store_file: Path, tmp_path: Path) -> None:
    used(store_file).close()
    (tmp_path / "other").mkdir(mode=0o700)
    used(tmp_path / "other" / "store.db", 9).close()
    shutil.copy(tmp_path / "other" / "store.db", store_file)
    refused = lost(store_file)
    assert refused.loss.fault is StoreFault.FOREIGN
    assert "is not the one that STORE.mark knows (3 events, job numbers below 4): its cluster id is " in refused.text


def test_where_the_whole_folder_is_gone_the_agents_know(store_file: Path) -> None:
    known = StoreMark(cluster_id="c" * 32, seq=7, next_job_id=1001)
    refused = lost(store_file, witnesses={AGENT: known})
    assert refused.text == (
        f"the store {store_file} is missing or empty, but the agent of h knows of one (7 events, "
        "job numbers below 1001)"
    )
    assert not store_file.exists()


def test_what_agents_know_of_a_store_that_is_whole_changes_nothing(store_file: Path) -> None:
    log = used(store_file)
    known = StoreMark(cluster_id=log.cluster_id, seq=2, next_job_id=1001)
    log.close()
    log = EventLog(store_file, witnesses={AGENT: known})
    assert log.numbers_from == 4
    log.close()


def test_a_machine_that_went_down_and_a_log_that_is_gone_leave_a_doubt(
    store_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used(store_file).close()
    log = EventLog(store_file)
    with_log = died(store_file, tmp_path / "a")
    without = died(store_file, tmp_path / "b", with_log=False)
    log.close()
    monkeypatch.setattr(marks, "boot_id", lambda: "another boot")
    EventLog(with_log).close()
    for _ in "12":  # whoever asks again gets the same answer, though the first look has made an empty log
        assert lost(without).loss.fault is StoreFault.DOUBTFUL
    EventLog(store_file).close()  # that one was closed


def test_a_new_generation_begins_empty_above_all_numbers(store_file: Path) -> None:
    log = used(store_file)
    cluster_id = log.cluster_id
    log.close()
    remove(store_file)
    known = StoreMark(cluster_id=cluster_id, seq=2, next_job_id=1001)
    log = EventLog(store_file, witnesses={AGENT: known}, renew=True)
    assert log.renewed is not None and not log.renewed.goes_on and log.renewed.kept == ()
    assert (log.cluster_id, log.generation, log.last_seq, log.numbers_from) == (cluster_id, 2, 0, 1001)
    log.close()  # it ends before it has given out a number
    log = EventLog(store_file, witnesses={AGENT: known})
    assert (log.generation, log.numbers_from, log.renewed) == (2, 1001, None)
    log.append([submitted(1001)], next_job_id=1002)
    log.close()
    log = EventLog(store_file)
    assert log.numbers_from == 1002
    log.close()


def test_a_new_generation_goes_on_with_what_is_left(store_file: Path, tmp_path: Path) -> None:
    used(store_file).close()
    shutil.copy(store_file, tmp_path / "backup")
    log = EventLog(store_file)
    log.append([submitted(number) for number in range(4, 30)], next_job_id=30)
    log.close()
    shutil.copy(tmp_path / "backup", store_file)
    log = EventLog(store_file, renew=True)
    assert log.renewed is not None and log.renewed.goes_on
    assert (log.generation, log.last_seq, log.numbers_from) == (2, 3, 30)
    log.close()
    EventLog(store_file).close()


def test_a_generation_that_was_given_up_does_not_come_back_unnoticed(store_file: Path, tmp_path: Path) -> None:
    used(store_file).close()
    shutil.move(store_file, tmp_path / "found-again")
    EventLog(store_file, renew=True).close()
    shutil.copy(tmp_path / "found-again", store_file)
    refused = lost(store_file)
    assert refused.loss.fault is StoreFault.OLD
    assert "is of generation 1, but STORE.mark knows of generation 2" in refused.text
    log = EventLog(store_file, renew=True)
    assert (log.generation, log.last_seq) == (3, 3)
    log.close()


def test_what_cannot_be_used_is_kept_beside(store_file: Path, tmp_path: Path) -> None:
    used(store_file).close()
    store_file.write_text("a letter to my aunt\n" * 100)
    log = EventLog(store_file, renew=True, clock=ManualClock(0.0))
    kept = tmp_path / "store.db.lost-19700101T000000Z"
    assert log.renewed is not None and log.renewed.kept == (str(kept),)
    log.close()
    assert kept.read_text().startswith("a letter")


@pytest.mark.parametrize("harm", ["letter", "cut", "link"])
def test_a_file_that_cannot_be_read_is_a_lost_store(store_file: Path, harm: str) -> None:
    used(store_file).close()
    match harm:
        case "letter":
            store_file.write_text("a letter to my aunt\n" * 100)
        case "cut":
            os.truncate(store_file, 8192)
        case "link":
            store_file.unlink()
            store_file.symlink_to("/nowhere/at/all")
    with pytest.raises(StoreLost) as refused:
        EventLog(store_file)
    words = "is missing or empty" if harm == "link" else r"cannot be read \(.*SQLITE_(NOTADB|CORRUPT)\)\)"
    assert re.search(f"{words}, but {MARK_NAME} knows of one \\(3 events", refused.value.text)
    log = EventLog(store_file, renew=True)
    assert (log.generation, log.last_seq, log.numbers_from) == (2, 0, 4)
    log.close()
    assert len(list(store_file.parent.glob(f"{store_file.name}.lost-*Z"))) == 1 or harm == "link"


def test_a_page_that_cannot_be_read_is_damage(store_file: Path) -> None:
    log = used(store_file)
    log.close()
    with sqlite3.connect(store_file) as connection:
        (page,) = connection.execute("select rootpage from sqlite_master where name = 'meta'").fetchone()
        (size,) = connection.execute("pragma page_size").fetchone()
    connection.close()
    (store_file.parent / MARK_NAME).unlink()
    with store_file.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(os.urandom(size))
    with pytest.raises(StoreDamaged, match=r"store.db is damaged: .*SQLITE_CORRUPT"):
        EventLog(store_file)


def test_a_store_of_a_newer_gsched_is_never_put_away(store_file: Path) -> None:
    log = used(store_file)
    log.close()
    with sqlite3.connect(store_file) as connection:
        connection.execute("update meta set value = '99' where key = 'schema_version'")
    connection.close()
    with pytest.raises(Conflict, match="newer gsched"):
        EventLog(store_file, renew=True)
    assert store_file.exists()


def test_a_store_that_is_whole_is_not_renewed(store_file: Path) -> None:
    used(store_file).close()
    log = EventLog(store_file, renew=True)
    assert (log.renewed, log.generation, log.last_seq) == (None, 1, 3)
    log.close()


def test_a_store_from_before_there_were_marks_gets_one(store_file: Path) -> None:
    used(store_file).close()
    (store_file.parent / MARK_NAME).unlink()
    EventLog(store_file).close()
    remove(store_file)
    assert lost(store_file).loss.fault is StoreFault.MISSING


def test_a_damaged_mark_is_made_anew(store_file: Path) -> None:
    used(store_file).close()
    path = store_file.parent / MARK_NAME
    path.write_bytes(path.read_bytes().replace(b'"seq":3', b'"seq":9'))
    EventLog(store_file).close()
    remove(store_file)
    assert lost(store_file).loss.known.seq == 3


def test_an_agents_folder_remembers_store_and_attempts(tmp_path: Path) -> None:
    spool = tmp_path / "h"
    assert remembered(spool) is None
    (spool / "attempts" / "17.2").mkdir(parents=True)
    (spool / "attempts" / f"{5 << 32 | 30}.1").mkdir()
    (spool / "attempts" / "something").mkdir()
    assert remembered(spool) == StoreMark(next_job_id=31)
    mark = StoreMark(cluster_id="c", generation=2, seq=5, next_job_id=1001)
    remember(spool, mark)
    assert known_on_this_machine(tmp_path) == {AGENT: mark}
    (spool / "store").write_text("rubbish")
    assert remembered(spool) == StoreMark(next_job_id=31)
    assert known_on_this_machine(tmp_path / "nowhere") == {}


def test_the_mark_of_a_batch_that_failed_stays_behind(store_file: Path) -> None:
    log = used(store_file)
    with pytest.raises(ValueError, match="content"):
        log.append([submitted(4)], blobs={"x": b"y"}, next_job_id=5)
    assert log.mark == msgspec.structs.replace(log.mark, seq=3, next_job_id=4)
    log.close()
