"""Which finished jobs may be forgotten, in order of their ends, and which must stay since others depend on them.

It forgets nothing itself: that is an event. Derived from jobs and arrays, never stored.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping

from gsched.core.records.array import JobArray
from gsched.core.records.job import JobRecord
from gsched.model.jobs.job import FINISHED, JobState

_End = tuple[float, int]


class Retention:
    """Ends of the state's jobs and arrays (of an array: when its last element was over), UTC seconds.

    `is_needed` says whether others depend on a job or an array; when it says so no more, `nobody_depends` is called.
    """

    def __init__(self, jobs: Mapping[int, JobRecord], arrays: Mapping[int, JobArray], is_needed: Callable[[int], bool]):
        self._jobs = jobs
        self._arrays = arrays
        self._is_needed = is_needed
        self._ends: list[_End] = []
        """Heap of (end, job or array); those that are gone already are skipped when they come up."""
        self._done: list[_End] = []
        """The same of jobs that are DONE, which may be forgotten earlier; and of all arrays, for which it is looked at
        when they come up whether each element is DONE: the state of the last one may not be counted yet.
        """
        self._kept: dict[int, float] = {}
        """Finished jobs that others still depend on -> their end."""

    def note_end(self, job_id: int, at: float) -> None:
        """Remember when a job (or array) was over, for the time when it is forgotten."""
        job = self._jobs.get(job_id)
        is_done = job is not None and job.state is JobState.DONE
        if is_done or job_id in self._arrays:
            heapq.heappush(self._done, (at, job_id))
        if not is_done:
            heapq.heappush(self._ends, (at, job_id))

    def nobody_depends(self, job_id: int) -> None:
        """The job was kept for the sake of others, if at all: it may go as any other now."""
        at = self._kept.pop(job_id, None)
        if at is not None:
            self.note_end(job_id, at)

    def drop(self, job_id: int) -> None:
        """The job (or array) has been forgotten."""
        self._kept.pop(job_id, None)

    def first_end(self) -> float | None:
        """When the job that has been finished for longest ended; None without finished jobs that may be forgotten."""
        return min((at for at in map(self._first_of, (self._ends, self._done)) if at is not None), default=None)

    def times(self, after_s: float, done_after_s: float | None = None) -> Iterator[float]:
        """When the next ones are forgettable, UTC seconds."""
        for heap, period_s in self._periods(after_s, done_after_s):
            first = self._first_of(heap)
            if first is not None:
                yield first + period_s

    def forgettable(self, now: float, after_s: float, most: int, done_after_s: float | None = None) -> list[int]:
        """Up to `most` jobs (arrays as a whole) that ended `after_s` seconds ago or earlier, in order of their ends; of
        those that are DONE `done_after_s`, where that is given. A job that others depend on stays.
        """
        found: list[_End] = []
        for heap, period_s in self._periods(after_s, done_after_s):
            due: list[_End] = []
            while len(due) < most and (ended := self._first_of(heap)) is not None and ended + period_s <= now:
                due.append(heapq.heappop(heap))
            for entry in due:  # they stay until the event that lets go of them
                heapq.heappush(heap, entry)
            found += due
        return [job_id for _, job_id in dict.fromkeys(sorted(found))][:most]

    def _periods(self, after_s: float, done_after_s: float | None) -> tuple[tuple[list[_End], float], ...]:
        return (self._ends, after_s), (self._done, after_s if done_after_s is None else done_after_s)

    def _first_of(self, heap: list[_End]) -> float | None:
        while heap and not (self._may_go(*heap[0]) and (heap is self._ends or self._is_done(heap[0][1]))):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def _is_done(self, job_id: int) -> bool:
        """Whether the job, or each element of the array, is DONE."""
        array = self._arrays.get(job_id)
        return array is None or array.counts.get(JobState.DONE.value, 0) == array.indices.count

    def _may_go(self, at: float, job_id: int) -> bool:
        """Whether the entry of the heap still tells of a job that may be forgotten."""
        array, job = self._arrays.get(job_id), self._jobs.get(job_id)
        if array is not None:
            is_over = array.is_over() and array.last_end == at
        else:
            is_over = job is not None and job.state in FINISHED and job.finished_at == at
        if is_over and self._is_needed(job_id):
            self._kept[job_id] = at
            return False
        return is_over
