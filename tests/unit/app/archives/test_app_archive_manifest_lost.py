"""What was archived is never replaced: not where the manifest is lost or old, nor behind a kill at any moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from archived_samples import OCTOBER, Killed, Removing, archived, at, fill, plain, with_floor

from gsched.base.errors import Conflict
from gsched.master.archive import archive_files
from gsched.master.archive.archive_files import LineWriter
from gsched.master.archive.archive_manifest import read_manifest
from gsched.model.event import JobForgotten
from gsched.store.eventlog import EventLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    opened = EventLog(tmp_path / "store.db")
    fill(opened)
    yield opened
    opened.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.gz")}


def late_job(log: EventLog) -> None:
    """Of September."""
    log.append([JobForgotten(at=at(10, 4), job_id=7)])
    with_floor(log)


def test_without_its_manifest_a_folder_takes_nothing(log: EventLog, folder: Path) -> None:
    with_floor(log)
    archived(log.place, folder, OCTOBER, Removing(log))
    (folder / "manifest.json").unlink()
    late_job(log)
    before = files(folder)
    with pytest.raises(Conflict, match=r"manifest\.json does not name contents-2026-08\.jsonl\.gz, .* and 3 more"):
        archived(log.place, folder, OCTOBER, Removing(log))
    assert files(folder) == before and len(before) == 6


def test_with_an_older_manifest_a_folder_takes_nothing(log: EventLog, folder: Path) -> None:
    with_floor(log)
    archived(log.place, folder, OCTOBER, Removing(log))
    older = (folder / "manifest.json").read_bytes()
    late_job(log)
    archived(log.place, folder, OCTOBER, Removing(log))
    (folder / "manifest.json").write_bytes(older)
    log.append(*plain(8, at(9, 29)))
    with_floor(log)
    before = files(folder)
    with pytest.raises(Conflict, match=r"does not name contents-2026-09\.2\.jsonl\.gz"):
        archived(log.place, folder, OCTOBER, Removing(log))
    assert files(folder) == before and len(before) == 9


class _Kill:
    """Kills at a certain moment of those when a file begins (one each) or gets its name (two: the new one comes, the
    other one goes).
    """

    def __init__(self, monkeypatch: Any, moment: int) -> None:
        self._left = moment
        for name in ("link", "unlink"):
            monkeypatch.setattr(archive_files.os, name, self._killing(getattr(os, name)))
        monkeypatch.setattr(LineWriter, "discard", lambda _: None)

    def _killing(self, real: Any) -> Any:
        def call(*words: Any, **more: Any) -> None:
            if not str(words[0]).endswith(".gz.half"):
                real(*words, **more)
                return
            if not self._left:
                raise Killed
            self._left -= 1
            real(*words, **more)

        return call


@pytest.mark.parametrize("moment", range(18))
def test_killed_while_files_get_their_names_the_next_run_takes_them(
    log: EventLog, folder: Path, monkeypatch: Any, moment: int
) -> None:
    with monkeypatch.context() as patched:
        _Kill(patched, moment)
        with pytest.raises(Killed):
            archived(log.place, folder, OCTOBER)
    before = files(folder)
    assert archived(log.place, folder, OCTOBER)[-2:] == [
        "2026-08: 2 jobs, 12 events, as in the store",
        "2026-09: 5 jobs, 21 events, as in the store",
    ]
    after = files(folder)
    assert before.items() <= after.items() and len(after) == 6
    assert read_manifest(folder).planned is None
    assert not list(folder.glob(".*.half"))


def test_files_of_a_part_that_is_not_whole_are_put_aside(log: EventLog, folder: Path, monkeypatch: Any) -> None:
    with monkeypatch.context() as patched:
        _Kill(patched, 5)
        with pytest.raises(Killed):
            archived(log.place, folder, OCTOBER)
    (folder / ".contents-2026-08.jsonl.gz.half").unlink()
    jobs = (folder / "jobs-2026-08.jsonl.gz").read_bytes()
    said = archived(log.place, folder, OCTOBER)
    aside = "aside-1-jobs-2026-08.jsonl.gz"
    assert said[0] == f"jobs-2026-08.jsonl.gz: not all files of its part are there: it is {aside} now"
    assert files(folder).keys() >= {aside, "aside-1-events-2026-08.jsonl.gz", "jobs-2026-08.jsonl.gz"}
    assert (folder / aside).read_bytes() == jobs


def test_no_file_is_replaced_where_there_are_no_links(tmp_path: Path, monkeypatch: Any) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(archive_files.os, "link", refuse)
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"old")
    new.write_bytes(b"new")
    with pytest.raises(FileExistsError):
        archive_files.rename_new(old, new)
    assert new.read_bytes() == b"new"
    new.unlink()
    archive_files.rename_new(old, new)
    assert new.read_bytes() == b"old" and not old.exists()
