"""What the store has of jobs that are to be archived, as lines, a few jobs at a time; the same lines at each look.

An array and its elements belong together, to the month in which the last of them ended. It only reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec

from gsched.app.stores.blob_references import of_event
from gsched.base.errors import GschedError
from gsched.base.ids import array_of, index_of
from gsched.master.archive.archive_lines import archived_job, event_line, job_line
from gsched.master.past.finished_accounts import accounts_of
from gsched.master.past.job_histories import elements_too
from gsched.model.event import decode_event
from gsched.model.views.catalogue import Account
from gsched.model.views.view import EventRecord
from gsched.store.forgotten_jobs import Ended, ForgottenJobs
from gsched.store.history_queries import History
from gsched.store.tables.batched import batched
from gsched.store.tables.schema import JobRow

JOBS_AT_ONCE = 100
"""Whose events are in memory at a time."""
ENDS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class PartSpan:
    """The jobs of a part: they ended in a time, and their last events are of a span of numbers."""

    since: float
    until: float
    after_event: int
    last_event: int


@dataclass(frozen=True, slots=True)
class JobLines:
    """A job's."""

    row: JobRow
    job: bytes
    records: list[EventRecord]
    """Its events, oldest first."""
    events: list[bytes]


def numbers_of(history: History, store: ForgottenJobs, span: PartSpan) -> Iterator[list[int]]:
    """Numbers of those jobs of a part whose events the store has, some at a time, an array before its elements."""
    for found in _ended(store, span):
        forgotten = store.forgotten(found, span.last_event)
        groups = {number: _members(history, number) for number in found if number in forgotten}
        newest = store.last_events([each for members in groups.values() for each in members])
        yield from batches(
            members
            for members in groups.values()
            if span.after_event < max((newest.get(each, 0) for each in members), default=0) <= span.last_event
        )


def eventless_numbers(store: ForgottenJobs, span: PartSpan) -> Iterator[dict[int, list[int]]]:
    """Jobs and arrays of the month of which the store has let go of all events (EVENT_HISTORY_DAYS), so that they were
    forgotten, though others may have come since: with their elements behind them, some at a time.
    """
    for found in _ended(store, span):
        begun = store.begun(found)
        alone = [number for number in found if number not in begun]
        elements = store.elements_of(alone)
        yield {number: [number, *sorted(elements.get(number, ()), key=index_of)] for number in alone}


def _ended(store: ForgottenJobs, span: PartSpan) -> Iterator[list[int]]:
    after: Ended | None = None
    while ends := store.ended(span.since, span.until, after, ENDS_AT_ONCE):
        after = ends[-1]
        yield [number for _, number in ends]


def batches(groups: Iterable[list[int]]) -> Iterator[list[int]]:
    """The same numbers, some at a time."""
    return batched(chain.from_iterable(groups), JOBS_AT_ONCE)


def _members(history: History, number: int) -> list[int]:
    """The job; of an array its elements behind it, those that there are."""
    ids = list(elements_too(history, (number,)))
    if len(ids) == 1:
        return ids
    return [number, *sorted(history.times_of(ids[1:]), key=index_of)]


def lines_of(history: History, numbers: Sequence[int], last_event: int) -> Iterator[JobLines]:
    """What there is of these jobs up to that event, in their order; of those that are gone nothing."""
    rows = {row.job_id: row for row in history.rows_of(numbers)}
    events: dict[int, list[EventRecord]] = {}
    for record in history.events_of_jobs(rows):
        if record.seq <= last_event:
            events.setdefault(record.job_id, []).append(record)
    accounts = _accounts(history, [rows[number] for number in numbers if number in rows])
    for number in numbers:
        row = rows.get(number)
        if row is not None:
            own = events.get(number, [])
            yield JobLines(
                row,
                job_line(archived_job(row, accounts.get(number), len(own))),
                own,
                [event_line(record) for record in own],
            )


def incomplete(store: ForgottenJobs, lines: Sequence[JobLines]) -> int:
    """Of how many of these jobs, which have events, the store may have let go of others before they were read."""
    with_events = [each.row.job_id for each in lines if each.records]
    halves = store.half_removed()  # before the others: what was a half then, and is gone now, has no first event
    begun = store.begun({*with_events, *map(array_of, with_events)})
    return sum(each in halves or not begun & {each, array_of(each)} for each in with_events)


def _accounts(history: History, rows: Sequence[JobRow]) -> dict[int, Account]:
    """Of arrays none: they stand for elements that have none of their own."""
    of_jobs = {row.job_id for row in rows}
    return {each.job_id: each for each in accounts_of(history, rows) if each.job_id in of_jobs}


def contents_of(events: Iterable[EventRecord]) -> Iterator[str]:
    """Names of the scripts, environments and attachments that these events name."""
    for record in events:
        try:
            references = list(of_event(decode_event(record.payload.encode())))
        except (msgspec.MsgspecError, ValueError, GschedError):
            continue
        yield from (name for name, _ in references)
