"""What a store has let go of before it was archived: no job is missing for it, and the archive says what it lacks."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from archived_samples import (
    KEPT,
    OCTOBER,
    SEPTEMBER,
    answers_of,
    answers_of_archive,
    archived,
    at,
    fill,
    questions,
)

from gsched.app.archives.archiving import Wanted, archive_history
from gsched.base.errors import Conflict
from gsched.master.archive.archive_manifest import read_manifest
from gsched.model.event import HostClosed, JobForgotten, JobNoticeSettled
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    opened = EventLog(tmp_path / "store.db")
    fill(opened)
    yield opened
    opened.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def let_go(log: EventLog, *statements: str) -> None:
    """As the master does by the ages of lsb.params."""
    with closing(sqlite3.connect(log.place)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def labels(folder: Path, month: str) -> list[str]:
    with gzip.open(folder / f"jobs-{month}.jsonl.gz", "rt") as file:
        return [json.loads(line)["JOBID"] for line in file]


def test_a_job_that_lost_its_events_between_two_runs_is_archived(log: EventLog, folder: Path) -> None:
    archived(log.place, folder, OCTOBER)
    log.append([JobForgotten(at=at(10, 1), job_id=7), HostClosed(at=at(10, 2), host="h1", by="root")], [])
    let_go(log, "DELETE FROM event WHERE job_id IN (3, 7)")
    said = archived(log.place, folder, OCTOBER)
    assert said[-1] == "2026-09.2: 1 jobs, 0 events, as in the store, 1 jobs had no events any more"
    assert labels(folder, "2026-09.2") == ["7"] and read_manifest(folder).parts[-1].eventless_jobs == 1
    assert archived(log.place, folder, OCTOBER)[:3] == [*said[:2], said[-1]]
    assert labels(folder, "2026-09") == ["3", "4", "5", "5[1]", "5[2]"]


def test_an_array_without_events_is_archived_with_its_elements(log: EventLog, folder: Path, tmp_path: Path) -> None:
    let_go(log, "DELETE FROM event WHERE job_id IS NOT NULL AND job_id <> 7")
    said = archived(log.place, folder, OCTOBER)
    assert said[-1] == "2026-09: 5 jobs, 0 events, as in the store, 5 jobs had no events any more"
    assert labels(folder, "2026-09") == ["3", "4", "5", "5[1]", "5[2]"]
    costs = next(each for each in questions() if each.accounts is not None and not each.with_jobs)
    history = History(log.place)
    told, stored = answers_of_archive([folder], costs, tmp_path / "read.db"), answers_of(history, costs)
    history.close()
    assert told == [each for each in stored if each.job_id not in (6, 7)]


def test_a_job_of_which_some_events_have_gone_is_counted(log: EventLog, folder: Path) -> None:
    let_go(
        log,
        "DELETE FROM event WHERE job_id = 3 AND kind NOT IN ('job_submitted', 'job_forgotten')",
        "INSERT INTO meta VALUES ('half_removed_jobs', '3')",
    )
    said = archived(log.place, folder, OCTOBER)
    assert said[-1].endswith(" events, as in the store, 1 jobs had lost some of their events")
    assert read_manifest(folder).parts[-1].incomplete_jobs == 1
    assert read_manifest(folder).parts[-1].eventless_jobs == 0


def test_a_job_of_which_something_was_told_late_is_archived_with_that(log: EventLog, folder: Path) -> None:
    let_go(log, "DELETE FROM event WHERE job_id = 3")
    log.append([JobNoticeSettled(at=at(10, 1), job_id=3, notice_id="n", event="end", way="mail")])
    said = archived(log.place, folder, OCTOBER)
    assert labels(folder, "2026-09") == ["4", "5", "5[1]", "5[2]", "3"]
    assert said[-1].endswith(" events, as in the store, 1 jobs had lost some of their events")
    assert archived(log.place, folder, OCTOBER) == said


def test_jobs_whose_time_is_over_are_no_fault_of_what_was_written(log: EventLog, folder: Path) -> None:
    said = archived(log.place, folder, OCTOBER)
    let_go(log, "DELETE FROM event WHERE job_id IN (1, 3)", "DELETE FROM job WHERE job_id IN (1, 3)")
    assert archived(log.place, folder, OCTOBER) == said
    let_go(log, "DELETE FROM event WHERE job_id <> 7", "DELETE FROM job WHERE job_id <> 7")
    assert archived(log.place, folder, OCTOBER) == said


def test_jobs_that_may_have_gone_before_are_said(log: EventLog, folder: Path) -> None:
    said: list[str] = []
    wanted = Wanted("test", OCTOBER, folder, KEPT, job_history_days=30, jobs_since=at(9, 10))
    archive_history(log.place, wanted, None, said.append)
    why = "JOB_HISTORY_DAYS=30: those that ended before 2026-09-10 00:00:00 UTC may have been taken away"
    assert [line for line in said if "attention" in line] == [
        f"{month}: attention: jobs may be missing ({why})" for month in ("2026-08", "2026-09")
    ]
    said.clear()
    archive_history(log.place, wanted, None, said.append)
    assert not [line for line in said if "attention" in line]


def test_another_generation_of_the_store_has_a_folder_of_its_own(log: EventLog, folder: Path) -> None:
    archived(log.place, folder, SEPTEMBER)
    let_go(log, "INSERT OR REPLACE INTO meta VALUES ('generation', '2')")
    with pytest.raises(Conflict, match="generation 1 of the store, and this is 2: choose another folder"):
        archived(log.place, folder, OCTOBER)


def test_a_manifest_without_a_generation_is_gone_on_with(log: EventLog, folder: Path) -> None:
    archived(log.place, folder, SEPTEMBER)
    path: Any = folder / "manifest.json"
    path.write_text(path.read_text().replace('"generation": 1,', ""))
    assert read_manifest(folder).generation == 0
    archived(log.place, folder, OCTOBER)
    assert read_manifest(folder).generation == 1
