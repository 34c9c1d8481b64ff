"""Which finished jobs may be forgotten, in order of their ends, and which must stay since others depend on them.

It forgets nothing itself: that is an event. Derived from jobs and arrays, never stored.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

from gsched.core.records.array import JobArray
from gsched.core.records.job import JobRecord
from gsched.model.jobs.job import FINISHED


class Retention:
    """Ends of the state's jobs and arrays (of an array: when its last element was over), UTC seconds.

    `is_needed` says whether others depend on a job or an array; when it says so no more, `nobody_depends` is called.
    """

    def __init__(self, jobs: Mapping[int, JobRecord], arrays: Mapping[int, JobArray], is_needed: Callable[[int], bool]):
        self._jobs = jobs
        self._arrays = arrays
        self._is_needed = is_needed
        self._ends: list[tuple[float, int]] = []
        """Heap of (end, job or array); those that are gone already are skipped when they come up."""
        self._kept: dict[int, float] = {}
        """Finished jobs that others still depend on -> their end."""

    def note_end(self, job_id: int, at: float) -> None:
        """Remember when a job (or array) was over, for the time when it is forgotten."""
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
        while self._ends and not self._may_go(*self._ends[0]):
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def forgettable(self, now: float, after_s: float, most: int) -> list[int]:
        """Up to `most` jobs (arrays as a whole) that ended `after_s` seconds ago or earlier, in order of their ends.

        A job that others depend on stays.
        """
        found: list[tuple[float, int]] = []
        while len(found) < most and (ended := self.first_end()) is not None and ended + after_s <= now:
            found.append(heapq.heappop(self._ends))
        for entry in found:  # they stay until the event that lets go of them
            heapq.heappush(self._ends, entry)
        return [job_id for _, job_id in dict.fromkeys(found)]

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
