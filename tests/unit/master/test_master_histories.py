"""Histories: an element begins with what happened to its array, an array's number means all its elements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gsched.base.ids import element_id, show_job
from gsched.master.past import job_histories
from gsched.master.past.job_histories import Histories, is_followed
from gsched.model.event import (
    ArrayElementsFinished,
    JobGpuCurves,
    JobModified,
    JobNoted,
    JobSignalRequested,
    JobSubmitted,
    JobSuspended,
    decode_event,
)
from gsched.model.jobs.job import AttemptResult, JobSpec
from gsched.model.views.past_query import HistoryQuery, JobTimes
from gsched.model.views.view import JobFilter, JobHistory
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.tables.schema import ARRAY, IRREGULAR, JobRow

PLAIN = JobSpec(command="run", user="ann", queue="normal")
ARRAY_SPEC = JobSpec(command="run", user="ann", queue="normal", name="sweep", indices="1-5")
FIRST, SECOND, THIRD = (element_id(2, index) for index in (1, 2, 3))


def row(job_id: int, state: str, name: str = "run") -> JobRow:
    return JobRow(job_id=job_id, user="ann", queue="normal", name=name, state=state, submitted_at=1.0)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    log = EventLog(tmp_path / "store.db")
    ended = AttemptResult(started=False, term_reason="TERM_OWNER")
    log.append(
        [
            JobSubmitted(at=1.0, job_id=1, spec=PLAIN),
            JobSubmitted(at=1.0, job_id=2, spec=ARRAY_SPEC),
            JobNoted(at=2.0, job_id=FIRST, text="first has started"),
            JobSuspended(at=3.0, job_id=2, by="ann"),
            JobNoted(at=4.0, job_id=SECOND, text="second has started"),
            JobSignalRequested(at=5.0, job_id=2, by="ann", signal=0),
            ArrayElementsFinished(at=5.0, job_id=2, indices="4-5", result=ended),
        ],
        [
            row(1, "PEND"),
            row(2, "EXIT", "sweep"),
            row(FIRST, "DONE", "sweep[1]"),
            row(SECOND, "RUN", "sweep[2]"),
        ],
    )
    opened = History(log.place)
    yield opened
    opened.close()
    log.close()


def told(history: History, **wanted: object) -> dict[str, list[str]]:
    """Job -> kinds of its events, in order."""
    found = entries(Histories(history, 100), HistoryQuery(jobs=JobFilter(**wanted)))  # type: ignore[arg-type]
    return {show_job(each.job_id): [event.kind for event in each.events] for each in found}


def entries(histories: Histories, wanted: HistoryQuery) -> list[Any]:
    return [each for page in histories.read(wanted) for each in page]


def test_an_element_has_what_happened_to_the_array_before_it_left_it(history: History) -> None:
    assert told(history, ids=(FIRST,)) == {"2[1]": ["job_submitted", "job_noted"]}
    assert told(history, ids=(SECOND,)) == {"2[2]": ["job_submitted", "job_suspended", "job_noted"]}
    fifth = ["job_submitted", "job_suspended", "job_signal_requested", "array_elements_finished"]
    assert told(history, ids=(element_id(2, 5),)) == {"2[5]": fifth}
    assert told(history, ids=(THIRD,)) == {"2[3]": fifth[:-1]}
    assert told(history, ids=(element_id(2, 6), element_id(9, 1))) == {}


def test_an_arrays_number_means_its_elements_too(history: History) -> None:
    assert list(told(history, ids=(2,))) == ["2", "2[1]", "2[2]"]
    assert list(told(history, ids=(2, SECOND, 1))) == ["1", "2", "2[1]", "2[2]"]
    assert list(told(history, user="ann", finished=True)) == ["1", "2", "2[1]", "2[2]"]
    assert list(told(history, name="sweep", finished=True)) == ["2", "2[1]", "2[2]"]
    assert list(told(history, name="sweep[2]", finished=True)) == ["2[2]"]


def test_a_name_with_an_index_finds_elements_that_have_not_started(history: History) -> None:
    assert list(told(history, name="sweep[3]", finished=True)) == ["2[3]"]
    assert list(told(history, name="sweep[1,3-4]", finished=True)) == ["2[1]", "2[3]", "2[4]"]
    assert list(told(history, name="sw*[2-3]")) == ["2[2]"], "the others have finished"
    assert list(told(history, name="sweep[6]", finished=True)) == []
    assert list(told(history, name="other[3]", finished=True)) == []


def test_curves_are_told_to_who_asks_for_them_and_no_more_than_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EventLog(tmp_path / "store.db")
    curves = [JobGpuCurves(at=2.0 + each, job_id=1, attempt=each, host="a", data=bytes(3000)) for each in (1, 2, 3)]
    log.append([JobSubmitted(at=1.0, job_id=1, spec=PLAIN), *curves], [row(1, "DONE")])
    history = History(log.place)
    one = JobFilter(ids=(1,))

    def attempts(wanted: HistoryQuery) -> list[int]:
        (found,) = entries(Histories(history, 100), wanted)
        assert found.events[0].kind == "job_submitted"
        told = [decode_event(each.payload.encode()) for each in found.events]
        return [event.attempt for event in told if isinstance(event, JobGpuCurves)]

    assert attempts(HistoryQuery(jobs=one)) == []
    assert attempts(HistoryQuery(jobs=one, with_curves=True)) == [1, 2, 3]
    monkeypatch.setattr(job_histories, "MOST_CURVE_CHARACTERS", 9_000)
    assert attempts(HistoryQuery(jobs=one, with_curves=True)) == [2, 3]
    history.close()
    log.close()


def test_an_array_all_of_whose_elements_have_started_is_its_elements(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "store.db")
    modified = JobModified(at=2.0, job_id=2, by="ann", spec=ARRAY_SPEC)
    log.append(
        [JobSubmitted(at=1.0, job_id=2, spec=ARRAY_SPEC), modified, JobNoted(at=3.0, job_id=FIRST, text="started")],
        [row(2, "", "sweep"), row(FIRST, "RUN", "sweep[1]")],
    )
    history = History(log.place)
    assert told(history, ids=(2,)) == {"2[1]": ["job_submitted", "job_modified", "job_noted"]}
    history.close()
    log.close()


def test_who_follows_an_array_is_told_of_its_elements() -> None:
    assert is_followed(7, frozenset()) and is_followed(7, frozenset({7}))
    assert is_followed(FIRST, frozenset({2})) and is_followed(FIRST, frozenset({FIRST}))
    assert not is_followed(2, frozenset({FIRST})) and not is_followed(SECOND, frozenset({FIRST}))


def test_all_jobs_of_a_group_are_found_however_many_others_there_are(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "store.db")
    spec = JobSpec(command="run", user="ann", queue="normal", group="/night")
    numbers = range(1, 31)
    log.append(
        [JobSubmitted(at=1.0, job_id=number, spec=spec if number % 10 == 1 else PLAIN) for number in numbers],
        [replace(row(number, "PEND"), job_group="/night" if number % 10 == 1 else "") for number in numbers],
    )
    opened = History(log.place)
    histories = Histories(opened, 4)
    assert [each.job_id for each in entries(histories, HistoryQuery(jobs=JobFilter(group="/night/")))] == [1, 11, 21]
    assert histories.cut_at is None
    histories = Histories(opened, 4)
    assert [each.job_id for each in entries(histories, HistoryQuery())] == [27, 28, 29, 30]
    assert histories.cut_at == 1.0
    histories = Histories(opened, 30)
    assert len(entries(histories, HistoryQuery())) == 30 and histories.cut_at is None
    opened.close()
    log.close()


def test_what_rows_of_before_do_not_tell_is_looked_up_in_their_events(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "store.db")
    spec = JobSpec(command="run", user="ann", queue="normal", group="/night", application="care", description="a[b]c")
    old = {"application": None, "job_group": None, "description": None, "traits": None}
    log.append(
        [JobSubmitted(at=1.0, job_id=1, spec=PLAIN), JobSubmitted(at=1.0, job_id=2, spec=spec)],
        [replace(row(number, "PEND"), **old) for number in (1, 2)],
    )
    opened = History(log.place)
    for jobs, description in (
        (JobFilter(group="/night"), ""),
        (JobFilter(application="care"), ""),
        (JobFilter(), "a[b]*"),
    ):
        query = HistoryQuery(jobs=jobs, description=description, brief=True)
        (found,) = entries(Histories(opened, 9), query)
        assert isinstance(found, JobHistory) and found.job_id == 2
    assert not entries(Histories(opened, 9), HistoryQuery(jobs=JobFilter(application="other")))
    opened.close()
    log.close()


def test_an_array_does_not_rank_above_jobs_that_were_submitted_later(tmp_path: Path) -> None:
    """Its elements have larger numbers than any job."""
    log = EventLog(tmp_path / "store.db")
    elements = [replace(row(element_id(1, n), "DONE", f"sweep[{n}]"), submitted_at=5.0) for n in (1, 2, 3)]
    plain = [replace(row(number, "DONE"), submitted_at=4.0 + number) for number in (2, 3, 4)]
    array = replace(row(1, "", "sweep"), submitted_at=5.0, traits=ARRAY)
    log.append([JobSubmitted(at=5.0, job_id=1, spec=ARRAY_SPEC)], [array, *elements, *plain])
    opened = History(log.place)
    for most, expected, cut_at in (
        (2, ["3", "4"], 7.0),
        (4, ["1[3]", "2", "3", "4"], 5.0),
        (6, ["1[1]", "1[2]", "1[3]", "2", "3", "4"], None),
    ):
        histories = Histories(opened, most)
        found = entries(histories, HistoryQuery(jobs=JobFilter(finished=True), brief=True))
        assert ([show_job(each.job_id) for each in found], histories.cut_at) == (expected, cut_at)
    opened.close()
    log.close()


@pytest.mark.parametrize("at_once", [1, 100])
def test_jobs_that_only_waited_and_ran_are_told_by_their_times(
    tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.store.history_queries.AT_ONCE", at_once)
    log = EventLog(tmp_path / "store.db")
    rows = [
        replace(row(1, "DONE"), dispatched_at=2.0, finished_at=3.0),
        replace(row(3, "DONE"), traits=IRREGULAR),
        replace(row(4, "", "calm"), traits=ARRAY),
        row(element_id(4, 1), "RUN", "calm[1]"),
        replace(row(5, "PEND", "held"), traits=ARRAY | IRREGULAR),
        row(element_id(5, 1), "RUN", "held[1]"),
    ]
    submitted = [JobSubmitted(at=1.0, job_id=number, spec=PLAIN) for number in (1, 3)]
    arrays = [JobSubmitted(at=1.0, job_id=number, spec=ARRAY_SPEC) for number in (4, 5)]
    log.append([*submitted, *arrays], rows)
    log.append([], [row(3, "DONE")])  # what was ever said of a job stays
    opened = History(log.place)
    found = entries(Histories(opened, 100), HistoryQuery(jobs=JobFilter(finished=True), brief=True))
    assert [show_job(each.job_id) for each in found] == ["1", "3", "4[1]", "5", "5[1]"]
    brief = [each for each in found if isinstance(each, JobTimes)]
    assert brief == [JobTimes(1, "ann", "run", 1.0, 2.0, 3.0), JobTimes(element_id(4, 1), "ann", "calm[1]", 1.0)]
    opened.close()
    log.close()


@pytest.mark.parametrize("brief", [True, False])
def test_the_jobs_of_a_service_class_are_told_by_their_submissions(tmp_path: Path, brief: bool) -> None:
    log = EventLog(tmp_path / "store.db")
    gold = replace(PLAIN, service_class="gold")
    modified = JobModified(at=2.0, job_id=3, by="ann", spec=gold)
    plain = [replace(row(number, "DONE"), traits=0, dispatched_at=1.0, finished_at=2.0) for number in (1, 2, 3)]
    log.append([JobSubmitted(at=1.0, job_id=each, spec=gold if each == 1 else PLAIN) for each in (1, 2, 3)], plain)
    log.append([modified], [])
    history = History(log.place)
    wanted = HistoryQuery(jobs=JobFilter(service_class="gold", finished=True), brief=brief)
    assert [each.job_id for each in entries(Histories(history, 100), wanted)] == [1, 3]
    history.close()
    log.close()
