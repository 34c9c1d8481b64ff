"""The answer to "why does this job wait, and until when": what stands in its way, host by host, and who.

It holds what everybody may see with gjobs and ghosts, put together for one job. It decides nothing.
"""

from __future__ import annotations

import msgspec

from gsched.base.coded_text import AnyText
from gsched.model.jobs.reason import PendingReason, PlannedStart


class ResourceHolder(msgspec.Struct, frozen=True, kw_only=True):
    """A started job that holds, on one host, something of what the waiting job lacks there."""

    job_id: int
    user: str
    state: str
    slots: int = 0
    gpus: int = 0
    amount: float = 0.0
    """What it holds of the resource that lacks, where that is neither slots nor GPUs."""
    ends_at: float | None = None
    """When it is expected to end, UTC seconds; None: nobody knows."""
    is_limit: bool = False
    """The end is that of its run limit, and not an estimate."""


class UnofferedGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that no job gets now, and why: closed, failed, or used by processes that are no job's."""

    index: int
    uuid: str
    problem: AnyText = ""
    foreign_pids: tuple[int, ...] = ()


class RefusingHost(msgspec.Struct, frozen=True, kw_only=True):
    """One host that does not take the job, with its own numbers and with whom it is about."""

    host: str
    detail: AnyText = ""
    holders: tuple[ResourceHolder, ...] = ()
    """Those that hold the most first; at most MOST_HOLDERS."""
    more_holders: int = 0
    gpus: tuple[UnofferedGpu, ...] = ()


class RefusingHosts(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts that do not take the job for the same reason."""

    text: AnyText
    count: int
    candidate: bool = True
    """Whether they are such that the job could ever use; see PendingReason."""
    hosts: tuple[RefusingHost, ...] = ()
    """The first of them by name."""


class AwaitedEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The job whose end an expected start waits for."""

    job_id: int
    user: str
    host: str
    at: float
    """When it is expected to end, UTC seconds."""
    is_limit: bool = False
    """The time is that of its run limit, and not an estimate."""
    is_started: bool = True
    """It runs already; otherwise it waits as well, and starts first."""


class JobExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why one pending job waits, and until when."""

    job_id: int
    user: str = ""
    queue: str = ""
    state: str = ""
    at: float = 0.0
    """When this was found, UTC seconds."""
    reasons: tuple[PendingReason, ...] = ()
    """As gjobs -p3 shows them, the dominant one first. Never empty for a job that waits."""
    waits_for: str = ""
    """What must come before it waits for a place: `hold`, `time`, `condition`, `retry` or `force`; empty: nothing."""
    hosts: tuple[RefusingHosts, ...] = ()
    """Hosts by reason: those that the job could use first, the commonest reason first."""
    starts_now: bool = False
    """Nothing stands in its way: it starts with the next cycle."""
    planned: PlannedStart | None = None
    """When it is expected to start, and where; `never` or `unknown` with why; None: nothing can be said."""
    is_reserved: bool = False
    """The place is reserved for it; otherwise it was planned for this answer, behind all that come before it."""
    is_alone: bool = False
    """So many come before it that it was planned for as if it were the only one: it starts no earlier."""
    awaits: tuple[AwaitedEnd, ...] = ()
    """Whose ends that start waits for, the last first."""
