"""Which finished jobs a store may let go: those that the engine has forgotten before the floor, with all their events.

A state that begins at the floor or above it does not know them, so no replay misses them. The elements of an array go
with the array, for its events are a part of the history of each: it stays as long as one of them does. It reads only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, exists, func, or_, select

from gsched.base.ids import array_of, index_of
from gsched.store.tables.records import BEGUN, FORGOTTEN
from gsched.store.tables.schema import ARRAY, event, job
from gsched.store.tables.selection import ARRAY_MASK


class JobPlace(NamedTuple):
    """Of a finished job in the order of ends; of jobs that ended at once the elements come before their array."""

    finished_at: float
    job_id: int


LAST_NUMBER = (1 << 63) - 1
"""Jobs that ended at the same time come by falling numbers; this one comes before all of them."""
FIRST = JobPlace(float("-inf"), LAST_NUMBER)


class RemovableJobs(NamedTuple):
    """What was looked at."""

    ids: list[int]
    """Jobs that may go."""
    last: JobPlace | None
    """The last job that was looked at; None: there was none left."""
    first_kept: JobPlace | None
    """The first of them that stays for now."""
    too_large: JobPlace | None = None
    """The next one, which has more events than may go at a time: `ids` is empty then."""


class _EventsOfJob(NamedTuple):
    number: int
    may_go: bool | None
    """Whether the job was forgotten: it has an event that says so, or what it has is left over from all that went
    before. None: it has an event that must stay.
    """


def removable_jobs(
    connection: Connection,
    after: JobPlace,
    until: float,
    most: int,
    below: int,
    *,
    with_events: bool,
    most_events: int,
) -> RemovableJobs:
    """Look at up to `most` jobs that ended behind `after` and before `until` (UTC seconds), until those that may go
    have `most_events` events.

    `below`: all their events have lower numbers. `with_events`: those that have none any more do not count.
    """
    rows = _ended(connection, after, until, most)
    return _judged(connection, rows, after, until, below, with_events=with_events, most_events=most_events)


def removable_of(
    connection: Connection, archived: Mapping[int, int], until: float, below: int, *, most_events: int
) -> tuple[RemovableJobs, bool]:
    """Look at these jobs (number -> how many events an archive has of it), as far as they ended before `until`, until
    those that may go have `most_events` events; says whether there are more.

    One that has more events stays; fewer it may have, for some may have gone. `below` as of `removable_jobs`.
    """
    number = job.c.job_id
    query = select(job.c.finished_at, number).where(number.in_(list(archived)), job.c.finished_at < until)
    rows: list[Any] = list(connection.execute(query.order_by(job.c.finished_at, number.desc())))
    count = func.count()
    counted = select(event.c.job_id, count).where(event.c.job_id.in_(list(archived))).group_by(event.c.job_id)
    counts: list[Any] = list(connection.execute(counted))
    others = {int(job_id) for job_id, events in counts if int(events) > archived[int(job_id)]}
    places = [JobPlace(float(ended), int(job_id)) for ended, job_id in rows if int(job_id) not in others]
    found = _judged(connection, places, FIRST, until, below, with_events=False, most_events=most_events)
    return found, bool(places) and found.last != places[-1]


def _judged(
    connection: Connection,
    rows: Sequence[JobPlace],
    after: JobPlace,
    until: float,
    below: int,
    *,
    with_events: bool,
    most_events: int,
) -> RemovableJobs:
    if not rows:
        return RemovableJobs([], None, None)
    numbers = {place.job_id for place in rows}
    parents = {array_of(number) for number in numbers if index_of(number)}
    arrays = _ends_of_arrays(connection, parents)
    known = _events_of(connection, numbers | parents, below, most_events)
    held = _held_arrays(
        connection, [each for each, events in known.items() if each in numbers and events.may_go], below
    )
    ids: list[int] = []
    first_kept, last = None, after
    for place in rows:
        if place.job_id not in held and _may_go(place.job_id, known, arrays, until):
            most_events -= known[place.job_id].number if place.job_id in known else 0
            if most_events < 0:
                return RemovableJobs(ids, last, first_kept, None if ids else place)
            if place.job_id in known or not with_events:
                ids.append(place.job_id)
        elif first_kept is None:
            first_kept = place
        last = place
    return RemovableJobs(ids, last, first_kept)


def count_of(connection: Connection, numbers: Iterable[int]) -> int:
    """How many of these jobs are there."""
    query = select(func.count()).select_from(job).where(job.c.job_id.in_(list(numbers)))
    return int(connection.scalar(query) or 0)


def _ended(connection: Connection, after: JobPlace, until: float, most: int) -> list[JobPlace]:
    at, number = job.c.finished_at, job.c.job_id
    behind = or_(at > after.finished_at, and_(at == after.finished_at, number < after.job_id))
    query = select(at, number).where(at >= after.finished_at, at < until, behind)
    rows: list[Any] = list(connection.execute(query.order_by(at, number.desc()).limit(most)))
    return [JobPlace(float(ended), int(job_id)) for ended, job_id in rows]


def _ends_of_arrays(connection: Connection, ids: Iterable[int]) -> dict[int, float | None]:
    """Array -> when its last element was over; None: it is not."""
    query = select(job.c.job_id, job.c.finished_at).where(job.c.job_id.in_(list(ids)))
    rows: list[Any] = list(connection.execute(query))
    return {int(number): at for number, at in rows}


def _events_of(connection: Connection, ids: Iterable[int], below: int, most: int) -> dict[int, _EventsOfJob]:
    """By job, of those that have events and a row: none may have one from `below` on. Counted up to one more than most:
    a job may have a hundred thousand.
    """
    of_job = select(event.c.seq).where(event.c.job_id == job.c.job_id).correlate(job)
    newest = of_job.order_by(event.c.seq.desc()).limit(1)
    beyond = of_job.order_by(event.c.seq).limit(1).offset(most).scalar_subquery()
    forgotten = newest.where(event.c.kind.in_(FORGOTTEN)).scalar_subquery()  # it is one of the last
    first = select(event.c.kind).where(event.c.job_id == job.c.job_id).correlate(job).order_by(event.c.seq).limit(1)
    is_gone = or_(forgotten.is_not(None), first.scalar_subquery().not_in(BEGUN))
    query = select(job.c.job_id, newest.scalar_subquery(), beyond.is_not(None), is_gone)
    rows: list[Any] = list(connection.execute(query.where(job.c.job_id.in_(list(ids)))))
    counted = select(event.c.job_id, func.count()).where(event.c.job_id.in_([row[0] for row in rows if not row[2]]))
    counts = {int(row[0]): int(row[1]) for row in connection.execute(counted.group_by(event.c.job_id))}
    return {
        int(number): _EventsOfJob(counts.get(int(number), most + 1), bool(is_gone) if int(last) < below else None)
        for number, last, _, is_gone in rows
        if last is not None
    }


def _held_arrays(connection: Connection, ids: Sequence[int], below: int) -> set[int]:
    """Those of these jobs that are arrays of which an element has an event from `below` on: it needs the array's."""
    maybe_array = func.coalesce(job.c.traits, ARRAY).op("&")(ARRAY) != 0
    begun = select(job.c.submitted_at).where(job.c.job_id.in_(ids), maybe_array)
    array = job.c.job_id.op("&")(ARRAY_MASK)
    is_late = exists().where(event.c.job_id == job.c.job_id, event.c.seq >= below)
    query = select(array).where(job.c.submitted_at.in_(begun), job.c.job_id > ARRAY_MASK, array.in_(ids), is_late)
    numbers: list[Any] = list(connection.scalars(query.distinct()))
    return {int(number) for number in numbers}


def _may_go(job_id: int, known: dict[int, _EventsOfJob], arrays: dict[int, float | None], until: float) -> bool:
    """`arrays`: those of elements, as far as they have not gone yet."""
    array = array_of(job_id)
    if array == job_id:
        return job_id not in known or known[job_id].may_go is True  # its events went before it did
    end = arrays.get(array, float("-inf"))
    if end is None or end >= until or (job_id in known and known[job_id].may_go is None):
        return False
    return array not in known or known[array].may_go is True
