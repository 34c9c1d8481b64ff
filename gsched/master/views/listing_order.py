"""The order in which jobs are listed: started ones by number, pending ones as they are served, finished ones by end.

Waiting elements of arrays are made one by one while somebody reads, so that a listing holds what is read, not more.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterator

import msgspec

from gsched.base.errors import BadRequest
from gsched.base.ids import element_id, index_of
from gsched.core.control.job_filter import Filterable, admits, name_looks
from gsched.core.records.array import UnstartedEnd, indices_of
from gsched.master.views.array_views import ArrayCopy
from gsched.master.views.published_jobs import Untouched
from gsched.model.config import ClusterConfig
from gsched.model.jobs.job import FINISHED, PENDING
from gsched.model.scheduling.snapshot import Rank
from gsched.model.views.element_names import split_name
from gsched.model.views.view import JobFilter, JobView

MOST_LOOKS = 50_000_000
"""At the names of jobs, for one listing: some seconds."""
ListedJob = tuple[JobView | Untouched, ArrayCopy | None]
"""A job as it was published, and the array in whose record it waits, if it does."""
_Served = tuple[tuple[float, Rank], ListedJob]


class Listing:
    """Collects what a filter admits; iterating gives it in order."""

    def __init__(
        self,
        wanted: JobFilter,
        config: ClusterConfig,
        rank: Callable[[JobView | Untouched], Rank] = lambda job: Rank(0.0, 0.0, 0),
    ) -> None:
        self._numbers = frozenset(wanted.ids)
        # Numbers are looked up here, once; a job that was named is admitted though it has finished.
        wanted = msgspec.structs.replace(wanted, ids=(), finished=wanted.finished or bool(wanted.ids))
        self._indices, name = split_name(wanted.name)
        self._wanted = msgspec.structs.replace(wanted, name=name)
        self._config = config
        self._rank = rank
        self._started: list[JobView | Untouched] = []
        self._pending: list[_Served] = []
        self._finished: list[tuple[float, int, Iterator[JobView | Untouched]]] = []
        self._runs: list[Iterator[_Served]] = []
        self._left = MOST_LOOKS

    def add(self, job: JobView | Untouched) -> None:
        """Enter a job that is one of its own, if the filter admits it."""
        if not self.admits(job):
            return
        if job.state in PENDING:
            self._pending.append(((self._priority(job), self._rank(job)), (job, None)))
        elif job.state in FINISHED:
            self._finished.append((job.finished_at or 0.0, job.job_id, iter((job,))))
        else:
            self._started.append(job)

    def add_array(self, array: ArrayCopy, jobs: Container[int]) -> None:
        """Enter the elements of the array that are none of `jobs`."""
        if array.count and self._may_have(array.template):
            self._runs.append(self.waiting(array, jobs))
        for end in array.unstarted:
            first = next(iter(indices_of(end.indices)), 0)
            if self._may_have(array.ended_view(first, end)):
                self._finished.append((end.at, array.array_id, self._ended(array, end)))

    def __iter__(self) -> Iterator[ListedJob]:
        self._started.sort(key=lambda job: job.job_id)
        self._pending.sort(key=lambda entry: entry[0])
        self._finished.sort(key=lambda entry: entry[:2])
        yield from ((job, None) for job in self._started)
        for _, entry in heapq.merge(self._pending, *self._runs, key=lambda served: served[0]):
            yield entry
        for _, _, run in self._finished:
            yield from ((job, None) for job in run)

    def _may_have(self, template: JobView) -> bool:
        """Whether the filter may admit elements like this one; their names are looked at one by one."""
        return admits(msgspec.structs.replace(self._wanted, name=""), template)

    def _is_wanted(self, array: ArrayCopy, index: int, job: JobView) -> bool:
        numbers = self._numbers
        if numbers and array.array_id not in numbers and element_id(array.array_id, index) not in numbers:
            return False
        return not (self._wanted.name or self._indices) or self.admits(job)

    def admits(self, job: Filterable) -> bool:
        """Whether the filter means a job that is one of its own."""
        if self._indices is not None and index_of(job.job_id) not in self._indices:
            return False
        if self._wanted.name:
            self._left -= name_looks(self._wanted, job.spec)
            if self._left < 0:
                raise BadRequest(f"{self._wanted.name[:60]}: such a pattern would be held against too many long names")
        return admits(self._wanted, job)

    def waiting(self, array: ArrayCopy, jobs: Container[int]) -> Iterator[_Served]:
        """The elements in the array's record that the filter means and that are none of `jobs`, as they are served."""
        priority = self._priority(array.template)
        for index in self._open_indices(array):
            if element_id(array.array_id, index) in jobs:
                continue
            job = array.view(index)
            if self._is_wanted(array, index, job):
                yield (priority, Rank(array.rank.priority, array.rank.order, index)), (job, array)

    def _open_indices(self, array: ArrayCopy) -> Iterator[int]:
        """Waiting indices that may be wanted: a few that were named are not looked for among all."""
        if not self._numbers or array.array_id in self._numbers:
            return array.waiting()
        named = sorted(index_of(number) for number in self._numbers if number & 0xFFFFFFFF == array.array_id)
        return (index for index in named if array.has_waiting(index))

    def _ended(self, array: ArrayCopy, end: UnstartedEnd) -> Iterator[JobView]:
        for index in indices_of(end.indices):
            job = array.ended_view(index, end)
            if self._is_wanted(array, index, job):
                yield job

    def _priority(self, job: JobView | Untouched) -> float:
        queue = self._config.queues.get(job.spec.queue)
        return -float(queue.priority if queue is not None else 0)
