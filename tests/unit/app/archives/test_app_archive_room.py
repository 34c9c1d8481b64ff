"""A folder that takes no more, or nothing at all: one line says so, and nothing half-written is taken for whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from archived_samples import NOVEMBER, OCTOBER, SEPTEMBER, archived, at, fill

from gsched.app.archives import archiving, part_writing
from gsched.app.archives.known_names import KnownNames
from gsched.base.errors import BadRequest
from gsched.master.archive.archive_files import LineWriter
from gsched.model.event import JobNoted
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


@contextlib.contextmanager
def no_file_over(size: int) -> Iterator[None]:
    """As on a disk that is full: a write that makes a file larger than this fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def visible(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock"}


@pytest.mark.parametrize("size", [0, 100, 50_000])
def test_a_full_disk_is_one_line_and_leaves_nothing(log: EventLog, folder: Path, size: int) -> None:
    archived(log.place, folder, SEPTEMBER)
    noise = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(4000))
    log.append([JobNoted(at=at(9, 16), job_id=4, text=noise)], [])
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    with no_file_over(size), pytest.raises(BadRequest) as raised:
        archived(log.place, folder, NOVEMBER)
    assert raised.value.text.startswith(f"{folder}") and "\n" not in raised.value.text
    assert {name: (folder / name).read_bytes() for name in visible(folder) | {".lock"}} == whole
    assert archived(log.place, folder, OCTOBER)[-1] == "2026-09: 5 jobs, 22 events, as in the store"


def test_a_name_that_cannot_be_given_is_one_line(log: EventLog, folder: Path) -> None:
    archived(log.place, folder, SEPTEMBER)
    (folder / part_writing.SEEN).mkdir()
    (folder / part_writing.SEEN / "somebody's").touch()
    with pytest.raises(BadRequest, match=f"{folder}/{part_writing.SEEN}: "):
        archived(log.place, folder, SEPTEMBER)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_one_line(log: EventLog, folder: Path) -> None:
    archived(log.place, folder, SEPTEMBER)
    folder.chmod(0o500)
    try:
        with pytest.raises(BadRequest, match="Permission denied"):
            archived(log.place, folder, OCTOBER)
    finally:
        folder.chmod(0o700)


def test_no_file_gets_its_name_before_all_are_on_disk(log: EventLog, folder: Path, monkeypatch: Any) -> None:
    finish = LineWriter.finish

    def fail(writer: LineWriter) -> Any:
        if "contents" in writer.name:
            raise OSError(28, "No space left on device", writer.name)
        return finish(writer)

    monkeypatch.setattr(LineWriter, "finish", fail)
    with pytest.raises(BadRequest, match="No space left on device; nothing was removed"):
        archived(log.place, folder, OCTOBER)
    assert visible(folder) == set()


@pytest.mark.parametrize("name", [part_writing.SEEN, ".manifest.json.half", ".lock"])
def test_no_link_that_lies_there_is_followed(log: EventLog, folder: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    folder.mkdir()
    (folder / name).symlink_to(victim)
    with contextlib.suppress(BadRequest):
        archived(log.place, folder, SEPTEMBER)
    assert victim.read_bytes() == b"precious"


def test_names_are_not_kept_where_a_link_comes_in_between(tmp_path: Path, monkeypatch: Any) -> None:
    victim, names = tmp_path / "victim", tmp_path / "names"
    names.symlink_to(victim)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    with pytest.raises(BadRequest, match=f"{names}: File exists"):
        KnownNames(names)
    assert not victim.exists()


def test_names_are_kept_where_nobody_else_can_put_a_link(tmp_path: Path, monkeypatch: Any) -> None:
    opened: list[Path] = []
    connect = sqlite3.connect

    def note(place: str, **words: Any) -> sqlite3.Connection:
        opened.append(Path(place.removeprefix("file://").partition("?")[0]))
        return connect(place, **words)

    monkeypatch.setattr(sqlite3, "connect", note)
    names = KnownNames(tmp_path / "names")
    assert [path.parent for path in opened] == [tmp_path / "names"]
    assert stat.S_IMODE((tmp_path / "names").lstat().st_mode) == 0o700
    again = KnownNames(tmp_path / "names")
    assert again.add(["a"]) == ["a"], "of one that was killed nothing stays"
    again.close()
    names.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777, 0o757])
def test_a_folder_that_others_may_write_is_refused(log: EventLog, folder: Path, mode: int) -> None:
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(BadRequest, match=f"{folder}: others may write there .mode {mode:04o}.: chmod go-w"):
        archived(log.place, folder, SEPTEMBER)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("mode", [0o1770, 0o2750, 0o755])
def test_a_folder_in_which_others_take_no_names_away_is_taken(log: EventLog, folder: Path, mode: int) -> None:
    folder.mkdir()
    folder.chmod(mode)
    assert archived(log.place, folder, SEPTEMBER)


def test_a_folder_of_another_user_is_refused(log: EventLog, folder: Path, monkeypatch: Any) -> None:
    folder.mkdir(0o700)
    found = list(os.stat(folder))
    found[stat.ST_UID] = 54321
    theirs, real = os.stat_result(found), os.stat
    monkeypatch.setattr(archiving.os, "stat", lambda path, **more: theirs if path == folder else real(path, **more))
    with pytest.raises(BadRequest, match=f"{folder} belongs to the user .*54321"):
        archived(log.place, folder, SEPTEMBER)


def test_a_full_disk_is_told_by_what_keeps_names(tmp_path: Path) -> None:
    names = KnownNames(tmp_path / "names")
    with no_file_over(20_000), pytest.raises(BadRequest, match=f"{tmp_path}/names: "):
        for number in range(1_000_000):
            names.add([f"{number:064}"])
    names.close()
    assert list(tmp_path.iterdir()) == []
