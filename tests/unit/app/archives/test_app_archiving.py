"""Archives of history: what they say is what the store says, byte by byte, and nothing goes before that is sure."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from archived_samples import (
    AUGUST,
    ENVIRONMENT,
    NOVEMBER,
    OCTOBER,
    SCRIPT,
    SEPTEMBER,
    Removing,
    answers_of,
    answers_of_archive,
    archived,
    at,
    fill,
    plain,
    questions,
    with_floor,
)

from gsched.app.archives import part_checking
from gsched.app.archives.months import Month, month_before_which
from gsched.base.errors import BadRequest, Conflict, DamagedData
from gsched.master.archive.archive_manifest import PartState, read_manifest, write_manifest
from gsched.model.event import JobForgotten, JobNoted
from gsched.store.eventlog import EventLog, blob_id
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


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    with gzip.open(folder / name, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def numbers(folder: Path, name: str) -> list[str]:
    return [line["JOBID"] for line in lines(folder, name)]


def test_months_have_the_jobs_that_ended_in_them_and_are_forgotten(log: EventLog, folder: Path) -> None:
    said = archived(log.place, folder, OCTOBER)
    assert numbers(folder, "jobs-2026-08.jsonl.gz") == ["1", "2"]
    assert numbers(folder, "jobs-2026-09.jsonl.gz") == ["3", "4", "5", "5[1]", "5[2]"]
    assert sorted(each.name for each in folder.glob("*-2026-10*")) == []
    assert said == ["2026-08: 2 jobs, 12 events, as in the store", "2026-09: 5 jobs, 21 events, as in the store"]
    assert [part.state for part in read_manifest(folder).parts] == [PartState.VERIFIED] * 2


def test_lines_have_documented_names_and_numbers(log: EventLog, folder: Path) -> None:
    archived(log.place, folder, SEPTEMBER)
    first = lines(folder, "jobs-2026-08.jsonl.gz")[0]
    shown = {name: first[name] for name in ("JOBID", "USER", "STAT", "PEND_TIME", "RUN_TIME", "GPU_TIME", "MAX_MEM")}
    expected = {"JOBID": "1", "USER": "ann", "STAT": "DONE", "PEND_TIME": 3600.0, "RUN_TIME": 7200.0}
    assert shown == {**expected, "GPU_TIME": 7200.0, "MAX_MEM": 512.25}
    assert (first["FINISH_TIME"], first["COMMAND"], first["SLOTS"]) == (at(8, 3), "python train.py", 1)
    event = lines(folder, "events-2026-08.jsonl.gz")[0]
    assert (event["job_id"], event["kind"], event["event"]["spec"]["command"]) == (
        1,
        "job_submitted",
        "python train.py",
    )


def test_contents_are_there_once_and_for_the_owner_alone(log: EventLog, folder: Path) -> None:
    archived(log.place, folder, SEPTEMBER)
    found = {line["id"]: line for line in lines(folder, "contents-2026-08.jsonl.gz")}
    assert found.keys() == {blob_id(SCRIPT), blob_id(ENVIRONMENT)}
    assert found[blob_id(SCRIPT)]["text"] == SCRIPT.decode()
    assert "base64" in found[blob_id(ENVIRONMENT)]
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes["contents-2026-08.jsonl.gz"] == 0o600
    assert {modes[f"{kind}-2026-08.jsonl.gz"] & ~0o640 for kind in ("jobs", "events")} == {0}
    assert not modes["manifest.json"] & 0o027 & ~0o040


def test_every_question_is_answered_as_by_the_store(log: EventLog, folder: Path, tmp_path: Path) -> None:
    last, last_rows = plain(7, at(9, 30, 23.9))
    log.append(last[-1:], last_rows)
    history = History(log.place)
    before = [answers_of(history, question) for question in questions()]
    archived(log.place, folder, NOVEMBER)
    after = [answers_of_archive([folder], question, tmp_path / "loaded.db") for question in questions()]
    for question, stored, told in zip(questions(), before, after, strict=True):
        assert told == stored, question
    history.close()
    assert sum(1 for each in before if each and each[0]) > 20  # most questions have an answer


def test_a_second_run_compares_and_adds_only_what_is_new(log: EventLog, folder: Path) -> None:
    archived(log.place, folder, OCTOBER)
    files = {path.name: path.read_bytes() for path in folder.glob("*.gz")}
    assert archived(log.place, folder, OCTOBER) == [
        "2026-08: 2 jobs, 12 events, as in the store",
        "2026-09: 5 jobs, 21 events, as in the store",
    ]
    log.append([JobForgotten(at=at(10, 1), job_id=7)], [])
    assert archived(log.place, folder, OCTOBER)[-1] == "2026-09.2: 1 jobs, 6 events, as in the store"
    assert numbers(folder, "jobs-2026-09.2.jsonl.gz") == ["7"]
    assert {name: (folder / name).read_bytes() for name in files} == files


def test_what_happens_to_an_archived_job_is_another_part(log: EventLog, folder: Path, tmp_path: Path) -> None:
    archived(log.place, folder, SEPTEMBER)
    log.append([JobNoted(at=at(9, 2), job_id=1, text="late")], [])
    archived(log.place, folder, SEPTEMBER)
    assert numbers(folder, "jobs-2026-08.2.jsonl.gz") == ["1"]
    wanted = next(each for each in questions() if each.histories is not None and each.histories.with_curves)
    told, _ = answers_of_archive([folder], wanted, tmp_path / "loaded.db")
    assert [len(each.events) for each in told if each.job_id == 1] == [7]


def never(*_: Any) -> Any:
    raise AssertionError("nothing may be removed")


def spoil(folder: Path, name: str, line: int, change: Any) -> None:
    """Change a line and make the manifest fit: only a look at what it says can tell."""
    path = folder / name
    texts = gzip.decompress(path.read_bytes()).split(b"\n")
    texts[line - 1] = change(texts[line - 1])
    path.write_bytes(gzip.compress(b"\n".join(texts), mtime=0))
    manifest = (folder / "manifest.json").read_text()
    before = next(file for part in read_manifest(folder).parts for file in part.files if file.name == name)
    (folder / "manifest.json").write_text(
        manifest.replace(before.sha256, hashlib.sha256(path.read_bytes()).hexdigest())
    )


@pytest.mark.parametrize(
    ("kind", "line", "change", "says"),
    [
        ("jobs", 2, lambda text: text[:20], "jobs-2026-08.jsonl.gz:2: "),
        ("jobs", 1, lambda text: text.replace(b'"ann"', b'"eve"'), "jobs-2026-08.jsonl.gz:1: job 1 is"),
        ("events", 5, lambda text: text.replace(b"12.5", b"12.6"), "jobs-2026-08.jsonl.gz:1: job 1 has"),
        ("events", 7, lambda text: text.replace(b":2,", b":3,", 1), "events-2026-08.jsonl.gz:7: an event"),
        ("events", 7, lambda text: b"", "events-2026-08.jsonl.gz:7: "),
        ("contents", 1, lambda text: text.replace(b'":"', b'":"AAAA', 1), "contents-2026-08.jsonl.gz:1: "),
    ],
)
def test_a_line_that_is_not_what_the_store_says_stops_all(
    log: EventLog, folder: Path, kind: str, line: int, change: Any, says: str
) -> None:
    archived(log.place, folder, SEPTEMBER)
    spoil(folder, f"{kind}-2026-08.jsonl.gz", line, change)
    with pytest.raises(DamagedData) as raised:
        archived(log.place, folder, SEPTEMBER, never)
    assert raised.value.text.startswith(f"{folder}/{says}")


def test_a_job_that_is_missing_in_the_files_stops_all(log: EventLog, folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(part_checking, "batched", lambda jobs, size: iter([list(jobs)[:1]]))
    monkeypatch.setattr(part_checking, "check_contents", lambda *_: None)
    with pytest.raises(DamagedData, match="it has 1 jobs, the store has 2 that belong here"):
        archived(log.place, folder, SEPTEMBER, never)


@pytest.mark.parametrize("kind", ["jobs", "events", "contents"])
def test_a_file_that_was_cut_off_or_changed_is_named(log: EventLog, folder: Path, kind: str) -> None:
    with_floor(log)
    archived(log.place, folder, SEPTEMBER, Removing(log))
    path = folder / f"{kind}-2026-08.jsonl.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(DamagedData, match=f"{path}:[0-9]+: what follows cannot be unpacked"):
        archived(log.place, folder, SEPTEMBER, never)
    path.write_bytes(whole + b"\0")
    with pytest.raises(DamagedData, match=f"{path}: its SHA-256 is"):
        archived(log.place, folder, SEPTEMBER, never)
    path.unlink()
    with pytest.raises(BadRequest, match=f"{path}: No such file"):
        archived(log.place, folder, SEPTEMBER, never)


def test_a_damaged_line_is_named_by_who_asks(log: EventLog, folder: Path, tmp_path: Path) -> None:
    archived(log.place, folder, SEPTEMBER)
    spoil(folder, "events-2026-08.jsonl.gz", 3, lambda text: text[:-4])
    with pytest.raises(DamagedData, match=r"events-2026-08\.jsonl\.gz:3: "):
        answers_of_archive([folder], questions()[0], tmp_path / "loaded.db")


def test_several_folders_are_one_archive(log: EventLog, folder: Path, tmp_path: Path) -> None:
    with_floor(log)
    archived(log.place, folder, SEPTEMBER, Removing(log))
    second = tmp_path / "second"
    archived(log.place, second, OCTOBER)
    told, _ = answers_of_archive([folder, second], questions()[1], tmp_path / "loaded.db")
    assert {each.job_id for each in told} >= {1, 2, 3, 4}


def _new_place(folder: Path) -> Path:
    folder.mkdir()
    return folder / "store.db"


def test_an_archive_of_another_cluster_is_left_alone(log: EventLog, folder: Path, tmp_path: Path) -> None:
    archived(log.place, folder, SEPTEMBER)
    other = EventLog(_new_place(tmp_path / "other"))
    with pytest.raises(Conflict, match="of another cluster"):
        archived(other.place, folder, SEPTEMBER)
    other.close()


def test_no_job_that_ended_is_said(tmp_path: Path, folder: Path) -> None:
    empty = EventLog(tmp_path / "empty.db")
    assert archived(empty.place, folder, SEPTEMBER) == ["no job ended before 2026-09 that could be archived"]
    empty.close()
    assert [path.name for path in folder.iterdir()] == [".lock"]


def test_a_manifest_of_a_newer_gsched_is_refused(log: EventLog, folder: Path) -> None:
    archived(log.place, folder, SEPTEMBER)
    manifest = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(manifest.replace('"version": 1', '"version": 2'))
    with pytest.raises(Conflict, match="form 2 is of a newer gsched"):
        read_manifest(folder)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(DamagedData, match=r"manifest\.json: "):
        read_manifest(folder)
    shutil.rmtree(folder)
    with pytest.raises(BadRequest, match="there is no such folder"):
        read_manifest(folder)


@pytest.mark.parametrize(
    ("word", "wrong"),
    [
        ("jobs-2026-08.jsonl.gz", "../jobs-2026-08.jsonl.gz"),
        ("events-2026-08.jsonl.gz", "/etc/passwd"),
        ("contents-2026-08.jsonl.gz", "jobs-2026-08.jsonl.gz"),
        ('"month": "2026-08"', '"month": "2026-13"'),
        ('"month": "2026-08"', '"month": "../../8"'),
        ('"number": 1', '"number": 0'),
    ],
)
def test_a_manifest_that_names_other_files_is_refused(log: EventLog, folder: Path, word: str, wrong: str) -> None:
    archived(log.place, folder, SEPTEMBER)
    text = (folder / "manifest.json").read_text()
    assert text.count(word) == 1
    (folder / "manifest.json").write_text(text.replace(word, wrong))
    with pytest.raises(DamagedData, match=r"manifest\.json: '.*' is "):
        read_manifest(folder)


def test_a_manifest_comes_back_as_it_was_written(log: EventLog, folder: Path) -> None:
    archived(log.place, folder, OCTOBER)
    manifest = read_manifest(folder)
    write_manifest(folder, manifest)
    assert read_manifest(folder) == manifest


@pytest.mark.parametrize(
    ("text", "month"),
    [
        ("2026-10", (2026, 10)),
        ("2026/10", (2026, 10)),
        ("2026/10/", (2026, 10)),
        ("2026-10-17", (2026, 10)),
        (".-3/", (2026, 8)),
        ("2026/9/30", (2026, 9)),
    ],
)
def test_months_are_said_in_the_forms_of_gacct(text: str, month: tuple[int, int]) -> None:
    seoul = timezone(timedelta(hours=9))
    assert month_before_which(text, at(11, 30), seoul) == Month(*month)


@pytest.mark.parametrize("text", ["2026-13", "later", "", "2027-01"])
def test_months_that_are_none_or_not_over_are_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        month_before_which(text, at(11, 30), UTC)


def test_august_is_the_first_month() -> None:
    assert AUGUST < SEPTEMBER and str(AUGUST) == "2026-08" and Month(2026, 12).next == (2027, 1)
