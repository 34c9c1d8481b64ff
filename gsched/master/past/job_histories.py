"""Which stored events make the history of a job: an element of an array begins with what happened to the whole array.

Runs in the process that reads for the master (gsched.master.past); it only reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice

import msgspec

from gsched.base.ids import array_of, element_id, index_of, job_order
from gsched.base.indices import Indices
from gsched.core.records.array import indices_of
from gsched.master.past.recorded_elsewhere import newest_told, told
from gsched.model.event import (
    GPU_CURVES,
    ArrayElementsFinished,
    ArrayElementsRequeued,
    JobModified,
    JobSubmitted,
    JobSwitched,
    decode_event,
)
from gsched.model.jobs.job import JobSpec
from gsched.model.views.element_names import split_name
from gsched.model.views.past_query import HistoryQuery, JobTimes
from gsched.model.views.view import EventRecord, JobHistory
from gsched.store.history_queries import History, Times
from gsched.store.tables.schema import ARRAY

JOBS_PER_PAGE = 100
BRIEF_PER_PAGE = 2_000
CURVES_PER_PAGE = 20
"""Jobs with what they made of their GPUs over time."""
MOST_CURVE_CHARACTERS = 16 << 20
"""Of one job: its history must fit into a message. Of a job with more those of its last attempts and hosts are told."""
StoredTimes = JobHistory | JobTimes
_WITH_SPEC = ("job_submitted", "job_modified", "job_switched")


class Histories:
    """Reads the histories that one question asks for, of `most` jobs at most: those submitted last."""

    def __init__(self, store: History, most: int) -> None:
        self._store = store
        self._most = most
        self.cut_at: float | None = None
        """When there are more: the time of submission of the oldest job that was looked at."""
        self._array = 0
        self._array_events: list[EventRecord] = []
        self._unstarted: set[int] = set()
        """Elements that are told of though they have no row of their own."""
        self._rows: dict[int, Times] | None = None
        """Of the jobs found, when they could be read at once."""
        self._is_regular: dict[int, bool] = {}
        """Arrays that were looked at: whether nothing happened to them but their submission."""

    def read(self, wanted: HistoryQuery) -> Iterator[list[StoredTimes]]:
        """Histories by ascending number, page by page; elements of arrays behind the record of those that have not
        started. `cut_at` is set when the first page comes.
        """
        numbers = self._numbers(wanted)
        size = BRIEF_PER_PAGE if _is_brief(wanted) else CURVES_PER_PAGE if wanted.with_curves else JOBS_PER_PAGE
        for start in range(0, len(numbers), size):
            yield list(self._page(numbers[start : start + size], wanted))

    def _numbers(self, wanted: HistoryQuery) -> list[int]:
        """Of the jobs that the question is about, in order."""
        indices, name = split_name(wanted.jobs.name)
        ids = tuple(elements_too(self._store, wanted.jobs.ids))
        jobs = msgspec.structs.replace(wanted.jobs, name=name, ids=ids)
        found = self._newest(msgspec.structs.replace(wanted, jobs=jobs))
        if len(found) > self._most:
            found.pop()
            self.cut_at = found[-1][1]
        numbers = {job_id for job_id, _ in found}
        if indices is not None:
            arrays = [job_id for job_id in numbers if not index_of(job_id)]
            numbers = {job_id for job_id in numbers if index_of(job_id) in indices}
            for job_id in sorted(arrays, reverse=True):
                self._unstarted.update(self._in_record(job_id, indices))
        for job_id in wanted.jobs.ids:
            if index_of(job_id) and job_id not in numbers and self._is_element(job_id):
                self._unstarted.add(job_id)
        return sorted(numbers | self._unstarted, key=job_order)

    def _newest(self, wanted: HistoryQuery) -> list[tuple[int, float]]:
        """Numbers and times of submission, one more than `most` when there are more."""
        rows = self._store.newest_times(wanted, self._most + 1)
        if rows is None:
            return self._store.newest(wanted, self._most + 1)
        self._rows = {row[0]: row for row in rows}
        return [(row[0], row[4]) for row in rows]

    def _rows_of(self, numbers: Sequence[int]) -> Mapping[int, Times]:
        if self._rows is None:
            return self._store.times_of(numbers)
        return {job_id: self._rows[job_id] for job_id in numbers if job_id in self._rows}

    def _page(self, numbers: Sequence[int], wanted: HistoryQuery) -> Iterator[StoredTimes]:
        rows = self._rows_of(numbers)
        brief = self._told_by_times(rows) if _is_brief(wanted) else set()
        at_length = [job_id for job_id in numbers if job_id not in brief]
        own: dict[int, list[EventRecord]] = {}
        without = "" if wanted.with_curves else GPU_CURVES
        for record in told(self._store.events_of_jobs(at_length, without=without)):
            own.setdefault(record.job_id, []).append(record)
        for job_id in numbers:
            if job_id in brief:
                _, user, name, _, submitted_at, dispatched_at, finished_at, _ = rows[job_id]
                yield JobTimes(job_id, user, name, submitted_at, dispatched_at, finished_at)
                continue
            row = rows.get(job_id)
            if row is None and job_id not in self._unstarted:
                continue  # the store was pruned meanwhile
            # The row of an array whose elements have all become jobs has no state.
            if row is None or row[3] or index_of(job_id):
                events = self._events(job_id, _bounded(own.get(job_id, [])))
                # Without events there is a row alone: what happened to the job is no longer kept.
                is_judged = row is not None and row[-1] is not None and not wanted.jobs.service_class
                if events and (is_judged or _is_meant(events, wanted)):
                    yield JobHistory(job_id=job_id, events=events)

    def _told_by_times(self, rows: Mapping[int, Times]) -> set[int]:
        """The jobs among them that only waited and ran; what happened to an array counts for its elements."""
        plain = {job_id for job_id, row in rows.items() if row[-1] == 0}
        elements = [job_id for job_id in plain if index_of(job_id)]
        new = {array_of(job_id) for job_id in elements} - self._is_regular.keys()
        self._is_regular.update(dict.fromkeys(new, False))
        self._is_regular.update((array, row[-1] == ARRAY) for array, row in self._store.times_of(new).items())
        return plain.difference(job_id for job_id in elements if not self._is_regular[array_of(job_id)])

    def _events(self, job_id: int, own: Sequence[EventRecord]) -> tuple[EventRecord, ...]:
        if not index_of(job_id):
            return tuple(own)
        return element_events(list(told(self._events_of_array(array_of(job_id)))), own, index_of(job_id))

    def _in_record(self, array_id: int, indices: Indices) -> Iterator[int]:
        """Elements with these indices that have not been jobs of their own, as long as the array's row has such."""
        own = self._indices(array_id)
        row = self._store.times_of([array_id]).get(array_id)
        if own and row is not None and row[3]:
            ids = [element_id(array_id, index) for index in indices_of(own) if index in indices]
            started = self._store.times_of(ids)
            yield from islice((each for each in ids if each not in started), self._most)

    def _is_element(self, job_id: int) -> bool:
        indices = self._indices(array_of(job_id))
        return bool(indices) and index_of(job_id) in indices_of(indices)

    def _events_of_array(self, array_id: int) -> list[EventRecord]:
        if array_id != self._array:
            self._array, self._array_events = array_id, self._store.events_of(array_id)
        return self._array_events

    def _indices(self, array_id: int) -> str:
        return spec_indices(newest_told(self._events_of_array(array_id)))


def elements_too(store: History, ids: Sequence[int]) -> Iterator[int]:
    """The numbers, and of arrays all that their elements could have."""
    for job_id in ids:
        yield job_id
        if not index_of(job_id) and (indices := spec_indices(newest_told(store.events_of(job_id)))):
            yield from (element_id(job_id, index) for index in indices_of(indices))


def _is_brief(wanted: HistoryQuery) -> bool:
    """Whether rows tell enough of jobs that only waited and ran: of a service class only submissions tell."""
    return wanted.brief and not wanted.jobs.service_class


def _is_meant(events: Sequence[EventRecord], wanted: HistoryQuery) -> bool:
    """Whether a job of whose submission the row does not tell everything is one of those that are wanted."""
    jobs, group = wanted.jobs, wanted.jobs.group.rstrip("/")
    if not (jobs.application or group or wanted.description or jobs.service_class):
        return True
    spec = _last_spec(events)
    if spec is None:
        return False
    if (group and spec.group.rstrip("/") != group) or jobs.application not in ("", spec.application):
        return False
    if jobs.service_class not in ("", spec.service_class):
        return False
    pattern = wanted.description.replace("[", "[[]").replace("?", "[?]")
    return not pattern or fnmatchcase(spec.description, pattern)


def element_events(of_array: Sequence[EventRecord], own: Sequence[EventRecord], index: int) -> tuple[EventRecord, ...]:
    """The events of an element: the array's up to its first own one, in order."""
    first = own[0].seq if own else math.inf
    shared = [record for record in of_array if record.seq < first and _concerns(record, index)]
    return (*shared, *own)


def _bounded(events: Sequence[EventRecord]) -> list[EventRecord]:
    """Without those of the oldest curves that are too much."""
    left, kept = MOST_CURVE_CHARACTERS, list[EventRecord]()
    for record in reversed(events):
        if record.kind == GPU_CURVES:
            left -= len(record.payload)
            if left < 0:
                continue
        kept.append(record)
    return kept[::-1]


def _concerns(record: EventRecord, index: int) -> bool:
    if record.kind not in ("array_elements_finished", "array_elements_requeued"):
        return True
    event = _read(record)
    return isinstance(event, ArrayElementsFinished | ArrayElementsRequeued) and index in indices_of(event.indices)


def spec_indices(events: Sequence[EventRecord]) -> str:
    """The indices of the array whose events these are; empty for a job that is none."""
    spec = _last_spec(events)
    return spec.indices if spec is not None else ""


def _last_spec(events: Sequence[EventRecord]) -> JobSpec | None:
    for record in reversed(events):
        if record.kind in _WITH_SPEC:
            event = _read(record)
            if isinstance(event, JobSubmitted | JobModified | JobSwitched):
                return event.spec
    return None


def _read(record: EventRecord) -> object:
    try:
        return decode_event(record.payload.encode())
    except (msgspec.MsgspecError, ValueError):
        return None


def is_followed(job_id: int, wanted: frozenset[int]) -> bool:
    """Whether somebody who follows these numbers is told of the job: an array's number means its elements too."""
    return not wanted or job_id in wanted or array_of(job_id) in wanted
