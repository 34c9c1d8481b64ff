"""Who asks for a job that is no longer kept is told since when jobs are; nobody is where all are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake_master import FakeCall, FakeMaster

from gsched.base.errors import LSF_FAILURE
from gsched.model.event import JobSubmitted, encode_event
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import EventRecord

NewCall = Callable[..., FakeCall]
KEPT_FROM = 1_700_000_000.0
TOLD = "Jobs that finished before 2023/11/14 22:13:20 are no longer kept; ghist --archive DIR reads archives of them\n"
ASKING = [["ghist", "7"], ["ghist", "-l", "7"], ["gacct", "7"], ["gacct", "-l", "7"], ["gjobs", "-l", "7"]]


@pytest.mark.parametrize("words", ASKING)
def test_since_when_jobs_are_kept_is_said(master: FakeMaster, call: NewCall, words: list[str]) -> None:
    master.kept_from = KEPT_FROM
    asked = call(*words)
    assert asked.run() == LSF_FAILURE
    assert asked.err.endswith(TOLD)


@pytest.mark.parametrize("words", ASKING)
def test_nothing_is_said_where_all_are_kept(master: FakeMaster, call: NewCall, words: list[str]) -> None:
    asked = call(*words)
    assert asked.run() == LSF_FAILURE
    assert "kept" not in asked.err + asked.out


EVENTS_FROM = KEPT_FROM + 86_400.0
WHAT_HAPPENED = "What happened to jobs that finished before 2023/11/15 22:13:20 is no longer kept;"


@pytest.mark.parametrize("words", [["ghist", "7"], ["ghist", "-l", "7"], ["gjobs", "-l", "7"]])
def test_since_when_events_are_kept_is_said(master: FakeMaster, call: NewCall, words: list[str]) -> None:
    master.events_kept_from = EVENTS_FROM
    asked = call(*words)
    assert asked.run() == LSF_FAILURE
    assert asked.err.splitlines()[-1].startswith(WHAT_HAPPENED)
    master.kept_from = KEPT_FROM
    both = call(*words)
    both.run()
    begin = "Jobs that finished before 2023/11/14 22:13:20 are no longer kept, and what happened to those before"
    assert both.err.splitlines()[-1].startswith(f"{begin} 2023/11/15 22:13:20 is not;")


@pytest.mark.parametrize(
    ("span", "is_said"), [("2023/11/15,", True), (",2023/12/01", True), ("2023/11/16,", False), ("", False)]
)
def test_who_looks_further_back_is_told(master: FakeMaster, call: NewCall, span: str, is_said: bool) -> None:
    master.events_kept_from = EVENTS_FROM
    at = EVENTS_FROM + 86_400.0
    event = JobSubmitted(at=at, job_id=7, spec=JobSpec(command="x", user="ann", queue="normal"))
    record = EventRecord(seq=1, at=at, kind="job_submitted", job_id=7, payload=encode_event(event).decode())
    master.histories = {7: (record,)}
    asked = call("ghist", "-a", *(["-S", span] if span else []))
    assert asked.run() == 0
    assert asked.err.startswith(WHAT_HAPPENED) if is_said else not asked.err
