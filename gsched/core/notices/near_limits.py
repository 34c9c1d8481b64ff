"""When jobs that want warnings are told that they will soon be ended: by their run limit, or at their termination time.

It says when it has something to do next, so that nobody polls. Derived from the running jobs, never stored; that one
was told is in an event. A job that was suspended has more time than it is told: its run limit does not count that.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from gsched.base.coded_text import coded
from gsched.core.decision import Decision
from gsched.core.notices.notice_making import LIMIT_NEAR, warn_of_limit
from gsched.core.records.job import JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import AnyEvent, JobModified, JobResumed, JobStarted, JobSwitched
from gsched.model.jobs.job import JobState
from gsched.model.jobs.notice import WARNING

PART_LEFT = 0.1
"""So much of the run limit is left when it is told ..."""
MOST_LEFT_S = 3600.0
"""... and no more than this, in seconds."""
MOST_OVER = 1_000
"""Entries of jobs that are over which are left where they are, besides as many as there are jobs that run."""
_NEWS = (JobStarted, JobModified, JobSwitched, JobResumed)


class NearLimits:
    """When each job comes near its run limit or termination time."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._due: list[tuple[float, int]] = []
        """Heap of (UTC seconds, job); what is not so any more is skipped when it comes up."""
        for job_id in state.running:
            self._look_at(state.jobs[job_id])

    def note(self, events: Iterable[AnyEvent]) -> None:
        """These have just happened."""
        for event in events:
            if isinstance(event, _NEWS):
                job = self._state.jobs.get(event.job_id)
                if job is not None:
                    self._look_at(job)

    def next_time(self) -> float | None:
        """When `tick` has something to do, UTC seconds; None: it has nothing."""
        return self._due[0][0] if self._due else None

    def tick(self, decision: Decision) -> None:
        """Tell those whose time has come."""
        while self._due and self._due[0][0] <= decision.now:
            _, job_id = heapq.heappop(self._due)
            job = self._state.jobs.get(job_id)
            ends = _ends(job) if job is not None else None
            if job is None or ends is None or job.state is not JobState.RUN:
                continue  # a job that is stopped is looked at when it goes on
            at, code = ends
            if _told_at(job, at) <= decision.now:
                minutes = max(0, round((at - decision.now) / 60))
                warn_of_limit(job, coded(code, minutes, (job.spec.run_limit_s or 0) // 60), decision)

    def _look_at(self, job: JobRecord) -> None:
        ends = _ends(job)
        if ends is not None:
            heapq.heappush(self._due, (_told_at(job, ends[0]), job.job_id))
        if len(self._due) > MOST_OVER + 2 * len(self._state.running):
            self._due.clear()
            for job_id in self._state.running:
                self._look_at(self._state.jobs[job_id])


def _ends(job: JobRecord) -> tuple[float, str] | None:
    """When the job is ended, and the code of what there is to be said of it; None: it is not, or nobody wants to know,
    or it was told.
    """
    spec, began = job.spec, job.started_at
    if began is None or not any(wish.wants(WARNING) for wish in spec.notices):
        return None
    if any(f" {job.attempt} {LIMIT_NEAR} " in f"{key} " for key in job.told):
        return None
    found = []
    if spec.run_limit_s is not None:
        found.append((began + spec.run_limit_s, "notice.run_limit_near"))
    if spec.terminate_at is not None:
        found.append((spec.terminate_at, "notice.termination_near"))
    return min(found, default=None)


def _told_at(job: JobRecord, ends_at: float) -> float:
    """When it is told that the job ends then."""
    lasts_s = ends_at - (job.started_at or ends_at)
    return ends_at - min(PART_LEFT * lasts_s, MOST_LEFT_S)
