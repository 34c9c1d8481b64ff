"""The read side: committed records only, on connections that cannot write and never hold the writer up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

from sqlalchemy import Select, TextClause, case, func, select, text
from sqlalchemy.exc import DBAPIError

from gsched.base.errors import NotFound, Unavailable
from gsched.base.ids import array_of
from gsched.model.views.catalogue import AccountFilter, TimeSpan
from gsched.model.views.past_query import HistoryQuery
from gsched.model.views.start_estimate import StartEstimate, first_said
from gsched.model.views.view import EventRecord
from gsched.store.safeguards.failure import error_text
from gsched.store.safeguards.read_failure import unavailable
from gsched.store.safeguards.server_failure import is_passing
from gsched.store.tables.estimates import first_estimate
from gsched.store.tables.floor import Floor, read_floor
from gsched.store.tables.migrations import check_version, schema_version
from gsched.store.tables.records import StoredEvent, select_events, stored
from gsched.store.tables.schema import IRREGULAR, JobRow, event, job, start_estimate
from gsched.store.tables.selection import (
    QueryPart,
    do_not_tell_of_gpus,
    of_accounts,
    of_histories,
    parts_of_accounts,
    parts_of_histories,
    tell_all_of_gpus,
    within,
)
from gsched.store.tables.sources import open_source

_IDS_PER_QUERY = 5_000
"""SQLite takes at most 32,766 values in one statement."""

AT_ONCE = 100_000
"""Rows that are read whole in one go; of more jobs the numbers are found first, and their rows page by page."""

Times = tuple[int, str, str, str, float, float | None, float | None, int | None]
"""Number, user, name, state, submitted_at, dispatched_at, finished_at, traits of a row."""
_Known = float | None
Costs = tuple[int, str, float, _Known, _Known, _Known, _Known, _Known, _Known, _Known, int | None]
"""Number, state, submitted_at, dispatched_at, finished_at, cpu_s, gpus, gpu_seen_s, gpu_busy_s, gpu_energy_j, traits of
a row.
"""
GpuSum = tuple[str, int, float, float, float, float, int, int]
"""Name, jobs, GPU seconds held, known, busy; joules; jobs of which the use is known, and of which the energy is."""
StartTimes = tuple[int, str, str, float | None, float, float]
"""Number, user, queue, gpus, submitted_at, dispatched_at of a row."""
WITH_ESTIMATES = 7
"""Stores of this version and later keep what was said of starts."""
_TIMES = ("job_id", "user", "name", "state", "submitted_at", "dispatched_at", "finished_at", "traits")
_COSTS = (
    *("job_id", "state", "submitted_at", "dispatched_at", "finished_at", "cpu_s", "gpus", "gpu_seen_s", "gpu_busy_s"),
    *("gpu_energy_j", "traits"),
)


class History:
    """Queries of one store, from any thread, also while a master writes it.

    Raises NotFound when there is no such store, Unavailable when its server does not answer, Conflict when it is
    something else or of a newer gsched.
    """

    def __init__(self, place: str | Path) -> None:
        source = open_source(place)
        self.place, self.name, self._engine = source.place, source.name, source.engine
        assert self._engine.dialect.dbapi is not None
        self._driver_error = self._engine.dialect.dbapi.Error
        try:
            with self._engine.connect() as connection:
                version = schema_version(connection, self.name)
        except DBAPIError as error:
            self._engine.dispose()
            text = f"{self.name} cannot be read as a store: {error_text(error)}"
            is_away = self._engine.dialect.name == "postgresql" and is_passing(error)
            raise (Unavailable(text) if is_away else NotFound(text)) from error
        self._version = version
        if version == 0:
            self._engine.dispose()
            raise NotFound(f"there is no store {self.name}: the database is empty")
        check_version(version, self.name)

    def last_seq(self) -> int:
        """Number of the newest committed event; 0 when there is none."""
        return int(self._rows(select(func.max(event.c.seq)))[0][0] or 0)

    def floor(self) -> Floor:
        """From which event on everything is there, and since when what is kept."""
        with unavailable(self.name), self._engine.connect() as connection:
            return read_floor(connection)

    def events_of(self, job_id: int) -> list[EventRecord]:
        """All events of a job, oldest first; empty for a job that never was."""
        return [_record(stored(row)) for row in self._rows(select_events().where(event.c.job_id == job_id))]

    def events_after(self, seq: int, limit: int) -> list[EventRecord]:
        """At most `limit` events with a number greater than `seq`, oldest first."""
        return [_record(stored(row)) for row in self._rows(select_events().where(event.c.seq > seq).limit(limit))]

    def newest(self, wanted: HistoryQuery, most: int) -> list[tuple[int, float]]:
        """(number, time of submission) of the jobs that `wanted` describes, newest submission first, `most` of them.

        Finished jobs belong to the answer only if asked for: by `finished`, by their number or by their state. How long
        ago a job finished makes no difference here.
        """
        found = self._newest(("job_id", "submitted_at"), wanted, most)
        found.sort(key=itemgetter(1, 0), reverse=True)
        return found[:most]

    def newest_times(self, wanted: HistoryQuery, most: int) -> list[Times] | None:
        """The same jobs with some of their rows; None when there are more than can be read AT_ONCE."""
        found: list[Times] = self._newest(_TIMES, wanted, min(most, AT_ONCE + 1))
        if most > AT_ONCE < len(found):
            return None
        found.sort(key=itemgetter(4, 0), reverse=True)
        return found[:most]

    def _newest(self, columns: Iterable[str], wanted: HistoryQuery, most: int) -> list[Any]:
        """Rows of `most` jobs of each part of the question."""
        query = select(*map(job.c.__getitem__, columns)).where(*of_histories(wanted))
        query = query.order_by(job.c.submitted_at.desc(), job.c.job_id.desc()).limit(most)
        return self._of_parts(query, parts_of_histories(wanted), wanted.jobs.ids)

    def accounted(self, wanted: AccountFilter, most: int | None = None) -> list[int]:
        """Numbers of the finished jobs that `wanted` describes, ascending; about `most` of them, whichever they are.

        The row of an array stands for its elements that were never started; it counts once none of them waits any more.
        """
        query = select(job.c.job_id).where(*of_accounts(wanted)).limit(most)
        found = self._of_parts(query, parts_of_accounts(wanted), wanted.ids, most=0 if most is None else most)
        return sorted(row[0] for row in found)

    def accounted_costs(self, wanted: AccountFilter) -> list[Costs] | None:
        """The same jobs with some of their rows; None when there are more than can be read AT_ONCE."""
        query = select(*map(job.c.__getitem__, _COSTS)).where(*of_accounts(wanted)).limit(AT_ONCE + 1)
        found = self._of_parts(query, parts_of_accounts(wanted), wanted.ids, most=AT_ONCE)
        return None if len(found) > AT_ONCE else sorted(found, key=itemgetter(0))

    def gpu_sums(self, wanted: AccountFilter, by: str) -> list[GpuSum]:
        """What the jobs with GPUs that `wanted` describes made of them, added up by `by`, a column: of all those whose
        rows tell everything. `wanted.completed` must have both sides.
        """
        ran_s = job.c.finished_at - job.c.dispatched_at
        sums = (
            func.count(),
            func.sum(case((ran_s > 0.0, job.c.gpus * ran_s), else_=0.0)),
            func.sum(job.c.gpu_seen_s),
            func.sum(job.c.gpu_busy_s),
            func.coalesce(func.sum(job.c.gpu_energy_j), 0.0),
            func.sum(case((job.c.gpu_seen_s > 0.0, 1), else_=0)),
            func.count(job.c.gpu_energy_j),
        )
        query = select(job.c[by], *sums).where(*of_accounts(wanted), *tell_all_of_gpus()).group_by(job.c[by])
        return [tuple(row) for row in self._tuples(_asking(query, parts_of_accounts(wanted)[0], []))]

    def gpus_untold(self, wanted: AccountFilter) -> list[int]:
        """Numbers of the other jobs that may have had GPUs: only their events tell. Ascending."""
        query = select(job.c.job_id).where(*of_accounts(wanted), *do_not_tell_of_gpus())
        return sorted(row[0] for row in self._tuples(_asking(query, parts_of_accounts(wanted)[0], [])))

    def _of_parts(
        self, query: Select[Any], parts: Iterable[QueryPart], ids: tuple[int, ...], most: int = 0
    ) -> list[Any]:
        """What is found by all parts of a question; with `most` no further part is asked once there are more."""
        found: list[Any] = []
        for part in parts:
            for numbers in _id_conditions(ids):
                found += self._tuples(_asking(query, part, numbers))
                if most and len(found) > most:
                    return found
        return found

    def rows_of(self, ids: Iterable[int]) -> list[JobRow]:
        """The rows that there are of these jobs, in any order."""
        found: list[JobRow] = []
        for numbers in _id_conditions(tuple(ids), none_is_all=False):
            found += [JobRow(**row._mapping) for row in self._rows(select(job).where(*numbers))]
        return found

    def times_of(self, ids: Iterable[int]) -> dict[int, Times]:
        """Some of each of these jobs' rows: for many of them."""
        return self._by_number(_TIMES, ids)

    def numbers(self) -> list[int]:
        """Of all jobs that have a row."""
        return [int(row[0]) for row in self._tuples(select(job.c.job_id))]

    def traits_of(self, ids: Iterable[int]) -> dict[int, int | None]:
        """What happened to each of these jobs besides waiting and running, as far as its row tells."""
        return {number: row[1] for number, row in self._by_number(("job_id", "traits"), ids).items()}

    def costs_of(self, ids: Iterable[int]) -> dict[int, Costs]:
        """Some of each of these jobs' rows: for many of them."""
        return self._by_number(_COSTS, ids)

    def told_of(self, ids: Iterable[int]) -> dict[int, StartEstimate]:
        """What was said first of the starts of these jobs and arrays, as far as something was. Empty where the store
        has not been opened by a master that keeps it.
        """
        if self._version < WITH_ESTIMATES:
            return {}
        said: dict[int, list[StartEstimate]] = {}
        ordered = sorted(set(ids))
        for start in range(0, len(ordered), _IDS_PER_QUERY):
            numbers = ", ".join(map(str, ordered[start : start + _IDS_PER_QUERY]))
            query = select(start_estimate).where(text(f"start_estimate.job_id IN ({numbers})"))
            for row in self._tuples(query.order_by(start_estimate.c.job_id, start_estimate.c.at)):
                each = StartEstimate(**dict(zip(StartEstimate.__struct_fields__, row, strict=True)))
                said.setdefault(each.job_id, []).append(each)
        return {number: found for number, each in said.items() if (found := first_said(each)) is not None}

    def newest_starts(self, most: int) -> list[StartTimes]:
        """Jobs that have started, the newest first, as far as their rows tell all of how long they waited: where what
        was said of starts is kept, those that waited for a place alone.
        """
        columns = ("job_id", "user", "queue", "gpus", "submitted_at", "dispatched_at")
        query = select(*map(job.c.__getitem__, columns)).where(job.c.dispatched_at.is_not(None))
        query = query.where(func.coalesce(job.c.traits, 0).op("&")(IRREGULAR) == 0)
        found: list[StartTimes] = self._tuples(query.order_by(job.c.dispatched_at.desc()).limit(most))
        since = self._estimated_since()
        if since is None:
            return found
        told = self.told_of({array_of(row[0]) for row in found})
        return [row for row in found if row[4] < since or array_of(row[0]) in told]

    def _estimated_since(self) -> float | None:
        """When something was said first."""
        if self._version < WITH_ESTIMATES:
            return None
        rows = self._tuples(first_estimate(self._engine.dialect))
        return float(rows[0][0]) if rows else None

    def _by_number(self, columns: Iterable[str], ids: Iterable[int]) -> dict[int, Any]:
        query = select(*map(job.c.__getitem__, columns))
        found: dict[int, Any] = {}
        for numbers in _id_conditions(tuple(ids), none_is_all=False):
            found.update((row[0], row) for row in self._tuples(query.where(*numbers)))
        return found

    def events_of_jobs(
        self, job_ids: Iterable[int], kinds: Iterable[str] | None = None, without: str = ""
    ) -> list[EventRecord]:
        """Events of all the jobs, oldest first; with `kinds` only of these. `without`: a kind that is left out."""
        found: list[EventRecord] = []
        ids = sorted(set(job_ids))
        for start in range(0, len(ids), _IDS_PER_QUERY):
            part = text(f"event.job_id IN ({', '.join(map(str, ids[start : start + _IDS_PER_QUERY]))})")
            query = select_events().where(part)
            if kinds is not None:
                query = query.where(event.c.kind.in_(list(kinds)))
            if without:
                query = query.where(event.c.kind != without)
            found += [_record(stored(row)) for row in self._rows(query)]
        return sorted(found, key=lambda record: record.seq)

    def events_of_no_job(self, at: TimeSpan) -> list[EventRecord]:
        """What was done to hosts, queues and the rest of the cluster in that time, oldest first."""
        query = select_events().where(event.c.job_id.is_(None), *within(event.c.at, at))
        return [_record(stored(row)) for row in self._rows(query)]

    def _rows(self, query: Select[Any]) -> list[Any]:
        """All rows at once: a result that is read slowly would keep the write-ahead log from being reused."""
        with unavailable(self.name), self._engine.connect() as connection:
            return list(connection.execute(query).all())

    def _tuples(self, query: Select[Any]) -> list[Any]:
        """The same as the driver gives them: SQLAlchemy's rows cost as much as SQLite itself."""
        try:
            with unavailable(self.name), self._engine.connect() as connection:
                return list(connection.execute(query).cursor.fetchall())
        except self._driver_error as error:
            raise Unavailable(f"the store {self.name} cannot be read: {error}") from error

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._engine.dispose()


def _record(entry: StoredEvent) -> EventRecord:
    text = entry.payload.decode("utf-8", "replace")
    return EventRecord(seq=entry.seq, at=entry.at, kind=entry.kind, job_id=entry.job_id or 0, payload=text)


def _asking(query: Select[Any], part: QueryPart, numbers: list[TextClause]) -> Select[Any]:
    query = query.where(*part.conditions, *numbers)
    return query.execution_options(indexed_by=(job.name, part.by)) if part.by else query


def _id_conditions(ids: tuple[int, ...], *, none_is_all: bool = True) -> Iterator[list[TextClause]]:
    """Conditions to be asked one after the other."""
    if not ids and none_is_all:
        yield []
    ordered = sorted(set(ids), reverse=True)
    for start in range(0, len(ordered), _IDS_PER_QUERY):
        # Whole numbers, written out: thousands of parameters take longer to bind than their rows to read.
        yield [text(f"job.job_id IN ({', '.join(map(str, ordered[start : start + _IDS_PER_QUERY]))})")]
