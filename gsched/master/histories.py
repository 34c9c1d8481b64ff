"""Which stored events make the history of a job: an element of an array begins with what happened to the whole array.

Runs in a thread of its own beside the RPC loop; it only reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from gsched.base.ids import array_of, element_id, index_of
from gsched.base.indices import Indices
from gsched.core.array import indices_of
from gsched.master.listing import split_name
from gsched.model.event import (
    ArrayElementsFinished,
    ArrayElementsRequeued,
    JobModified,
    JobSubmitted,
    JobSwitched,
    decode_event,
)
from gsched.model.job import JobSpec
from gsched.model.view import EventRecord, JobFilter, JobHistory
from gsched.store.history import History
from gsched.store.schema import JobRow

_WITH_SPEC = ("job_submitted", "job_modified", "job_switched")


class Histories:
    """Reads the histories that one query asks for."""

    def __init__(self, store: History, limit: int) -> None:
        self._store = store
        self._limit = limit
        self._array = 0
        self._array_events: list[EventRecord] = []

    def read(self, wanted: JobFilter) -> Iterator[JobHistory]:
        """Histories by ascending number (by page, for a job group); elements of arrays behind the record
        of those that have not started."""
        group = wanted.group.rstrip("/")
        return (each for each in self._all(wanted) if not group or group_of(each.events).rstrip("/") == group)

    def _all(self, wanted: JobFilter) -> Iterator[JobHistory]:
        """Of whatever group: the store does not tell them apart, so where one is wanted no job may be left out."""
        indices, name = split_name(wanted.name)
        if indices is not None:
            yield from self._named(msgspec.structs.replace(wanted, name=name), indices)
            return
        found, named = set[int](), frozenset(wanted.ids)
        for row in self._rows(wanted):
            found.add(row.job_id)
            if index_of(row.job_id):
                yield self._element(row.job_id)
                continue
            events = self._store.events_of(row.job_id)
            if row.state:  # the row of an array whose elements have all become jobs has none
                yield JobHistory(job_id=row.job_id, events=tuple(events))
            if row.job_id in named and spec_indices(events):
                for element in self._store.elements_of(row.job_id, self._limit):
                    if element.job_id not in named:
                        yield self._element(element.job_id)
        for job_id in wanted.ids:
            if index_of(job_id) and job_id not in found and self._is_element(job_id):
                yield self._element(job_id)

    def _rows(self, wanted: JobFilter) -> Iterator[JobRow]:
        """The newest of them; all of them, page by page, when those of one job group are to be chosen."""
        below = None
        while rows := self._store.find_jobs(wanted, self._limit, below):
            yield from rows
            if not wanted.group or len(rows) < self._limit:
                return
            below = rows[0].job_id

    def _named(self, wanted: JobFilter, indices: Indices) -> Iterator[JobHistory]:
        """Of the elements with these indices: an array's row stands for those that have not been jobs of their own."""
        for row in self._rows(wanted):
            if index_of(row.job_id):
                if index_of(row.job_id) in indices:
                    yield self._element(row.job_id)
            elif row.state:
                yield from self._in_record(row.job_id, indices)

    def _in_record(self, array_id: int, indices: Indices) -> Iterator[JobHistory]:
        own = spec_indices(self._events_of_array(array_id))
        if own:
            started = {element.job_id for element in self._store.elements_of(array_id, self._limit)}
            ids = (element_id(array_id, index) for index in indices_of(own) if index in indices)
            for job_id in islice((each for each in ids if each not in started), self._limit):
                yield self._element(job_id)

    def _is_element(self, job_id: int) -> bool:
        indices = spec_indices(self._events_of_array(array_of(job_id)))
        return bool(indices) and index_of(job_id) in indices_of(indices)

    def _element(self, job_id: int) -> JobHistory:
        shared = self._events_of_array(array_of(job_id))
        own = self._store.events_of(job_id)
        return JobHistory(job_id=job_id, events=element_events(shared, own, index_of(job_id)))

    def _events_of_array(self, array_id: int) -> list[EventRecord]:
        if array_id != self._array:
            self._array, self._array_events = array_id, self._store.events_of(array_id)
        return self._array_events


def element_events(of_array: Sequence[EventRecord], own: Sequence[EventRecord], index: int) -> tuple[EventRecord, ...]:
    """The events of an element: the array's up to its first own one, in order."""
    first = own[0].seq if own else math.inf
    shared = [record for record in of_array if record.seq < first and _concerns(record, index)]
    return (*shared, *own)


def _concerns(record: EventRecord, index: int) -> bool:
    if record.kind not in ("array_elements_finished", "array_elements_requeued"):
        return True
    event = _read(record)
    return isinstance(event, ArrayElementsFinished | ArrayElementsRequeued) and index in indices_of(event.indices)


def spec_indices(events: Sequence[EventRecord]) -> str:
    """The indices of the array whose events these are; empty for a job that is none."""
    spec = _last_spec(events)
    return spec.indices if spec is not None else ""


def group_of(events: Sequence[EventRecord]) -> str:
    """The job group of the job whose events these are; empty for none."""
    spec = _last_spec(events)
    return spec.group if spec is not None else ""


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
