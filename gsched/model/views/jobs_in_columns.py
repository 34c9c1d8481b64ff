"""Jobs in columns, for tables that show little of each: what many jobs have in common is there once.

A copy of one moment that nobody changes. How a table looks is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gsched.model.views.view import JobView

TableJob = tuple[int, str, float, JobView]
"""A job's number, JOB_NAME, when it was submitted (UTC seconds), and a view of what it has in common with others."""


class JobsInColumns(msgspec.Struct, frozen=True, kw_only=True):
    """Some jobs; the sequences but for `alike` are of one length."""

    alike: Sequence[JobView]
    """What several of them have in common: state, user, queue, hosts and reasons; all else is empty."""
    places: Sequence[int]
    """For each job: which of `alike` is its own."""
    job_ids: Sequence[int]
    names: Sequence[str]
    submitted_at: Sequence[float]


def columns_of(jobs: Sequence[TableJob]) -> JobsInColumns:
    """The jobs in columns. Those with the same view share it."""
    places: dict[int, int] = {}
    alike: list[JobView] = []
    for job in jobs:
        if id(job[3]) not in places:
            places[id(job[3])] = len(alike)
            alike.append(job[3])
    job_ids, names, submitted_at, views = zip(*jobs, strict=True) if jobs else ((), (), (), ())
    return JobsInColumns(
        alike=alike,
        places=[places[id(view)] for view in views],
        job_ids=job_ids,
        names=names,
        submitted_at=submitted_at,
    )
