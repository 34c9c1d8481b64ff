"""A store begun in place of one that is lost: what it goes on from, what is given up, where the old files are kept.

It is done only when an administrator has said so; a file is renamed, never removed.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from gsched.store.mark import StoreMark
from gsched.store.safeguards.failure import error_code
from gsched.store.tables.migrations import ForeignDatabase

_NO_DATABASE = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})


@dataclass(frozen=True, slots=True)
class Renewal:
    """A new generation of a store."""

    why: str
    """What was lost, as a sentence."""
    origin: StoreMark
    """The cluster and the generation that the store is of from now on."""
    goes_on: bool
    """With what is left of the old one; else it begins empty."""
    kept: tuple[str, ...]
    """Paths under which the old files lie now."""


def is_unusable(error: BaseException) -> bool:
    """Whether a file could not be opened because of what it holds."""
    of_file = isinstance(error, DBAPIError) and error_code(error) & 0xFF in _NO_DATABASE
    return of_file or isinstance(error, ForeignDatabase)


def renewal(
    path: Path | None, why: str, found: StoreMark | None, witnesses: Mapping[str, StoreMark], now: float
) -> Renewal:
    """Decide what the new generation goes on from, and move away what it does not. Raises OSError.

    `path`: None where the store is no file.
    """
    marks = [*witnesses.values(), *([found] if found is not None else [])]
    # The mark beside the database comes first, the database itself last.
    cluster_id = next((mark.cluster_id for mark in (*witnesses.values(), *marks) if mark.cluster_id), "")
    goes_on = found is not None and found.cluster_id == cluster_id
    of_cluster = [mark.generation for mark in marks if mark.cluster_id == cluster_id]
    origin = StoreMark(cluster_id=cluster_id, generation=max(of_cluster, default=1) + 1)
    return Renewal(why, origin, goes_on, () if goes_on or path is None else moved_away(path, now))


def moved_away(path: Path, now: float) -> tuple[str, ...]:
    """Rename a database and what belongs to it; returns the new paths. `now`: UTC seconds. Raises OSError."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    kept = []
    for suffix in ("", "-wal", "-shm"):
        old, new = Path(f"{path}{suffix}"), Path(f"{path}.lost-{stamp}{suffix}")
        if os.path.lexists(old):
            os.rename(old, new)
            kept.append(str(new))
    return tuple(kept)
