"""What a failed write means: known not to be stored, or unknown. The difference decides whether a master lives on.

Everything else about errors (whom to tell, when to retry) is the caller's; nothing here touches the database.

Reasoning, for SQLite in WAL mode with synchronous=FULL (sqlite.org: "Write-Ahead Logging", "Result and Error Codes").
A transaction exists on disk if and only if the log holds its last frame, the commit frame, with a valid checksum.

Before COMMIT no commit frame has been written (pages may have spilled, but without it recovery drops them), so every
failure there is *known*: nothing is stored. During COMMIT the order is: write frames, the commit frame last; fsync the
log; extend the index in shared memory. Therefore

- FULL and IOERR_WRITE: a write fell short at or before the commit frame. Its checksum cannot be valid: not stored.
- BUSY: the commit was not begun.
- IOERR_FSYNC, IOERR_SHMSIZE and anything else: the commit frame may be complete in the file although this process
  no longer counts it. After a crash recovery may bring the batch back: unknown. A second fsync proves nothing either,
  since the kernel marks the pages clean when the first one fails.
"""

from __future__ import annotations

import sqlite3

from gsched.base.errors import Conflict, Internal, ResourceExhausted


class StoreFull(ResourceExhausted):
    """Nothing of the batch is stored, for certain, and the same batch may be given again: a full disk above all, also a
    write error, or another program that holds the database locked."""


class StoreBroken(Internal):
    """It is unknown whether the batch is stored, or the store is damaged.

    The caller must leave the process without a further commit (at best by `os._exit`) and replay: the truth is what
    the next start reads.
    """


class StoreDamaged(Conflict):
    """Parts of the file cannot be read; nothing has been changed."""


class StoreInUse(Conflict):
    """Another process holds the store."""


_PRIMARY = 0xFF
_KNOWN_BEFORE_COMMIT = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_CANTOPEN,
    }
)
"""Primary codes. CORRUPT, NOTADB, CONSTRAINT, READONLY … leave nothing behind either, but no retry cures them."""

_KNOWN_AT_COMMIT = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_BUSY})
"""Extended codes: which I/O step failed is the whole point here."""


def error_code(error: BaseException) -> int:
    """SQLite's extended result code of a driver's or SQLAlchemy's exception; 0 when it carries none."""
    cause = getattr(error, "orig", None) or error
    return int(getattr(cause, "sqlite_errorcode", 0) or 0)


def primary_code(error: BaseException) -> int:
    """The same without what makes it an extended one."""
    return error_code(error) & _PRIMARY


def error_text(error: BaseException) -> str:
    """The database's own words in one line and the name of the code, as in `disk I/O error (SQLITE_IOERR_WRITE)`."""
    cause = getattr(error, "orig", None) or error
    name = getattr(cause, "sqlite_errorname", "") or getattr(cause, "sqlstate", "")
    said = getattr(getattr(cause, "diag", None), "message_primary", None) or str(
        cause
    )  # of PostgreSQL without its hints
    words = "; ".join(line.strip() for line in said.splitlines() if line.strip())
    return f"{words} ({name})" if name else words


def before_commit(error: BaseException, store: str) -> StoreFull | StoreBroken:
    """What a failure of BEGIN or of a statement means."""
    if primary_code(error) in _KNOWN_BEFORE_COMMIT:
        return StoreFull(f"the store {store} cannot be written now: {error_text(error)}")
    return StoreBroken(f"the store {store} refuses a batch: {error_text(error)}")


def at_commit(error: BaseException, store: str) -> StoreFull | StoreBroken:
    """What a failure of COMMIT itself means. The caller still checks a StoreFull against what a fresh read sees."""
    if error_code(error) in _KNOWN_AT_COMMIT:
        return StoreFull(f"the store {store} cannot be written now: {error_text(error)}")
    return StoreBroken(f"it is unknown whether the store {store} kept the last batch: {error_text(error)}")
