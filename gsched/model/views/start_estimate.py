"""What was said of a job's start while it waited, as the store keeps it: so that it can be judged later. It decides
nothing.
"""

from __future__ import annotations

import msgspec


class StartEstimate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Times are UTC seconds; None: nothing was known. Of an array, what was said of it holds for each element."""

    job_id: int
    at: float
    """When it was said."""
    p50_at: float | None = None
    """By when one half of such jobs starts, judging by those that have waited."""
    p90_at: float | None = None
    mean_at: float | None = None
    """When it would start after the mean wait of all jobs: the constant guess."""
    plan_at: float | None = None
    """The start that the scheduler planned."""
    limit_at: float | None = None
    """The same where it rests on run limits alone; None where jobs without one are in the way."""


def first_said(said: list[StartEstimate]) -> StartEstimate | None:
    """What was said first of everything: `said` is of one job, oldest first. None where nothing was."""
    if not said:
        return None
    planned = next((each for each in said if each.plan_at is not None), said[0])
    return msgspec.structs.replace(said[0], plan_at=planned.plan_at, limit_at=planned.limit_at)
