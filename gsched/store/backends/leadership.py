"""Who may write to a store in PostgreSQL: an advisory lock on a connection of its own, and an epoch in the store.

The lock keeps a second master from starting. It proves nothing about the next transaction: a connection may be lost
without this side noticing. So each transaction also claims the row of `leader`, which holds the epoch of whoever leads
and the number of the last batch. The row answers what became of a batch, too, when a connection broke in its COMMIT.
"""

from __future__ import annotations

import os
import select
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import TIMESTAMP, BigInteger, Column, Connection, Integer, MetaData, Table, Text, text

from gsched.base.errors import Unavailable
from gsched.model.store_url import StoreUrl
from gsched.store.safeguards.failure import StoreInUse, error_text
from gsched.store.tables.postgresql import ANSWER_S, connect, driver

if TYPE_CHECKING:
    from psycopg import Connection as DriverConnection

_KEY = int.from_bytes(b"gsch")
"""The other half of the lock's key is the schema, as there may be a store in each."""
LOCK_ROLE = "gsched master's lock"
"""What the server's own views call the connection that has the lock of a master."""
_PATIENCE_MS = 2_000
"""For the lock of a master that has just died: its server process may need a moment to notice."""
_OURS = "(SELECT hashtext(current_schema()))"

_metadata = MetaData()
leader = Table(
    "leader",
    _metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("batch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
)
# When the master of that epoch has said last that it is there, the host to which it hands over, and the last event that
# it has acknowledged; see `lease`.
Table(
    "lease",
    _metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("renewed_at", TIMESTAMP(timezone=True), nullable=False),
    Column("successor", Text, nullable=False),
    Column("acknowledged", BigInteger, nullable=False, server_default="0"),
)
# Asked first: it locks the table against the looks of all that wait.
_HAS_ACKNOWLEDGED = text(
    "SELECT EXISTS (SELECT 1 FROM pg_attribute "
    "WHERE attrelid = 'lease'::regclass AND attname = 'acknowledged' AND NOT attisdropped)"
)
_ADD_ACKNOWLEDGED = text("ALTER TABLE lease ADD COLUMN acknowledged BIGINT NOT NULL DEFAULT 0")
# By the clock, so that a database that was copied or put back begins with a later epoch than agents know of.
_LEAD = text(
    "INSERT INTO leader (id, epoch, batch, holder) "
    "VALUES (1, extract(epoch FROM clock_timestamp())::bigint, 0, :holder) "
    "ON CONFLICT (id) DO UPDATE SET epoch = greatest(leader.epoch + 1, excluded.epoch), holder = excluded.holder "
    "RETURNING epoch, batch"
)
_CLAIM = "UPDATE leader SET batch = %s WHERE id = 1 AND epoch = %s AND batch = %s"
_STANDING = text("SELECT epoch, batch, holder FROM leader WHERE id = 1")
_STANDING_AT_REST = text("SELECT epoch, batch, holder FROM leader WHERE id = 1 FOR UPDATE")


class Standing(NamedTuple):
    """The row: who leads, and how far the store is."""

    epoch: int
    """Higher with each master that takes the store."""
    batch: int
    """Of the last transaction that was committed, counted from the store's beginning."""
    holder: str = ""


def make_leader_table(connection: Connection) -> None:
    """Where it is missing: the store is new, or was copied, or was led by an earlier version."""
    _metadata.create_all(connection)
    if not connection.scalar(_HAS_ACKNOWLEDGED):
        connection.execute(_ADD_ACKNOWLEDGED)


def begin_epoch(connection: Connection) -> Standing:
    """Lead from now on, when this is committed. It waits for a transaction of whoever led before, and fences that off:
    none of its later ones can be committed.
    """
    found = connection.execute(_LEAD, {"holder": whom()}).one()
    return Standing(int(found[0]), int(found[1]))


def claim(connection: Connection, standing: Standing) -> bool:
    """Number the transaction that has been begun; false: somebody else leads, or the store is not where it was left."""
    return connection.exec_driver_sql(_CLAIM, (standing.batch + 1, standing.epoch, standing.batch)).rowcount == 1


def standing_now(connection: Connection, *, at_rest: bool = True) -> Standing | None:
    """The row as it is when every transaction that has claimed it is over, or else as it was committed last, without
    waiting for any; None: there is none.
    """
    found = connection.execute(_STANDING_AT_REST if at_rest else _STANDING).one_or_none()
    return None if found is None else Standing(int(found[0]), int(found[1]), str(found[2]))


def whom() -> str:
    """This process, for people."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def lock_key() -> int:
    """The lock's own half of its key, in the server's views."""
    return _KEY


class LeadershipLock:
    """The advisory lock. It is lost with its connection, and never broken by anybody."""

    def __init__(self, url: StoreUrl, holder: str = "master") -> None:
        """`holder`: what the server's own views call whoever has it."""
        self._url = url
        self._role = f"{holder}'s lock"
        self._connection: DriverConnection[Any] | None = None

    def take(self) -> None:
        """Raises StoreInUse when another process has it, Unavailable, BadRequest."""
        self.release()
        failure = driver().Error
        try:
            connection = connect(self._url, self._role, answer_s=ANSWER_S)
            try:
                self._lock(connection)
            except BaseException:
                connection.close()
                raise
        except failure as error:
            raise Unavailable(f"the store {self._url.name} cannot be reached: {error_text(error)}") from error
        self._connection = connection

    def _lock(self, connection: DriverConnection[Any]) -> None:
        connection.execute(f"SET lock_timeout = {_PATIENCE_MS}")
        try:
            connection.execute(f"SELECT pg_advisory_lock({_KEY}, {_OURS})")
        except driver().errors.LockNotAvailable:
            raise StoreInUse(f"the store {self._url.name} is in use by {_holder(connection)}") from None

    def is_held(self) -> bool:
        """Whether the lock's connection stands, as far as this side knows; it asks nobody and waits for nobody."""
        return self._connection is not None and is_alive(self._connection)

    def release(self) -> None:
        """Let others have the store. May be called twice."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def is_alive(connection: DriverConnection[Any]) -> bool:
    """Whether nothing has come that ends the connection: what lies in the socket is read, nothing is sent."""
    if connection.closed:
        return False
    raw = connection.pgconn
    try:
        ready = select.poll()
        ready.register(raw.socket, select.POLLIN)
        while ready.poll(0):
            raw.consume_input()
            if raw.status != 0:  # ConnStatus.OK
                return False
    except (OSError, driver().Error):
        return False
    return True


def _holder(connection: DriverConnection[Any]) -> str:
    """Whoever leads by the row, in words; the row may not be there yet."""
    has_row = connection.execute("SELECT to_regclass('leader') IS NOT NULL").fetchone()
    found = connection.execute("SELECT holder FROM leader WHERE id = 1").fetchone() if has_row and has_row[0] else None
    return str(found[0]) if found else "another process"
