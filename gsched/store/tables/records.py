"""Stored events as they come out of the table, in order and without surprises. Nothing is decoded here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Engine, LargeBinary, Select, cast, select

from gsched.model.event import PAST_JOB, JobForgotten, JobSubmitted
from gsched.store.packing.packed_events import unpack_event
from gsched.store.tables.schema import event

PAGE = 5_000
FORGOTTEN = (str(JobForgotten.__struct_config__.tag), PAST_JOB)
"""Kinds of events after which no engine knows the job; those of other batch systems none ever knew."""
BEGUN = (str(JobSubmitted.__struct_config__.tag), PAST_JOB)
"""Kinds of the first event of a job or an array. It is the last to go: where it is gone all that was there is gone."""


class StoredEvent(NamedTuple):
    """One row of the log. `payload` is the event's JSON; empty when the row holds nothing of the kind."""

    seq: int
    at: float
    kind: str
    job_id: int | None
    payload: bytes


def select_events() -> Select[Any]:
    """All columns of the log, oldest first. The cast makes bytes of a payload that somebody repaired as text."""
    payload = cast(event.c.payload, LargeBinary)
    return select(event.c.seq, event.c.at, event.c.kind, event.c.job_id, payload).order_by(event.c.seq)


def stored(row: Sequence[Any]) -> StoredEvent:
    """The row with every value of its column's type: SQLite itself would keep any value in any column."""
    seq, at, kind, job_id, payload = row
    if type(at) is not float:
        at = float(at) if isinstance(at, int) else 0.0
    if type(job_id) is not int:
        job_id = None
    return StoredEvent(seq, at, str(kind), job_id, unpack_event(payload or b""))


def stream_events(engine: Engine, after_seq: int) -> Iterator[StoredEvent]:
    """Events with a greater number than `after_seq`, in order, read in pages.

    Between pages no read transaction is open, so a slow consumer does not keep the write-ahead log from being reused.
    """
    last = after_seq
    while True:
        with engine.connect() as connection:
            rows: list[Any] = list(connection.execute(select_events().where(event.c.seq > last).limit(PAGE)))
        for row in rows:
            yield stored(row)
        if len(rows) < PAGE:
            return
        last = rows[-1][0]
