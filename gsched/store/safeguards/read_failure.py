"""What a failed read means: to whom it is told, and whether one record is damaged or the database did not answer.

The difference decides whether an older checkpoint takes the place of a newer one. Nothing here touches the database.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

from sqlalchemy.exc import DBAPIError

from gsched.base.errors import Unavailable
from gsched.store.safeguards.failure import error_text, primary_code
from gsched.store.safeguards.server_failure import is_passing

_AWAY = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_PROTOCOL,
    }
)
"""Primary codes of SQLite that say nothing of what is stored. IOERR is not among them: a disk that cannot read one page
any more says so each time, and what lies elsewhere can still be used.
"""


def is_away(error: DBAPIError) -> bool:
    """Whether the database did not answer, so that the same read may succeed later."""
    if isinstance(error.orig, sqlite3.Error):
        return primary_code(error) in _AWAY
    return is_passing(error)


@contextlib.contextmanager
def unavailable(store: str) -> Iterator[None]:
    """Tell a read that fails as Unavailable, with the name of the store: for who only reads it."""
    try:
        yield
    except DBAPIError as error:
        raise Unavailable(f"the store {store} cannot be read: {error_text(error)}") from error
