"""A database that does not answer is told as that: it makes no checkpoint damaged, and no older one is used for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.event import listen
from sqlalchemy.exc import OperationalError
from store_samples import submitted
from stores import StoreAtHand

from gsched.base.errors import GschedError, Unavailable
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.integrity import Integrity
from gsched.store.log_tail import LogTail
from gsched.store.past_queries import PastStore
from gsched.store.safeguards.failure import StoreFull

AWAY = {"sqlite": "SQLITE_BUSY", "postgresql": "57P01"}
"""The code of one that does not answer: another program holds the file, an administrator ends the session."""
DAMAGED = {"sqlite": "SQLITE_CORRUPT", "postgresql": "XX001"}
"""The code of one that says of a page that it cannot be what was written."""


def failure(engine: Engine, codes: dict[str, str]) -> OperationalError:
    """As the database's driver reports it, and SQLAlchemy after it."""
    code = codes[engine.dialect.name]
    cause: Any
    if engine.dialect.name == "sqlite":
        cause = sqlite3.OperationalError("it fails")
        cause.sqlite_errorcode, cause.sqlite_errorname = getattr(sqlite3, code), code
    else:
        import psycopg  # only where there is a server

        cause = psycopg.errors.lookup(code)("it fails")
    return OperationalError("SELECT", {}, cause)


def fails_once(engine: Engine, codes: dict[str, str]) -> None:
    """The next read of a checkpoint's content fails with the code of this database."""
    left = [failure(engine, codes)]

    def fail(connection: Any, cursor: Any, statement: str, *others: Any) -> None:
        if left and "checkpoint.payload" in statement:
            raise left.pop()

    listen(engine, "before_cursor_execute", fail)


@pytest.fixture
def two(log: EventLog) -> EventLog:
    """With two checkpoints."""
    log.append([submitted(1), submitted(2)])
    log.save_checkpoint(1, b"older")
    log.save_checkpoint(2, b"newer")
    return log


def of_log(log: EventLog) -> tuple[Engine, Callable[[], object], Callable[[], object]]:
    return log._backend.readers, log.load_checkpoint, lambda: None


def of_past(log: EventLog) -> tuple[Engine, Callable[[], object], Callable[[], object]]:
    past = PastStore(History(log.place))
    return past._engine, lambda: past.checkpoint_before(1e12), past.close


def of_tail(log: EventLog) -> tuple[Engine, Callable[[], object], Callable[[], object]]:
    tail = LogTail(log.place)
    return tail._engine, tail.checkpoint, tail.close


@pytest.fixture(params=[of_log, of_past, of_tail])
def reading(request: pytest.FixtureRequest, two: EventLog) -> Iterator[tuple[Engine, Callable[[], object]]]:
    """Whoever reads the newest whole checkpoint: the engine by which it does, and how."""
    engine, read, close = request.param(two)
    yield engine, read
    close()


def test_no_older_checkpoint_is_used_for_one_that_could_not_be_read(
    reading: tuple[Engine, Callable[[], object]], caplog: pytest.LogCaptureFixture
) -> None:
    engine, read = reading
    fails_once(engine, AWAY)
    with pytest.raises((Unavailable, StoreFull), match=AWAY[engine.dialect.name]):
        read()
    assert "damaged" not in caplog.text
    assert read() == (2, b"newer")


def test_one_that_the_database_calls_damaged_is_passed_over(reading: tuple[Engine, Callable[[], object]]) -> None:
    engine, read = reading
    fails_once(engine, DAMAGED)
    assert read() == (1, b"older")


def test_a_check_finds_no_damage_in_a_database_that_does_not_answer(store: StoreAtHand, two: EventLog) -> None:
    with closing(Integrity(store.history())) as found:
        fails_once(found._engine, AWAY)
        with pytest.raises(GschedError, match=f"cannot be read.*{AWAY[found._engine.dialect.name]}"):
            list(found.damaged_checkpoints())
        assert list(found.damaged_checkpoints()) == []
        fails_once(found._engine, DAMAGED)
        [line] = found.damaged_checkpoints()
        assert line.startswith("the checkpoint of event 1 is damaged: it cannot be read: it fails")
