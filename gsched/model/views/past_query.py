"""What is asked about jobs of the past, and the short form of an answer.

It says nothing of where histories are kept or how they are shown.
"""

from __future__ import annotations

import msgspec

from gsched.model.views.catalogue import TimeSpan
from gsched.model.views.view import JobFilter


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs' histories are wanted. Spans that are open on both sides do not restrict."""

    jobs: JobFilter = JobFilter()
    submitted: TimeSpan = TimeSpan()
    dispatched: TimeSpan = TimeSpan()
    """The last dispatch counts."""
    completed: TimeSpan = TimeSpan()
    active: TimeSpan = TimeSpan()
    """Submitted by the end of it and not over before its beginning."""
    description: str = ""
    """May hold `*`."""
    brief: bool = False
    """Of jobs that only waited and ran, their times are enough."""
    limit: int = 0
    """Most jobs, the newest by submission; 0: as many as the master looks at for one question."""
    with_curves: bool = False
    """What the attempts made of their GPUs over time, too."""


class JobTimes(msgspec.Struct, frozen=True, gc=False):
    """The whole course of a job that waited, perhaps ran, perhaps ended, and nothing else. UTC seconds."""

    job_id: int
    user: str
    name: str
    submitted_at: float
    dispatched_at: float | None = None
    finished_at: float | None = None
