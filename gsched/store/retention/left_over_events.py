"""Events that were recorded of a job when its own events had gone: a host told late how it ended, a notice was settled.

They belong to nothing that is kept, and no archive has them. They go when jobs that ended at that time have lost their
events, by age or because an archive has them. Each event is looked at once, when it is below the floor, and those
that are young are waited for. It must never take away an event of a job that is not over, or has its first event.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, or_, select

from gsched.base.ids import array_of
from gsched.store.retention.blob_uses import release_uses
from gsched.store.tables.batched import batched
from gsched.store.tables.floor import Floor
from gsched.store.tables.records import BEGUN
from gsched.store.tables.schema import event, job, meta
from gsched.store.tables.selection import ARRAY_MASK
from gsched.store.tables.statements import insert_rows, upsert

_LOOKED_AT = "left_over_looked_at"
"""Key of the number of the last event that was looked at."""
_NUMBERS_AT_ONCE = 400


class LeftOver(NamedTuple):
    """What one slice has done."""

    removed: int
    are_more: bool
    """Whether to look further at once."""


def may_be_left_over(connection: Connection, floor: Floor) -> bool:
    """Whether there is an event to look at."""
    return floor.events_from > 0.0 and _looked_at(connection) + 1 < floor.seq


def remove_left_over(connection: Connection, floor: Floor, most: int, day: int) -> LeftOver:
    """Look at the next `most` events. `day`: since 1970."""
    if not may_be_left_over(connection, floor):
        return LeftOver(0, are_more=False)
    after = _looked_at(connection)
    own, array = (
        select(other.c.kind).where(other.c.job_id == number).order_by(other.c.seq).limit(1).scalar_subquery()
        for other, number in (
            (event.alias(), event.c.job_id),
            (event.alias(), event.c.job_id.op("&")(ARRAY_MASK)),
        )
    )
    query = select(event.c.seq, event.c.at, event.c.job_id, or_(own.in_(BEGUN), func.coalesce(array, "").in_(BEGUN)))
    rows: list[Any] = list(
        connection.execute(query.where(event.c.seq > after, event.c.seq < floor.seq).order_by(event.c.seq).limit(most))
    )
    alone = [(int(seq), float(at), number) for seq, at, number, has in rows if type(number) is int and not has]
    open_jobs = _not_over(connection, {number for _, _, number in alone}, floor.events_from)
    alone = [each for each in alone if each[2] not in open_jobs]
    young = next((seq for seq, at, _ in alone if at >= floor.events_from), None)
    gone = [seq for seq, _, _ in alone if young is None or seq < young]
    for some in batched(gone, _NUMBERS_AT_ONCE):
        release_uses(connection, event.c.seq.in_(some), day)
        connection.execute(delete(event).where(event.c.seq.in_(some)))
    last = young - 1 if young is not None else int(rows[-1][0]) if rows else floor.seq - 1
    if last > after:
        insert_rows(connection, upsert(meta), [(_LOOKED_AT, str(last))])
    return LeftOver(len(gone), are_more=young is None and len(rows) == most)


def _not_over(connection: Connection, numbers: Collection[int], before: float) -> set[int]:
    """Those that have a row, or their array has, and did not end before that time."""
    found: set[int] = set()
    for some in batched({*numbers, *map(array_of, numbers)}, _NUMBERS_AT_ONCE):
        is_open = or_(job.c.finished_at.is_(None), job.c.finished_at >= before)
        found.update(connection.scalars(select(job.c.job_id).where(job.c.job_id.in_(some), is_open)))
    return {number for number in numbers if number in found or array_of(number) in found}


def _looked_at(connection: Connection) -> int:
    value = connection.scalar(select(meta.c.value).where(meta.c.key == _LOOKED_AT))
    return int(value) if value is not None and value.isdigit() else 0
