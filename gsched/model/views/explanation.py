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
    is_ending: bool = False
    """It is asked to end, or to go on with other GPUs, and has until then."""
    gives_gpus: int = 0
    """Of one that goes on then: so many of its GPUs, which were lent to it, it gives back."""


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
    is_ending: bool = False
    gives_gpus: int = 0
    """See ResourceHolder."""


class StartChange(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is asked for otherwise."""

    what: str
    """`gpus`, `gmem`, `gmodel`, `alone`, `slots`, `queue`, `hosts`, `exclusive`, `reservation`, `select`, `run_limit`
    or `rusage[NAME]`.
    """
    value: str = ""
    """As its option takes it; empty: what was asked for is left out."""


class StartSuggestion(msgspec.Struct, frozen=True, kw_only=True):
    """Changes with which the scheduler starts the job now; without any one of them it does not."""

    changes: tuple[StartChange, ...]
    options: str
    """As gmod takes them (gsub, where the job has not been submitted), quoted for a shell."""
    command: str = ""
    """The whole command; empty where the job has not been submitted."""
    hosts: tuple[str, ...] = ()
    """Where it starts then."""


class AdminChange(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that an administrator would change in the cluster."""

    what: str
    """`host` or `gpu` (opened), `queue` (activated), `reservation` (ended, or smaller), `limit` (raised) or `job`
    (requeued).
    """
    name: str
    """Of the host, queue, reservation or job; HOST:INDEX of the GPU; of the limit its section, queue or user."""
    file: str = ""
    """Of a limit: the file that it is set in."""
    setting: str = ""
    """What of it is changed: the parameter of a limit; of a reservation `gpus` or `slots`, empty where it ends."""
    old: str = ""
    new: str = ""


class MovedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is requeued to make room."""

    job_id: int
    user: str
    gpus: float = 0.0
    """GPUs that it holds; a share of one counts as that part."""
    lost_gpu_s: float = 0.0
    """GPUs times the seconds that it has run: what it has to do again."""
    lost_s: float = 0.0
    """The seconds alone."""
    hosts: tuple[str, ...] = ()
    """Where it starts again at once; empty: it waits."""


class AdminMeasure(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of the cluster with which the scheduler starts the job now; without any one of them it does not."""

    changes: tuple[AdminChange, ...]
    commands: tuple[str, ...]
    """In the order in which they are given; those of a file are `gadmin reconfig`, after the file was edited."""
    hosts: tuple[str, ...] = ()
    """Where it starts then."""
    jobs: tuple[MovedJob, ...] = ()
    """Who pays for it."""


class PlacedPart(msgspec.Struct, frozen=True, kw_only=True):
    """What a job would hold on one host."""

    host: str
    slots: int = 0
    gpus: tuple[int, ...] = ()
    """Indices of the GPUs on the host."""


class LimitTake(msgspec.Struct, frozen=True, kw_only=True):
    """So much of a limit a job would take, beside what is used."""

    text: AnyText
    """What is said of jobs that wait for the limit: it names it."""
    limit: str = ""
    """The section of lsb.resources; empty: a limit of a queue, of users, of an array or of a job group."""
    kind: str = ""
    name: str = ""
    """Of the queue, array or job group."""
    resource: str = ""
    host: str = ""
    """The only host that counts; empty: several do."""
    takes: float | None = 0.0
    """None: not known, the GPU hours of a job without a run limit or a place."""
    used: float = 0.0
    allowed: float | None = None
    """None: it is not limited now."""


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
    """What must come before it waits for a place: `hold`, `time`, `condition`, `retry`, `pause` or `force`; empty:
    nothing.
    """
    waits_until: float | None = None
    """When the time comes that it waits for (`time`, `retry`, `pause`), UTC seconds; None: something else."""
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
    higher_queues: tuple[str, ...] = ()
    """Queues of a higher PRIORITY that may use the hosts of that start: jobs submitted to them come before it."""
    awaits: tuple[AwaitedEnd, ...] = ()
    """Whose ends that start, or its dependency condition, waits for, the last first."""
    suggestions: tuple[StartSuggestion, ...] = ()
    """What would start it now, the cheapest first."""
    gpus: float = 0.0
    """That it asks for at the least."""
    submitted_at: float = 0.0
    """UTC seconds; 0 where it has not been submitted."""
    measures: tuple[AdminMeasure, ...] = ()
    """What an administrator could do so that it starts now, the cheapest first."""
    measures_cut: bool = False
    """Not everything was tried: there may be more."""
    p50_at: float | None = None
    """By when one half of such jobs would have started, UTC seconds; None: too few are known."""
    p90_at: float | None = None
    """The same of nine in ten."""
    such_jobs: int = 0
    """How many that rests on."""


class JobDryRun(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of a job if it were submitted now. One that would be refused has none."""

    explanation: JobExplanation
    """Without a number; `waits_for` tells what comes first, the rest is as if that had come."""
    parts: tuple[PlacedPart, ...] = ()
    """Where it starts with the next cycle, the first host first; empty where it waits."""
    limits: tuple[LimitTake, ...] = ()
    """What it takes of limits when it starts."""
    warnings: tuple[AnyText, ...] = ()
    """What would be said of it at its submission."""
