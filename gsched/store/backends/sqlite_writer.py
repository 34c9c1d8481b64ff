"""SQLite's one writing connection: each outcome is told apart as stored, not stored or unknown. It never retries."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import cast

from sqlalchemy import Connection, Engine, RootTransaction
from sqlalchemy.exc import DBAPIError

from gsched.store.safeguards.failure import StoreBroken, StoreFull, at_commit, before_commit, error_text


class SqliteWriter:
    """The store's only writing connection. Not for several threads at once: its owner holds a lock.

    After a StoreBroken every further call raises StoreBroken again.
    """

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self._connection = engine.connect()
        self._path = path
        self._file = self._identity()
        self.broken = ""
        """Why nothing more is written; empty while all is well."""

    def transact(self, write: Callable[[Connection], None], landed: Callable[[], bool] | None = None) -> None:
        """Run `write` and commit. Raises StoreFull (not stored, may be retried) or StoreBroken (unknown, or hopeless).

        `landed` says by a fresh read whether the batch is visible; it is asked when a commit failed in a way that ought
        to mean "not stored".
        """
        if self.broken:
            raise StoreBroken(self.broken)
        # SQLite would go on writing into files that nobody can open any more, and report success.
        if self._identity() != self._file:
            raise self._break(StoreBroken(f"the store {self._path} was removed or replaced while in use"))
        self._commit(self._write(write), landed)

    def copy_log(self) -> None:
        """Copy what the log holds into the database file, as far as no reader needs it. Raises StoreFull."""
        try:
            cast(sqlite3.Connection, self._connection.connection.driver_connection).execute("PRAGMA wal_checkpoint")
        except sqlite3.Error as error:
            raise StoreFull(f"the log of {self._path} cannot be copied: {error_text(error)}") from error

    def _write(self, write: Callable[[Connection], None]) -> RootTransaction:
        transaction: RootTransaction | None = None
        try:
            transaction = self._connection.begin()
            write(self._connection)
        except DBAPIError as error:
            self._roll_back(transaction)
            outcome = before_commit(error, str(self._path))
            raise (self._break(outcome) if isinstance(outcome, StoreBroken) else outcome) from error
        except BaseException:
            self._roll_back(transaction)
            raise
        return transaction

    def _commit(self, transaction: RootTransaction, landed: Callable[[], bool] | None) -> None:
        try:
            transaction.commit()
        except DBAPIError as error:
            outcome = at_commit(error, str(self._path))
            if isinstance(outcome, StoreBroken):
                raise self._break(outcome) from error
            self._roll_back(transaction)
            self._make_sure_absent(landed)
            raise outcome from error
        except BaseException:
            # An interrupt around the commit: it may have happened.
            self.broken = f"it is unknown whether the store {self._path} kept the last batch: interrupted"
            raise

    def _roll_back(self, transaction: RootTransaction | None) -> None:
        """End the transaction in SQLAlchemy and in SQLite, which may have ended it by itself already."""
        try:
            if transaction is not None:
                transaction.rollback()
            cast(sqlite3.Connection, self._connection.connection.driver_connection).rollback()
        except (DBAPIError, sqlite3.Error) as error:
            raise self._break(StoreBroken(f"the store {self._path} cannot roll back: {error_text(error)}")) from error

    def _make_sure_absent(self, landed: Callable[[], bool] | None) -> None:
        try:
            is_there = landed is not None and landed()
        except DBAPIError as error:
            reason = f"the store {self._path} can be neither written nor read: {error_text(error)}"
            raise self._break(StoreBroken(reason)) from error
        if is_there:
            raise self._break(StoreBroken(f"the store {self._path} reports a failed commit but shows its records"))

    def _break(self, outcome: StoreBroken) -> StoreBroken:
        self.broken = outcome.text
        return outcome

    def _identity(self) -> tuple[int, int]:
        try:
            status = os.stat(self._path)
        except OSError:
            return (0, 0)
        return (status.st_dev, status.st_ino)

    def close(self) -> None:
        """Close the connection, unless broken: the last close copies the log into the database, sound or not."""
        if not self.broken:
            self._connection.close()
            self._engine.dispose()
