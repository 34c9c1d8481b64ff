"""Of which jobs some events have gone already: of one that has very many they go some at a time.

It is written with what goes, so that an archive says of such a job that it lacks some. The list is short: a job is in
it for some slices, or until its time has come again where lsb.params was changed to keep more in between.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, select

from gsched.store.tables.schema import meta
from gsched.store.tables.statements import insert_rows, upsert

_HALF_REMOVED = "half_removed_jobs"


def half_removed(connection: Connection) -> set[int]:
    """Numbers of these jobs."""
    value = connection.scalar(select(meta.c.value).where(meta.c.key == _HALF_REMOVED))
    return {int(number) for number in str(value or "").split() if number.isdigit()}


def note_half_removed(connection: Connection, job_id: int) -> None:
    """Some of its events go in this transaction."""
    there = half_removed(connection)
    if job_id not in there:
        _write(connection, there | {job_id})


def note_removed(connection: Connection, ids: Collection[int]) -> None:
    """All events of these jobs go in this transaction."""
    there = half_removed(connection)
    if not there.isdisjoint(ids):
        _write(connection, there.difference(ids))


def _write(connection: Connection, numbers: set[int]) -> None:
    insert_rows(connection, upsert(meta), [(_HALF_REMOVED, " ".join(map(str, sorted(numbers))))])
