"""A place for a store, in either database, and what tests do to it behind the store's back."""

from __future__ import annotations

import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine

from gsched.model.store_url import parse_store_url
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.tables.postgresql import writer_engine

POSTGRESQL = pytest.param("postgresql", marks=[pytest.mark.slow, pytest.mark.needs_postgresql])
"""Beside "sqlite": parameters of a fixture that makes stores."""


PATIENCE_S = 120.0
"""Catches a hang only. On a busy machine each of the hundreds of questions that opening a store asks takes its time."""


def until(is_true: Callable[[], bool]) -> None:
    """Wait for what another thread does, or the database."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, f"it does not come in {PATIENCE_S:.0f} seconds"
        time.sleep(0.001)  # nobody tells of it


class StoreAtHand(ABC):
    """Where a store is or will be. Statements have `?` for values."""

    place: str
    folder: Path

    def open(self, **words: Any) -> EventLog:
        return EventLog(self.place, folder=self.folder, **words)

    def history(self) -> History:
        return History(self.place)

    @abstractmethod
    def engine(self) -> Engine:
        """Connections that may do anything."""

    @abstractmethod
    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What a question is answered."""

    @abstractmethod
    def damage(self, statement: str, *values: object) -> None:
        """Change what is stored."""


class SqliteStore(StoreAtHand):
    def __init__(self, path: Path) -> None:
        self.place, self.folder = str(path), path.parent

    def engine(self) -> Engine:
        return create_engine(f"sqlite:///{self.place}")

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.place)) as connection:
            return connection.execute(statement).fetchall()

    def damage(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.place)) as connection, connection:
            connection.execute(statement, values)


class PostgresqlStore(StoreAtHand):
    def __init__(self, url: str, folder: Path, server: Any) -> None:
        self.place, self.folder, self.server = url, folder, server

    def engine(self) -> Engine:
        return writer_engine(parse_store_url(self.place))

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self.engine().connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(statement)]

    def damage(self, statement: str, *values: object) -> None:
        with self.engine().begin() as connection:
            connection.exec_driver_sql(statement.replace("?", "%s"), values)
