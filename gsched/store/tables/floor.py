"""From which event on a store must have everything, and since when what is kept: written with each deletion.

Above the floor a number that is missing is damage; below it nothing is expected. It only ever rises.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection, select

from gsched.base.moments import shown_utc
from gsched.store.tables.schema import meta
from gsched.store.tables.statements import insert_rows, upsert

_SEQ, _AT = "floor_seq", "floor_at"
_JOBS, _EVENTS = "jobs_kept_from", "events_kept_from"
_NEXT_JOB_ID = "next_job_id"
_BEGINS = {False: "jobs_looked_at", True: "events_looked_at"}
KEYS = (_SEQ, _AT, _JOBS, _EVENTS)


class Floor(NamedTuple):
    """Times are UTC seconds; 0: everything since the store was made is kept."""

    seq: int = 0
    """The lowest number that must be there, and all after it: that of the oldest checkpoint that is kept."""
    at: float = 0.0
    """When that checkpoint was made: looks at the past begin there."""
    jobs_from: float = 0.0
    """Finished jobs that ended before are gone, as far as nothing has kept them."""
    events_from: float = 0.0
    """Of finished jobs that ended before the events are gone."""

    def why_not(self, at: float) -> str:
        """Why nothing can be said of a time below the floor; empty for one that is not."""
        if at >= self.at:
            return ""
        return f"{shown_utc(at)} is before what is kept: {self.since(self.at)}"

    @staticmethod
    def since(at: float) -> str:
        """The words for what is kept from that time on."""
        return f"history is kept since {shown_utc(at)}; an archive may have it (ghist --archive DIR)"


def floor_in(values: Mapping[str, str]) -> Floor:
    """The floor that the meta table tells of."""
    seq, *times = (values.get(key, "") for key in KEYS)
    return Floor(int(seq) if seq.isdigit() else 0, *map(_time, times))


def read_floor(connection: Connection) -> Floor:
    """Of the store."""
    rows = connection.execute(select(meta.c.key, meta.c.value).where(meta.c.key.in_(KEYS)))
    return floor_in({str(key): str(value) for key, value in rows})


def write_floor(connection: Connection, floor: Floor) -> None:
    """In the transaction that takes away what is below it."""
    times = (floor.at, floor.jobs_from, floor.events_from)
    values = [(_SEQ, str(floor.seq)), *((key, repr(at)) for key, at in zip(KEYS[1:], times, strict=True))]
    insert_rows(connection, upsert(meta), values)


def read_begin(connection: Connection, *, events_only: bool) -> tuple[float, int] | None:
    """Behind which job (when it ended, UTC seconds, and its number) there are any that may go; None: nobody knows."""
    value = connection.scalar(select(meta.c.value).where(meta.c.key == _BEGINS[events_only]))
    at, _, number = str(value or "").partition(" ")
    return (_time(at), int(number)) if number.isdigit() else None


def write_begin(connection: Connection, begin: tuple[float, int], *, events_only: bool) -> None:
    """Jobs before that one have gone, or their events."""
    insert_rows(connection, upsert(meta), [(_BEGINS[events_only], f"{begin[0]!r} {begin[1]}")])


def lower_begins(connection: Connection, begin: tuple[float, int]) -> None:
    """A job is behind that place that may go, and others behind it have gone already."""
    for events_only in _BEGINS:
        there = read_begin(connection, events_only=events_only)
        if there is not None and begin[0] <= there[0]:
            write_begin(connection, begin, events_only=events_only)


def numbers_given_out(connection: Connection) -> int:
    """No job gets a number below this one: rows of removed jobs cannot tell any more. 1: nothing was removed."""
    value = connection.scalar(select(meta.c.value).where(meta.c.key == _NEXT_JOB_ID))
    return int(value) if value is not None and value.isdigit() else 1


def write_numbers_given_out(connection: Connection, next_job_id: int) -> None:
    """Keep what the rows that go told, in the transaction in which they go."""
    if next_job_id > numbers_given_out(connection):
        insert_rows(connection, upsert(meta), [(_NEXT_JOB_ID, str(next_job_id))])


def _time(text: str) -> float:
    with contextlib.suppress(ValueError):
        return float(text)
    return 0.0
