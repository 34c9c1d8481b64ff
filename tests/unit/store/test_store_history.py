"""Questions about the past."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_samples import job_row, noted, submitted
from stores import StoreAtHand

from gsched.base.errors import NotFound
from gsched.base.ids import element_id
from gsched.model.event import HostClosed, decode_event
from gsched.model.views.catalogue import AccountFilter, TimeSpan
from gsched.model.views.past_query import HistoryQuery
from gsched.model.views.view import JobFilter
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from tests.support.property_examples import examples


@pytest.fixture
def history(log: EventLog) -> Iterator[History]:
    log.append(
        [submitted(1), submitted(2), noted(1), HostClosed(at=7.0, host="h1", by="root")],
        [
            job_row(1, state="RUN", host="h1", dispatched_at=2.0),
            job_row(2, user="bob", name="Train_1", project="vision"),
            job_row(3, state="DONE", finished_at=9.0, exit_code=0, host="h1 h2", queue="short"),
            job_row(4, state="EXIT", finished_at=10.0, exit_code=3, host="h22", name="100%"),
            job_row(5, state="PSUSP", name="trainX1"),
        ],
    )
    opened = History(log.place)
    yield opened
    opened.close()


def ids(history: History, limit: int = 100, **wanted: object) -> list[int]:
    found = history.newest(HistoryQuery(jobs=JobFilter(**wanted)), limit)  # type: ignore[arg-type]
    return sorted(job_id for job_id, _ in found)


def test_the_events_of_a_job(history: History) -> None:
    found = history.events_of(1)
    assert [(record.seq, record.kind, record.job_id) for record in found] == [
        (1, "job_submitted", 1),
        (3, "job_noted", 1),
    ]
    assert decode_event(found[1].payload.encode()) == noted(1)
    assert history.events_of(77) == []


def test_events_after_a_number(history: History) -> None:
    assert [record.seq for record in history.events_after(1, 2)] == [2, 3]
    (last,) = history.events_after(3, 10)
    assert (last.job_id, last.at, last.kind) == (0, 7.0, "host_closed")
    assert history.last_seq() == 4


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, [1, 2, 5]),
        ({"finished": True}, [1, 2, 3, 4, 5]),
        ({"user": "all"}, [1, 2, 5]),
        ({"user": "bob"}, [2]),
        ({"queue": "short", "finished": True}, [3]),
        ({"project": "vision"}, [2]),
        ({"ids": (3, 1, 99)}, [1, 3]),
        ({"states": ("DONE", "EXIT")}, [3, 4]),
        ({"states": ("PEND",)}, [2]),
        ({"host": "h1", "finished": True}, [1, 3]),
        ({"host": "h2", "finished": True}, [3]),
        ({"host": "h", "finished": True}, []),
        ({"host": "h1 h2", "finished": True}, [3]),
        ({"name": "train"}, [1]),
        ({"name": "t*"}, [1, 5]),
        ({"name": "Train_*"}, [2]),
        ({"name": "*_1"}, [2]),
        ({"name": "*X*"}, [5]),
        ({"name": "100%", "finished": True}, [4]),
        ({"name": "1*%", "finished": True}, [4]),
        ({"name": "*", "finished": True}, [1, 2, 3, 4, 5]),
        ({"name": "/*"}, []),
        ({"user": "ann", "host": "h1", "states": ("RUN",)}, [1]),
    ],
)
def test_finding_jobs(history: History, wanted: dict[str, object], expected: list[int]) -> None:
    assert ids(history, **wanted) == expected


def test_a_row_comes_back_as_it_was_given(history: History) -> None:
    assert history.rows_of([4, 99]) == [
        job_row(4, state="EXIT", finished_at=10.0, exit_code=3, host="h22", name="100%")
    ]


def test_a_limit_keeps_those_that_were_submitted_last(log: EventLog) -> None:
    element = element_id(1, 7)  # as a number it is larger than that of any job
    log.append([], [job_row(1, state="", submitted_at=5.0), job_row(element, submitted_at=5.0, name="train[7]")])
    log.append([], [job_row(2, submitted_at=7.0), job_row(3, submitted_at=6.0), job_row(4, submitted_at=6.0)])
    opened = History(log.place)
    everything = HistoryQuery(jobs=JobFilter(finished=True))
    assert opened.newest(everything, 3) == [(2, 7.0), (4, 6.0), (3, 6.0)]
    assert opened.newest(everything, 9)[3:] == [(element, 5.0)], "the array's row stands for no job any more"
    opened.close()


def test_rows_are_read_at_once_unless_there_are_too_many(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    element = element_id(1, 7)
    log.append([], [job_row(1, state="", submitted_at=5.0), job_row(element, submitted_at=5.0, name="train[7]")])
    ended = {"state": "DONE", "dispatched_at": 8.0, "cpu_s": 2.0, "gpus": 1.0}
    log.append([], [job_row(n, submitted_at=9.0 - n, finished_at=10.0 + n, **ended) for n in (2, 3, 4)])  # type: ignore[arg-type]
    opened = History(log.place)
    everything, accounts = HistoryQuery(jobs=JobFilter(finished=True)), AccountFilter(completed=TimeSpan(since=12.5))
    rows = opened.newest_times(everything, 100)
    assert rows is not None and [(row[0], row[4]) for row in rows] == opened.newest(everything, 100)
    assert rows[0] == (2, "ann", "train", "DONE", 7.0, 8.0, 12.0, 0)
    assert opened.newest_times(everything, 3) == rows[:3]
    assert opened.accounted_costs(accounts) == [
        (n, "DONE", 9.0 - n, 8.0, 10.0 + n, 2.0, 1.0, 0.0, 0.0, None, 0) for n in (3, 4)
    ]
    assert opened.accounted(accounts) == [3, 4] and len(opened.accounted(accounts, 1)) == 1
    monkeypatch.setattr("gsched.store.history_queries.AT_ONCE", 3)
    assert opened.newest_times(everything, 100) is None and opened.newest_times(everything, 3) == rows[:3]
    assert len(opened.accounted_costs(accounts) or ()) == 2
    monkeypatch.setattr("gsched.store.history_queries.AT_ONCE", 1)
    assert opened.accounted_costs(accounts) is None
    opened.close()


def test_times_choose_among_jobs(log: EventLog) -> None:
    rows = [
        job_row(n, submitted_at=10.0 * n, state="DONE", dispatched_at=10.0 * n + 2, finished_at=10.0 * n + 25)
        for n in range(1, 9)
    ]
    log.append([], [*rows, job_row(9, submitted_at=15.0), job_row(10, submitted_at=15.0, user="bob")])
    opened = History(log.place)

    def chosen(user: str = "", **spans: TimeSpan) -> list[int]:
        found = opened.newest(HistoryQuery(jobs=JobFilter(finished=True, user=user), **spans), 100)  # type: ignore[arg-type]
        assert found == sorted(found, key=lambda each: (each[1], each[0]), reverse=True)
        return sorted(job_id for job_id, _ in found)

    assert chosen(submitted=TimeSpan(since=20.0, until=40.5)) == [2, 3, 4]
    assert chosen(dispatched=TimeSpan(since=22.0, until=32.0)) == [2, 3]
    assert chosen(completed=TimeSpan(since=None, until=45.9)) == [1, 2]
    assert chosen("ann", completed=TimeSpan(since=55.0, until=None)) == [3, 4, 5, 6, 7, 8]
    assert chosen(submitted=TimeSpan(since=20.0), completed=TimeSpan(until=55.0)) == [2, 3]
    assert chosen(active=TimeSpan(since=46.0, until=51.0)) == [3, 4, 5, 9, 10]
    assert chosen("bob", active=TimeSpan(since=46.0, until=51.0)) == [10]
    assert chosen(active=TimeSpan(until=16.0)) == [1, 9, 10]
    assert chosen(submitted=TimeSpan(until=1e300)) == chosen(submitted=TimeSpan(since=-1e300))  # no time, but a number
    opened.close()


ALL, ANNS = JobFilter(finished=True), JobFilter(finished=True, user="ann")
SPAN = TimeSpan(since=1.0, until=2.0)
BY_INDEX: list[tuple[HistoryQuery | AccountFilter, str]] = [
    (HistoryQuery(jobs=JobFilter(user="ann")), "job_open"),
    (HistoryQuery(jobs=JobFilter(states=("PEND",))), "job_open"),
    (HistoryQuery(jobs=ALL), "job_submitted"),
    (HistoryQuery(jobs=ALL, submitted=SPAN), "job_submitted (submitted_at>?"),
    (HistoryQuery(jobs=ANNS, submitted=SPAN), "job_user (user=? AND submitted_at>?"),
    (HistoryQuery(jobs=JobFilter(queue="q", finished=True), submitted=SPAN), "job_queue (queue=? AND submitted_at>?"),
    (HistoryQuery(jobs=JobFilter(name="n", finished=True)), "job_name (name=?)"),
    (HistoryQuery(jobs=JobFilter(name="n*", finished=True)), "job_name (name>? AND name<?)"),
    (HistoryQuery(jobs=ALL, completed=SPAN), "job_finished (finished_at>?"),
    (HistoryQuery(jobs=ANNS, completed=SPAN), "job_user_finished (user=? AND finished_at>?"),
    (HistoryQuery(jobs=ANNS, dispatched=SPAN), "job_dispatched (dispatched_at>?"),
    (HistoryQuery(jobs=ALL, active=SPAN), "job_finished (finished_at>?"),
    (AccountFilter(users=("ann",)), "job_user (user=?"),
    (AccountFilter(completed=SPAN), "job_finished (finished_at>? AND finished_at<?"),
    (AccountFilter(projects=("p",), completed=SPAN), "job_project (project=? AND finished_at>?"),
]


@pytest.mark.parametrize(("wanted", "index"), BY_INDEX)
def test_what_is_asked_for_is_found_by_an_index(
    store_file: Path, wanted: HistoryQuery | AccountFilter, index: str
) -> None:
    EventLog(store_file).close()
    history, plans = History(store_file), list[list[str]]()
    by_statement = history._tuples

    def explained(query: Any) -> list[Any]:
        with history._engine.connect() as connection:
            text = str(query.compile(history._engine, compile_kwargs={"literal_binds": True}))
            options = dict(query.get_execution_options())
            steps = connection.exec_driver_sql(f"explain query plan {text}", execution_options=options)
            plans.append([str(step[3]) for step in steps])
        return by_statement(query)

    history._tuples = explained  # type: ignore[method-assign]
    if isinstance(wanted, HistoryQuery):
        history.newest(wanted, 10)
        history.newest_times(wanted, 10)
    else:
        history.accounted(wanted)
        history.accounted(wanted, 10)
        history.accounted_costs(wanted)
    history.close()
    by_index = [any(f"INDEX {index}" in step for step in plan) for plan in plans]
    forms = 2 if isinstance(wanted, HistoryQuery) else 3
    parts = len(plans) // forms
    # A question may have parts, each with its index: one of them is this, in each of its forms.
    assert len(plans) == forms * parts, plans
    assert all(any(by_index[start : start + parts]) for start in range(0, len(plans), parts)), plans
    assert not any(plan == "SCAN job" for plan in plans), plans


def test_many_numbers_are_asked_for_in_parts(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.store.history_queries._IDS_PER_QUERY", 7)
    log.append([], [job_row(number, submitted_at=float(number)) for number in range(1, 51)])
    history = History(log.place)
    assert ids(history, ids=tuple(range(2, 41))) == list(range(2, 41))
    assert ids(history, limit=10, ids=tuple(range(2, 41))) == list(range(31, 41))
    history.close()


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EventLog, Iterator[int]]]:
    """A store for all names there are, and the numbers of its jobs."""
    log = EventLog(tmp_path_factory.mktemp("names") / "s.db")
    yield log, itertools.count(1)
    log.close()


@settings(max_examples=examples(17), deadline=None)
@given(name=st.text(st.sampled_from("aA_%/\\*b"), min_size=1, max_size=5))
def test_a_name_without_stars_finds_itself_alone(names: tuple[EventLog, Iterator[int]], name: str) -> None:
    log, numbers = names
    one, two, three = (next(numbers) for _ in range(3))
    name = f"{one}{name}"  # another one in each round
    literal = name.replace("*", "b")
    log.append(
        [],
        [job_row(one, name=literal), job_row(two, name=literal + "c"), job_row(three, name=literal.swapcase() + "d")],
    )
    history = History(log.place)
    assert ids(history, name=literal) == [one]
    assert one in ids(history, name=name)
    history.close()


def test_reading_cannot_write(history: History) -> None:
    with history._engine.connect() as connection, pytest.raises(Exception, match=r"read-?only"):
        connection.exec_driver_sql("delete from event")


def test_an_open_reader_does_not_hold_the_writer_up(store_file: Path) -> None:
    log = EventLog(store_file)
    log.append([submitted(1)])
    reader = sqlite3.connect(log.place, isolation_level=None)
    reader.execute("begin")
    assert reader.execute("select count(*) from event").fetchone() == (1,)
    assert log.append([submitted(2)]) == 2
    assert reader.execute("select count(*) from event").fetchone() == (1,)
    reader.close()
    log.close()


def test_a_store_can_be_read_when_no_master_runs(store: StoreAtHand) -> None:
    log = store.open()
    log.append([submitted(1)])
    log.close()
    history = store.history()
    assert history.last_seq() == 1
    history.close()


def test_a_file_can_be_named_by_its_url(store_file: Path) -> None:
    EventLog(store_file).close()
    history = History(f"sqlite:///{store_file}")
    assert history.last_seq() == 0
    history.close()


def test_a_store_that_is_not_there_is_not_made(store_file: Path) -> None:
    with pytest.raises(NotFound, match="there is no store"):
        History(store_file)
    assert not store_file.exists()
    store_file.touch()
    with pytest.raises(NotFound, match="the database is empty"):
        History(store_file)
