"""A place for a store, in either database, and what tests do to it behind the store's back."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine

from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History


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
