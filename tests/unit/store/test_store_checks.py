"""`gadmin check-store`: what is whole is said to be whole, and each kind of damage is told."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from store_samples import SPEC, job_row, noted
from stores import StoreAtHand

from gsched.app.stores.store_checks import MOST_SAID, check_store
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import (
    AnyEvent,
    ConfigApplied,
    JobMessagePosted,
    JobModified,
    JobSubmitted,
    SubmissionAccepted,
)
from gsched.model.views.message_boxes import RESULT_BOX
from gsched.store.checkpoint_parts import part_id
from gsched.store.eventlog import EventLog, blob_id
from gsched.store.integrity import Integrity
from gsched.store.passing_blobs import given_input, own_message
from tests.support.manual_clock import ManualClock

SCRIPT, LATER_SCRIPT, ENVIRONMENT, TARGETS = b"#!/bin/sh\ntrue\n", b"#!/bin/sh\nfalse\n", b"A=1\0", b"[]"
FILES, ATTACHED, INPUT, SAVED = b"files", b"a picture", given_input(b"numbers"), own_message(b"weights")
BLOBS = {blob_id(data): data for data in (SCRIPT, LATER_SCRIPT, ENVIRONMENT, TARGETS, FILES, ATTACHED, INPUT, SAVED)}
WHOLE = msgspec.structs.replace(
    SPEC,
    script=blob_id(SCRIPT),
    environment=blob_id(ENVIRONMENT),
    notice_targets=blob_id(TARGETS),
    spooled_input=blob_id(INPUT),
)
CHANGED = msgspec.structs.replace(WHOLE, script=blob_id(LATER_SCRIPT))


def said_of(store: StoreAtHand, *, all_of_them: bool = False) -> tuple[bool, list[str]]:
    lines: list[str] = []
    state_dir, spools = str(store.folder), str(store.folder / "spools")
    locations = SimpleNamespace(store_place=store.place, state_dir=state_dir, spool_dir=spools)
    config: Any = SimpleNamespace(locations=locations)
    return check_store(config, lines.append, all_of_them=all_of_them), lines


def posted(box: int, data: bytes) -> JobMessagePosted:
    return JobMessagePosted(at=1002.0, job_id=1, user="ann", box=box, text="", attachment=blob_id(data))


def submitted(number: int) -> JobSubmitted:
    return JobSubmitted(at=1000.0, job_id=number, spec=WHOLE, token=f"t{number}")


def fill(log: EventLog) -> None:
    """Five jobs, one of which is modified and has attachments; checkpoints after 6 and 10 events, in parts and not."""
    events: list[AnyEvent] = [ConfigApplied(at=999.0, digest="d", by="", files=blob_id(FILES))]
    events += [submitted(number) for number in range(1, 6)]
    log.append(events, [job_row(number) for number in range(1, 6)], blobs=BLOBS)
    state = ClusterState()
    for event in events:
        state.apply(event)
    dumped = state.dump()
    log.save_checkpoint_of(6, [log.put_part(dumped[:50]), log.put_part(dumped[50:])])
    log.put_part(b"of a checkpoint that was never finished")
    changed = JobModified(at=1001.0, job_id=1, by="ann", spec=CHANGED)
    more = [noted(1), posted(3, ATTACHED), posted(RESULT_BOX, SAVED), changed]
    log.append(more)
    for event in more:
        state.apply(event)
    log.save_checkpoint(10, state.dump())


@pytest.fixture
def filled(store: StoreAtHand) -> StoreAtHand:
    log = store.open(clock=ManualClock(5.0))
    fill(log)
    log.close()
    return store


def test_a_store_that_is_whole(store: StoreAtHand) -> None:
    log = store.open(clock=ManualClock(5.0))
    fill(log)
    assert said_of(store) == (True, [f"the store {log.name}: 10 events, all is well"])
    log.close()


@pytest.mark.parametrize(
    ("statement", "values", "told"),
    [
        ("delete from event where seq = 3", (), "record 3 is missing"),
        ("delete from event where seq > 2 and seq < 6", (), "records 3 to 5 are missing"),
        ("delete from event where seq > 8", (), "has lost events 9 to 10, of which STORE.mark knows"),
        ("update event set payload = ? where seq = 7", (b"{",), "job 1 is set aside: record 7 (job_noted) cannot be"),
        (
            "update blob set data = ? where id = ?",
            (b"x", part_id(b"of a checkpoint that was never finished")),
            " is not",
        ),
        ("update blob set data = ? where id = ?", (b"x", blob_id(SCRIPT)), f"blob {blob_id(SCRIPT)} is not what was"),
        ("delete from job where job_id = 4", (), "job 4 has no row: queries of the past do not find it"),
        (
            "update checkpoint set payload = ? where seq = 6",
            (b"{}",),
            "the checkpoint of event 6 is damaged: its content",
        ),
        (
            "update checkpoint set seq = 77 where seq = 6",
            (),
            "checkpoint of event 77 is damaged: 10 is the newest event",
        ),
        (
            "update checkpoint set crc = crc + 1 where seq = 10",
            (),
            "the checkpoint of event 10 is damaged: its content",
        ),
    ],
)
def test_what_is_wrong_is_told(filled: StoreAtHand, statement: str, values: tuple[object, ...], told: str) -> None:
    filled.damage(statement, *values)
    is_well, lines = said_of(filled)
    assert not is_well
    assert any(line.startswith("attention: ") and told in line for line in lines), lines
    assert "problem" in lines[-1] and SPEC.command not in "".join(lines)


@pytest.mark.parametrize(
    ("lost", "what"),
    [
        (SCRIPT, "the script of job 1"),
        (LATER_SCRIPT, "the script of job 1"),
        (ENVIRONMENT, "the environment of job 1"),
        (TARGETS, "where notices go of job 1"),
        (FILES, "the files of a configuration"),
        (ATTACHED, "an attachment of job 1"),
        (SAVED, "an attachment of job 1"),
        (INPUT, "what job 1 reads"),
    ],
)
def test_a_blob_that_is_gone_is_named_once(filled: StoreAtHand, lost: bytes, what: str) -> None:
    filled.damage("delete from blob where id = ?", blob_id(lost))
    is_well, lines = said_of(filled)
    assert not is_well
    assert lines[:-1] == [f"attention: {what} is missing: there is no blob {blob_id(lost)}"]
    assert lines[-1].endswith(": 10 events, 1 problem")


def test_a_part_of_a_checkpoint_that_is_gone_is_named(filled: StoreAtHand) -> None:
    ((payload,),) = filled.rows("select payload from checkpoint where seq = 6")
    part = bytes(payload).decode().split()[-1]
    filled.damage("delete from blob where id = ?", part)
    assert said_of(filled)[1][:-1] == [
        f"attention: the checkpoint of event 6 is damaged: its part {part} is missing",
    ]


def test_a_checkpoint_that_is_whole_and_says_nothing_is_told(store: StoreAtHand) -> None:
    log = store.open()
    fill(log)
    log.save_checkpoint(10, b"no state")
    log.close()
    (told,) = said_of(store)[1][:-1]
    assert told.startswith("attention: the checkpoint of event 10 cannot be used: ")


def test_what_may_be_dropped_is_not_missed(store: StoreAtHand, monkeypatch: pytest.MonkeyPatch) -> None:
    log, again = store.open(), own_message(b"again")
    log.append([submitted(1), posted(RESULT_BOX, SAVED)], [job_row(1)], blobs=BLOBS)
    log.append([posted(RESULT_BOX, again)], blobs={blob_id(again): again}, dropped=[blob_id(SAVED)])
    look_up = Integrity.missing_blobs

    def meanwhile(integrity: Integrity, names: Iterable[str]) -> set[str]:
        """The master drops what the job reads after it was seen to be named, and before it is looked up."""
        wanted = set(names)
        if blob_id(INPUT) in wanted:
            log.append([JobModified(at=1001.0, job_id=1, by="ann", spec=SPEC)], dropped=[blob_id(INPUT)])
        return look_up(integrity, wanted)

    monkeypatch.setattr(Integrity, "missing_blobs", meanwhile)
    is_well, lines = said_of(store)
    log.close()
    assert is_well and lines[0].endswith(": 4 events, all is well"), lines
    assert not store.rows(f"select id from blob where id = '{blob_id(INPUT)}'")


def test_a_submission_whose_jobs_are_still_to_be_made_names_blobs(store: StoreAtHand) -> None:
    log = store.open()
    raw = msgspec.Raw(msgspec.json.encode(WHOLE))
    log.append([SubmissionAccepted(at=1.0, first_id=7, user="ann", specs=(raw, raw), jobs=2, slots=2)])
    log.close()
    told = [line.partition(" is missing")[0].removeprefix("attention: ") for line in said_of(store)[1][:-1]]
    whose = "of the submission from job 7 on"
    expected = [f"the script {whose}", f"the environment {whose}", f"where notices go {whose}"]
    assert told == [*expected, "what the submission from job 7 on reads"]


def test_many_of_a_kind_are_counted_or_named(store: StoreAtHand) -> None:
    log, many = store.open(), MOST_SAID + 3
    log.append([submitted(number) for number in range(1, many + 1)], blobs=BLOBS)
    log.close()
    is_well, lines = said_of(store)
    assert not is_well and len(lines) == MOST_SAID + 2
    assert lines[-2:] == [
        "attention: 3 more of that kind (--all names them)",
        f"{lines[-1].partition(': ')[0]}: {many} events, {many} problems",
    ]
    named = said_of(store, all_of_them=True)[1][:-1]
    assert named == [f"attention: job {n} has no row: queries of the past do not find it" for n in range(1, many + 1)]


def test_an_event_that_does_not_fit_is_told(store: StoreAtHand) -> None:
    log = store.open()
    fill(log)
    log.append([noted(77)])
    log.close()
    is_well, lines = said_of(store)
    assert not is_well
    assert [line.partition(" is set aside")[0] for line in lines[:-1]] == ["attention: job 77"]
