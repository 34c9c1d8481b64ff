"""What a failed write in PostgreSQL means, as `failure` says it for SQLite. Nothing here touches the database.

A transaction is stored if and only if its COMMIT was carried out, and the server says so only when it is durable
(synchronous_commit is not off, which is checked). So every failure of a statement before COMMIT is *known*: nothing is
stored, whether the server answered or the connection broke. A COMMIT that the server refuses is rolled back: known too.
A connection that breaks during COMMIT leaves it unknown, until the number of the batch is looked up.
"""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

from gsched.store.safeguards.failure import StoreBroken, StoreFull, error_text

_PASSING = (
    "08",  # connection exceptions
    "40",  # rolled back: serialization, deadlock
    "53",  # insufficient resources: a full disk, memory, connections
    "55",  # not in the right state: a lock that is not available
    "57",  # an operator intervened: cancelled, shutting down, starting up
    "58",  # a system error: I/O
)
_PASSING_STATES = (
    "25006",  # read_only_sql_transaction: a standby, or a database that an administrator has closed for writing
    "25P03",  # idle_in_transaction_session_timeout: this process was stopped in the middle
    "25P04",  # transaction_timeout
)


def sqlstate(error: BaseException) -> str:
    """The five characters of PostgreSQL's code; empty when the exception carries none."""
    cause = getattr(error, "orig", None) or error
    return str(getattr(cause, "sqlstate", None) or "")


def is_passing(error: DBAPIError) -> bool:
    """Whether the same statement may succeed later. Without a code it is the connection that failed."""
    code = sqlstate(error)
    return not code or code.startswith(_PASSING) or code in _PASSING_STATES


def write_failure(error: DBAPIError, store: str) -> StoreFull | StoreBroken:
    """What a failure means after which nothing is stored."""
    if is_passing(error):
        return StoreFull(f"the store {store} cannot be written now: {error_text(error)}")
    return StoreBroken(f"the store {store} refuses a batch: {error_text(error)}")
