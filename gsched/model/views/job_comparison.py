"""The answer to "why does this job wait, and that one run or stand before it": the rule that decides, with numbers.

It holds what everybody may see with gjobs and gqueues, put together for two jobs. It decides nothing.
"""

from __future__ import annotations

import msgspec

from gsched.base.coded_text import AnyText
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.views.view import ShareView


class ComparedJob(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two jobs, with what rules look at. Times in UTC seconds."""

    job_id: int
    user: str = ""
    queue: str = ""
    state: str = ""
    queue_priority: int = 0
    """PRIORITY of its queue."""
    priority: float = 0.0
    """-sp, with what it has gained by JOB_PRIORITY_OVER_TIME; 0 where none was given."""
    submitted_at: float = 0.0
    started_at: float | None = None
    """When its place was given to it; None: it waits."""
    ends_at: float | None = None
    """When it is expected to end; None: it waits, or nobody knows."""
    is_limit: bool = False
    """The end is that of its run limit, and not an estimate."""
    hosts: tuple[str, ...] = ()
    """Where it runs."""
    slots: int = 0
    """That it holds, or asks for at the least."""
    gpus: int = 0
    """The same of GPUs."""
    share: ShareView | None = None
    """Its user, or a group, in the share tree of the queue that both are in: where their ways part. A job that runs is
    not counted in it itself.
    """


class JobComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Why `job` waits and `other` runs, or which of the two stands before the other."""

    at: float
    """When this was found, UTC seconds."""
    job: ComparedJob
    other: ComparedJob
    rule: str
    """The first rule that decides: a word that docs/explain.md lists."""
    text: AnyText
    """What it says of the two jobs."""
    first: int = 0
    """The one of the two that comes first in the order in which jobs are served; 0: one of them is not in it. One that
    runs is looked at as if it still waited.
    """
    order_rule: str = ""
    """What decides that."""
    order_text: AnyText = ""
    reasons: tuple[PendingReason, ...] = ()
    """Why `job` waits, as gjobs -p3 shows it."""
    planned: PlannedStart | None = None
    """When it is planned to start, where that was planned."""
