"""What was written and compared leaves the store; killed at any moment, no job is in neither."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from archived_samples import (
    KEPT,
    NOVEMBER,
    OCTOBER,
    SEPTEMBER,
    Killed,
    Removing,
    answers_of,
    answers_of_archive,
    archived,
    at,
    fill,
    questions,
    with_floor,
)

from gsched.app.archives import archiving, part_removal
from gsched.app.archives.archiving import Wanted, archive_history
from gsched.base.ids import element_id
from gsched.master.archive.archive_manifest import PartState, read_manifest
from gsched.model.event import JobNoted
from gsched.model.views.archive_question import ArchivedJobs, RemovedArchived
from gsched.model.views.start_estimate import StartEstimate
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History

pytestmark = pytest.mark.slow


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    opened = EventLog(tmp_path / "store.db")
    fill(opened)
    yield opened
    opened.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def stored(log: EventLog) -> list[int]:
    history = History(log.place)
    try:
        return sorted(history.numbers())
    finally:
        history.close()


def in_files(folder: Path) -> set[str]:
    found: set[str] = set()
    for path in folder.glob("jobs-*.jsonl.gz"):
        with gzip.open(path, "rt") as file:
            found |= {json.loads(line)["JOBID"] for line in file}
    return found


def test_what_was_compared_is_removed_and_nothing_else(log: EventLog, folder: Path) -> None:
    with_floor(log)
    removing = Removing(log)
    said = archived(log.place, folder, OCTOBER, removing)
    assert removing.asked == [1, 2, 3, 4, element_id(5, 1), element_id(5, 2), 5]
    assert said[-2:] == [
        "2026-08: 2 jobs are no longer in the store",
        "2026-09: 5 jobs are no longer in the store",
    ]
    assert stored(log) == [6, 7]
    assert {part.state for part in read_manifest(folder).parts} == {PartState.REMOVED}
    assert archived(log.place, folder, OCTOBER, removing) == [
        "2026-08: 2 jobs, as they were written",
        "2026-09: 5 jobs, as they were written",
    ]
    assert len(removing.asked) == 7


def test_what_was_said_of_starts_stays_for_no_archive_has_it(log: EventLog, folder: Path) -> None:
    log.add_hosts([], [StartEstimate(job_id=1, at=at(8, 2), p50_at=at(8, 2, 5), p90_at=at(8, 2, 9))])
    with_floor(log)
    archived(log.place, folder, OCTOBER, Removing(log))
    history = History(log.place)
    assert history.told_of([1])[1].p50_at == at(8, 2, 5) and stored(log) == [6, 7]
    history.close()


def test_a_folder_that_others_made_is_on_disk_before_jobs_go(log: EventLog, folder: Path, monkeypatch: Any) -> None:
    done: list[Path | str] = []
    monkeypatch.setattr(archiving, "sync", done.append)
    folder.mkdir(0o700)
    with_floor(log)
    removing = Removing(log)

    def remove(wanted: ArchivedJobs) -> RemovedArchived:
        done.append("removed")
        return removing(wanted)

    archived(log.place, folder, OCTOBER, remove)
    assert done == [folder.parent, "removed", "removed"]


def test_questions_are_answered_from_the_files_as_before_from_the_store(
    log: EventLog, folder: Path, tmp_path: Path
) -> None:
    with_floor(log)
    history = History(log.place)
    asked = [each for each in questions() if each.histories is not None and each.histories.jobs.ids]
    before = [answers_of(history, question) for question in asked]
    archived(log.place, folder, NOVEMBER, Removing(log))
    assert not any(answers_of(history, question)[0] for question in asked)
    history.close()
    assert [answers_of_archive([folder], question, tmp_path / "loaded.db") for question in asked] == before


@pytest.mark.parametrize("killed_behind", range(8))
def test_a_run_that_was_killed_while_it_removed_is_gone_on_with(
    log: EventLog, folder: Path, killed_behind: int
) -> None:
    with_floor(log)
    try:
        archived(log.place, folder, OCTOBER, Removing(log, killed_behind, at_once=1))
    except Killed:
        assert killed_behind < 7
    assert in_files(folder) == {"1", "2", "3", "4", "5", "5[1]", "5[2]"}
    said = archived(log.place, folder, OCTOBER, Removing(log))
    assert stored(log) == [6, 7]
    assert "2026-09: 5 jobs are no longer in the store" in said or killed_behind >= 7
    assert {part.state for part in read_manifest(folder).parts} == {PartState.REMOVED}


def test_what_the_store_needs_is_removed_later(log: EventLog, folder: Path) -> None:
    why = "the next start of the master may need the others: say it again while it runs"
    said = archived(log.place, folder, OCTOBER, Removing(log))
    assert said[-1] == f"2026-09: 0 of 5 jobs are no longer in the store; {why}"
    assert {part.state for part in read_manifest(folder).parts} == {PartState.VERIFIED}
    with_floor(log)
    archived(log.place, folder, OCTOBER, Removing(log))
    assert stored(log) == [6, 7]


def test_no_more_is_asked_for_of_a_part_that_is_needed(log: EventLog, folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(part_removal, "JOBS_AT_ONCE", 1)
    removing = Removing(log)
    archived(log.place, folder, OCTOBER, removing)
    assert removing.asked == [1, 3]


def test_a_job_that_changes_while_the_others_go_comes_into_the_next_part(log: EventLog, folder: Path) -> None:
    with_floor(log)
    removing = Removing(log)

    def remove(wanted: ArchivedJobs) -> RemovedArchived:
        if 1 in wanted.events:
            log.append([JobNoted(at=at(10, 4), job_id=1, text="late")])
        return removing(wanted)

    why = "the others have changed since: say it again, and another part has them"
    assert f"2026-08: 1 of 2 jobs are no longer in the store; {why}" in archived(log.place, folder, SEPTEMBER, remove)
    assert 1 in stored(log)
    with_floor(log)
    said = archived(log.place, folder, SEPTEMBER, removing)
    assert said[-2:] == [
        "2026-08.2: 1 jobs are no longer in the store",
        "2026-08: 2 jobs are no longer in the store",
    ]
    assert stored(log) == [3, 4, 5, 6, 7, element_id(5, 1), element_id(5, 2)]


def test_nothing_is_entered_where_nothing_is_to_be_removed(log: EventLog, folder: Path) -> None:
    class Never:
        def __enter__(self) -> Any:
            raise AssertionError("no master is kept from starting")

        def __exit__(self, *_: object) -> None:
            pass

    with_floor(log)
    archived(log.place, folder, OCTOBER, Removing(log))
    archive_history(log.place, Wanted("test", OCTOBER, folder, KEPT), Never(), print)


def test_what_was_known_of_the_cluster_stays_where_no_master_tells(log: EventLog, folder: Path) -> None:
    archived(log.place, folder, SEPTEMBER)
    kept = read_manifest(folder).kept
    archive_history(log.place, Wanted("test", OCTOBER, folder, None), None, print)
    assert read_manifest(folder).kept == kept
