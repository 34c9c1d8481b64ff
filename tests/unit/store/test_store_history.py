"""Questions about the past."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_samples import job_row, noted, submitted

from gsched.base.errors import NotFound
from gsched.model.event import HostClosed, decode_event
from gsched.model.view import JobFilter
from gsched.store.eventlog import EventLog
from gsched.store.history import History


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
    opened = History(log.path)
    yield opened
    opened.close()


def ids(history: History, limit: int = 100, **wanted: object) -> list[int]:
    return [row.job_id for row in history.find_jobs(JobFilter(**wanted), limit)]  # type: ignore[arg-type]


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
    assert history.find_jobs(JobFilter(ids=(4,)), 1) == [
        job_row(4, state="EXIT", finished_at=10.0, exit_code=3, host="h22", name="100%")
    ]


def test_a_limit_keeps_the_newest(history: History) -> None:
    assert ids(history, limit=2, finished=True) == [4, 5]


def test_many_numbers_are_asked_for_in_parts(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.store.history._IDS_PER_QUERY", 7)
    log.append([], [job_row(number) for number in range(1, 51)])
    history = History(log.path)
    assert ids(history, ids=tuple(range(2, 41))) == list(range(2, 41))
    assert ids(history, limit=10, ids=tuple(range(2, 41))) == list(range(31, 41))
    history.close()


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EventLog, Iterator[int]]]:
    """A store for all names there are, and the numbers of its jobs."""
    log = EventLog(tmp_path_factory.mktemp("names") / "s.db")
    yield log, itertools.count(1)
    log.close()


@settings(max_examples=50, deadline=None)
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
    history = History(log.path)
    assert ids(history, name=literal) == [one]
    assert one in ids(history, name=name)
    history.close()


def test_reading_cannot_write(history: History) -> None:
    with history._engine.connect() as connection, pytest.raises(Exception, match="readonly"):
        connection.exec_driver_sql("delete from event")


def test_an_open_reader_does_not_hold_the_writer_up(log: EventLog) -> None:
    log.append([submitted(1)])
    reader = sqlite3.connect(log.path, isolation_level=None)
    reader.execute("begin")
    assert reader.execute("select count(*) from event").fetchone() == (1,)
    assert log.append([submitted(2)]) == 2
    assert reader.execute("select count(*) from event").fetchone() == (1,)
    reader.close()


def test_a_store_can_be_read_when_no_master_runs(store_file: Path) -> None:
    log = EventLog(store_file)
    log.append([submitted(1)])
    log.close()
    history = History(f"sqlite:///{store_file}")
    assert history.last_seq() == 1
    history.close()


def test_a_store_that_is_not_there_is_not_made(store_file: Path) -> None:
    with pytest.raises(NotFound, match="there is no store"):
        History(store_file)
    assert not store_file.exists()
    store_file.touch()
    with pytest.raises(NotFound, match="the database is empty"):
        History(store_file)
