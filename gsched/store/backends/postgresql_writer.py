"""PostgreSQL's one writing connection, under one epoch: each outcome is told apart as stored, not stored or unknown.

While the database is away nothing is stored, and the same batch may be given again. What became of a batch whose COMMIT
was never answered is looked up before anything else is written. It never retries a batch by itself, and never guesses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from gsched.base.errors import BadRequest, Conflict, Unavailable
from gsched.store.backends.leadership import LeadershipLock, Standing, claim, is_alive, standing_now
from gsched.store.safeguards.failure import StoreBroken, StoreFull, StoreInUse, error_text
from gsched.store.safeguards.server_failure import write_failure
from gsched.store.safeguards.server_promises import check_promises, pin_promises

if TYPE_CHECKING:
    from psycopg import Connection as DriverConnection


class PostgresqlWriter:
    """Not for several threads at once: its owner holds a lock. After a StoreBroken every further call raises it again.

    `engine` makes a new connection each time; `lock` is held by this process, and taken again when it is lost.
    """

    def __init__(self, engine: Engine, name: str, lock: LeadershipLock, standing: Standing) -> None:
        self._engine = engine
        self._name = name
        self._lock = lock
        self._standing = standing
        """As of the last batch that is known to be stored."""
        self._connection: Connection | None = None
        self._doubtful: tuple[object] | None = None
        """What the batch stored of which it is not known whether it is there."""
        self.broken = ""
        """Why nothing more is written; empty while all is well."""

    def transact(self, write: Callable[[Connection], None], batch: object = None) -> None:
        """See Backend."""
        if self.broken:
            raise StoreBroken(self.broken)
        connection = self._live()
        if self._doubtful is not None and self._is_repeated(connection, batch):
            return
        self._write(connection, write)
        try:
            connection.commit()
        except DBAPIError as error:
            if not error.connection_invalidated:
                self._roll_back()
                raise self._outcome(error) from error
            self._doubtful = (batch,)
            self._drop()
            self._find_out(error)
            return
        except BaseException:
            # An interrupt around the commit: it may have happened.
            self.broken = f"it is unknown whether the store {self._name} kept the last batch: interrupted"
            raise
        self._advance()

    def close(self) -> None:
        """Close the connection."""
        self._drop()
        self._engine.dispose()

    # -- connections ---------------------------------------------------------------------------------------------------

    def _live(self) -> Connection:
        """A connection that stands, under the lock. Raises StoreFull while there is none, StoreBroken."""
        if self._connection is not None and not is_alive(self._driver(self._connection)):
            self._drop()
        try:
            if not self._lock.is_held():
                self._drop()  # its transactions are under the lock that was lost
                self._take_lock()
            if self._connection is None:
                self._connection = self._checked(self._engine.connect())
        except (Unavailable, BadRequest, Conflict) as error:  # a file with a password that has gone; a broken promise
            raise StoreFull(error.text) from error
        except DBAPIError as error:
            raise StoreFull(f"the store {self._name} cannot be reached: {error_text(error)}") from error
        return self._connection

    def _take_lock(self) -> None:
        """Raises as LeadershipLock.take, StoreFull, and StoreBroken where somebody else leads."""
        try:
            self._lock.take()
        except StoreInUse as error:
            with self._engine.connect() as connection:
                found = standing_now(connection, at_rest=False)
            if found is None or found.epoch != self._standing.epoch:
                raise self._break(self._lost(found)) from None
            # A session of this process that the server has not missed yet, or a copy that is being made.
            raise StoreFull(f"{error.text}, and nobody else leads it: it is asked for again") from None

    def _checked(self, connection: Connection) -> Connection:
        """It may lead to another server than before, or to one with other settings."""
        try:
            check_promises(connection, self._name)
            pin_promises(connection)
            connection.commit()
        except BaseException:
            connection.close()
            raise
        return connection

    def _drop(self) -> None:
        """Forget the connection; what it had not committed is rolled back by the server."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(DBAPIError):
                connection.invalidate()
                connection.close()

    def _driver(self, connection: Connection) -> DriverConnection[Any]:
        return cast("DriverConnection[Any]", connection.connection.driver_connection)

    # -- transactions --------------------------------------------------------------------------------------------------

    def _write(self, connection: Connection, write: Callable[[Connection], None]) -> None:
        """Everything but the commit. Raises StoreFull, StoreBroken; nothing is stored then."""
        try:
            if not claim(connection, self._standing):
                raise self._break(self._lost(standing_now(connection)))
            write(connection)
        except DBAPIError as error:
            self._roll_back()
            raise self._outcome(error) from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._connection is None:
            return
        with contextlib.suppress(DBAPIError):
            self._connection.rollback()
            if not self._connection.invalidated:
                return
        self._drop()  # the transaction is rolled back with its connection

    def _outcome(self, error: DBAPIError) -> StoreFull | StoreBroken:
        outcome = write_failure(error, self._name)
        return self._break(outcome) if isinstance(outcome, StoreBroken) else outcome

    def _advance(self) -> None:
        self._standing = self._standing._replace(batch=self._standing.batch + 1)

    # -- what became of a batch ----------------------------------------------------------------------------------------

    def _find_out(self, error: DBAPIError) -> None:
        """At once, where the database still answers. Raises StoreFull when nothing is stored or it does not answer."""
        why = error_text(error)
        try:
            is_stored = self._look_up(self._live())
        except StoreFull as away:
            text = f"whether the store {self._name} kept the last batch is looked up when it answers again: {why}"
            raise StoreFull(text) from away
        if not is_stored:
            raise StoreFull(f"the store {self._name} did not keep the last batch: {why}")

    def _is_repeated(self, connection: Connection, batch: object) -> bool:
        """Whether the batch in doubt is stored, and this is the same one, given again. Raises as `_look_up`."""
        assert self._doubtful is not None
        (was,) = self._doubtful
        if not self._look_up(connection) or was is None:  # what has no name may be stored twice
            return False
        if was != batch:
            raise self._break(StoreBroken(f"the store {self._name} kept a batch that was given up"))
        return True

    def _look_up(self, connection: Connection) -> bool:
        """Whether the batch in doubt is stored. The row is free as soon as the transaction in doubt is over.

        Raises StoreFull (it cannot be told now), StoreBroken.
        """
        try:
            found = standing_now(connection)
            # The row may be visible here and not yet where a synchronous standby would have it. The lock on the row is
            # logged behind it, so this commit is acknowledged only when both are there.
            connection.commit()
        except DBAPIError as error:
            self._roll_back()
            raise self._outcome(error) from error
        ours = self._standing
        if found is None or found.epoch != ours.epoch or found.batch - ours.batch not in (0, 1):
            raise self._break(self._lost(found))
        self._doubtful = None
        is_stored = found.batch > ours.batch
        if is_stored:
            self._advance()
        return is_stored

    def _lost(self, found: Standing | None) -> StoreBroken:
        """Why the row is not as it was left."""
        if found is not None and found.epoch > self._standing.epoch:
            return StoreBroken(f"the store {self._name} was taken over by {found.holder}")
        at = f"batch {found.batch} of epoch {found.epoch}" if found is not None else "nothing"
        ours = f"batch {self._standing.batch} of epoch {self._standing.epoch}"
        return StoreBroken(f"the store {self._name} has gone back in time: it says {at}, and {ours} was acknowledged")

    def _break(self, outcome: StoreBroken) -> StoreBroken:
        self.broken = outcome.text
        return outcome
