"""What jobs made of their GPUs in sums by week, as it is asked for and told. UTC seconds."""

from __future__ import annotations

import msgspec

from gsched.model.views.catalogue import AccountFilter

BY = ("user", "project", "queue")
MOST_WEEKS = 520


class GpuSumsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked: sums of which jobs, by what, and in which weeks."""

    jobs: AccountFilter = AccountFilter()
    """Its numbers and its `completed` do not count."""
    by: str = "user"
    bounds: tuple[float, ...] = ()
    """The begin of each week, and the end of the last one."""


class GpuSums(msgspec.Struct, frozen=True, gc=False):
    """Sums over jobs with GPUs that ended in one week. Seconds are those of GPUs; of a shared one the part that was
    held.
    """

    week: int
    """Place among the weeks that were asked for."""
    name: str
    jobs: int = 0
    held_s: float = 0.0
    seen_s: float = 0.0
    """Of these, those of which it is known whether the GPUs computed."""
    busy_s: float = 0.0
    energy_j: float = 0.0
    """Of the jobs of which it is known."""
    seen_jobs: int = 0
    energy_jobs: int = 0
