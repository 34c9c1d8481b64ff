"""The read side: committed records only, on connections that cannot write and never hold the writer up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, literal, or_, select
from sqlalchemy.exc import DBAPIError

from gsched.base.errors import NotFound, Unavailable
from gsched.model.catalogue import AccountFilter, Span
from gsched.model.job import FINISHED
from gsched.model.view import EventRecord, JobFilter
from gsched.store.failure import error_text
from gsched.store.migrations import check_version, schema_version
from gsched.store.records import StoredEvent, select_events, stored
from gsched.store.schema import JobRow, event, job
from gsched.store.sqlite import reader_engine, store_path

ARRAY_MASK = 0xFFFF_FFFF
"""The bits of an element's number that are the array's (gsched.base.ids)."""
_IDS_PER_QUERY = 5_000
"""SQLite takes at most 32,766 values in one statement."""


class History:
    """Queries of one store, from any thread, also while a master writes it.

    Raises NotFound when there is no such store, Conflict when the file is something else or of a newer gsched.
    """

    def __init__(self, url_or_path: str | Path) -> None:
        self.path = store_path(url_or_path)
        if not self.path.is_file():
            raise NotFound(f"there is no store {self.path}")
        self._engine = reader_engine(self.path)
        try:
            with self._engine.connect() as connection:
                version = schema_version(connection, str(self.path))
        except DBAPIError as error:
            self._engine.dispose()
            raise NotFound(f"{self.path} cannot be read as a store: {error_text(error)}") from error
        if version == 0:
            self._engine.dispose()
            raise NotFound(f"there is no store {self.path}: the database is empty")
        check_version(version, str(self.path))

    def last_seq(self) -> int:
        """Number of the newest committed event; 0 when there is none."""
        return int(self._rows(select(func.max(event.c.seq)))[0][0] or 0)

    def events_of(self, job_id: int) -> list[EventRecord]:
        """All events of a job, oldest first; empty for a job that never was."""
        return [_record(stored(row)) for row in self._rows(select_events().where(event.c.job_id == job_id))]

    def events_after(self, seq: int, limit: int) -> list[EventRecord]:
        """At most `limit` events with a number greater than `seq`, oldest first."""
        return [_record(stored(row)) for row in self._rows(select_events().where(event.c.seq > seq).limit(limit))]

    def find_jobs(self, wanted: JobFilter, limit: int, below: int | None = None) -> list[JobRow]:
        """The newest `limit` jobs that `wanted` describes, by ascending number; with `below` only smaller numbers.

        Finished jobs belong to the answer only if asked for: by `finished`, by their number or by their state. How long
        ago a job finished makes no difference here.
        """
        found: list[JobRow] = []
        for condition in _id_conditions(wanted.ids):
            query = select(job).where(*condition, *_conditions(wanted)).order_by(job.c.job_id.desc())
            if below is not None:
                query = query.where(job.c.job_id < below)
            found += [JobRow(**row._mapping) for row in self._rows(query.limit(limit - len(found)))]
            if len(found) >= limit:
                break
        return found[::-1]

    def elements_of(self, array_id: int, limit: int) -> list[JobRow]:
        """Rows of the newest `limit` elements of an array that have been jobs of their own, by ascending number."""
        is_element = job.c.job_id.op("&")(ARRAY_MASK) == array_id
        query = select(job).where(is_element, job.c.job_id > ARRAY_MASK).order_by(job.c.job_id.desc()).limit(limit)
        return [JobRow(**row._mapping) for row in self._rows(query)][::-1]

    def finished_jobs(self, wanted: AccountFilter, after: int, limit: int) -> list[JobRow]:
        """At most `limit` finished jobs with a number greater than `after` that `wanted` describes, by number.

        The row of an array stands for its elements that were never started; it counts once none of them waits any more.
        """
        conditions = [job.c.job_id > after, *_account_conditions(wanted)]
        query = select(job).where(*conditions).order_by(job.c.job_id).limit(limit)
        return [JobRow(**row._mapping) for row in self._rows(query)]

    def events_of_jobs(self, job_ids: Iterable[int], kinds: Iterable[str]) -> list[EventRecord]:
        """Events of these kinds of all the jobs, oldest first."""
        found: list[EventRecord] = []
        ids = sorted(set(job_ids))
        for start in range(0, len(ids), _IDS_PER_QUERY):
            part = event.c.job_id.in_(ids[start : start + _IDS_PER_QUERY])
            query = select_events().where(part, event.c.kind.in_(list(kinds)))
            found += [_record(stored(row)) for row in self._rows(query)]
        return sorted(found, key=lambda record: record.seq)

    def events_of_no_job(self, at: Span) -> list[EventRecord]:
        """What was done to hosts, queues and the rest of the cluster in that time, oldest first."""
        query = select_events().where(event.c.job_id.is_(None), *_within(event.c.at, at))
        return [_record(stored(row)) for row in self._rows(query)]

    def _rows(self, query: Select[Any]) -> list[Any]:
        """All rows at once: a result that is read slowly would keep the write-ahead log from being reused."""
        try:
            with self._engine.connect() as connection:
                return list(connection.execute(query))
        except DBAPIError as error:
            raise Unavailable(f"the store {self.path} cannot be read: {error_text(error)}") from error

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._engine.dispose()


def _record(entry: StoredEvent) -> EventRecord:
    text = entry.payload.decode("utf-8", "replace")
    return EventRecord(seq=entry.seq, at=entry.at, kind=entry.kind, job_id=entry.job_id or 0, payload=text)


def _id_conditions(ids: tuple[int, ...]) -> Iterator[list[ColumnElement[bool]]]:
    """Conditions to be asked one after the other, highest numbers first."""
    if not ids:
        yield []
    ordered = sorted(set(ids), reverse=True)
    for start in range(0, len(ordered), _IDS_PER_QUERY):
        yield [job.c.job_id.in_(ordered[start : start + _IDS_PER_QUERY])]


def _conditions(wanted: JobFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.user not in ("", "all"):
        conditions.append(job.c.user == wanted.user)
    if wanted.queue:
        conditions.append(job.c.queue == wanted.queue)
    if wanted.project:
        conditions.append(job.c.project == wanted.project)
    if wanted.host:
        # A job on several hosts is found by each of them.
        hosts = literal(" ") + job.c.host + literal(" ")
        conditions.append(or_(job.c.host == wanted.host, hosts.contains(f" {wanted.host} ", autoescape=True)))
    if wanted.name:
        conditions.append(_name_matches(wanted.name))
    if wanted.states:
        conditions.append(job.c.state.in_(wanted.states))
    elif not wanted.finished and not wanted.ids:
        conditions.append(job.c.state.not_in(sorted(FINISHED)))
    return conditions


def _account_conditions(wanted: AccountFilter) -> Iterator[ColumnElement[bool]]:
    yield job.c.state.in_(wanted.states or sorted(FINISHED))
    if wanted.ids:
        # An array's number means its elements too.
        yield or_(job.c.job_id.in_(wanted.ids), job.c.job_id.op("&")(ARRAY_MASK).in_(wanted.ids))
    for column, names in ((job.c.user, wanted.users), (job.c.queue, wanted.queues), (job.c.project, wanted.projects)):
        if names:
            yield column.in_(names)
    if wanted.hosts:
        hosts = literal(" ") + job.c.host + literal(" ")
        yield or_(*(hosts.contains(f" {name} ", autoescape=True) for name in wanted.hosts))
    yield from _within(job.c.submitted_at, wanted.submitted)
    yield from _within(job.c.dispatched_at, wanted.dispatched)
    completed = _within(job.c.finished_at, wanted.completed)
    if completed:
        # An array whose other elements still run has no end yet, its elements that were never started have.
        yield or_(job.c.finished_at.is_(None), and_(*completed))


def _within(column: ColumnElement[Any], span: Span) -> list[ColumnElement[bool]]:
    found = [column >= span.since] if span.since is not None else []
    # Times are typed to the second or minute: what happened within that second is meant.
    return found + ([column < math.floor(span.until) + 1] if span.until is not None else [])


def _name_matches(pattern: str) -> ColumnElement[bool]:
    """`*` stands for any characters; everything else for itself, upper and lower case told apart.

    The name of an array means its elements too, which are called `name[3]`.
    """
    escaped = pattern.replace("/", "//").replace("%", "/%").replace("_", "/_").replace("*", "%")
    of_element = and_(job.c.job_id > ARRAY_MASK, job.c.name.like(escaped + "[%]", escape="/"))
    if "*" not in pattern:
        return or_(job.c.name == pattern, of_element)
    return or_(job.c.name.like(escaped, escape="/"), of_element)
