"""What a cluster knows besides its jobs, hosts and queues, as the answers to queries carry it.

Like gsched.model.views.view: texts that depend on the reader's time zone or terminal are not made here. Nobody changes
an answer; None is unknown or "no limit", never 0.
"""

from __future__ import annotations

import msgspec

from gsched.model.views.start_estimate import StartEstimate
from gsched.model.views.view import JobView


class UserLimitView(msgspec.Struct, frozen=True, kw_only=True):
    """A user or user group in gusers: limits of lsb.users, and the slots of its jobs that have not ended."""

    name: str
    """A group's ends in `/`."""
    per_processor: float | None = None
    """JL/P."""
    max_slots: int | None = None
    """MAX_JOBS."""
    max_pending: int | None = None
    max_pending_slots: int | None = None
    pend: int = 0
    run: int = 0
    ssusp: int = 0
    ususp: int = 0
    rsv: int = 0
    """Free slots that are kept for its pending jobs."""
    pending_jobs: int = 0
    started_jobs: int = 0
    suspended_jobs: int = 0
    """Of the started ones."""
    gpus: dict[str, float] = {}
    """Claim (ngpus_shared, ngpus_excl_p …) -> GPUs that its started jobs hold, parts of shared ones as fractions."""


class Grouping(msgspec.Struct, frozen=True, kw_only=True):
    """A group of hosts, a compute unit, or a group of users."""

    name: str
    members: tuple[str, ...] = ()
    """As they were written."""
    resolved: tuple[str, ...] = ()
    """With the groups in it resolved; `all` stands for everybody."""
    shares: tuple[str, ...] = ()
    """Of a user group: `[name, shares]` each."""
    admins: tuple[str, ...] = ()
    unit_type: str = ""
    """Of a compute unit."""


class ApplicationView(msgspec.Struct, frozen=True, kw_only=True):
    """An application profile of lsb.applications, and the slots of its jobs that have not ended."""

    name: str
    description: str = ""
    pend: int = 0
    run: int = 0
    ssusp: int = 0
    ususp: int = 0
    rsv: int = 0
    limits: dict[str, float] = {}
    """By LSF's names, in the units of model.queue.Queue.limits."""
    run_limit_s: int | None = None
    facts: dict[str, str] = {}
    """Further parameters by LSF's names."""


class ResourceView(msgspec.Struct, frozen=True, kw_only=True):
    """A resource as glsinfo lists it. `order` is Inc, Dec or N/A; a static one has interval 0."""

    name: str
    type: str
    order: str
    interval_s: int = 0
    builtin: bool = False
    dynamic: bool = False
    release: bool = True
    consumable: bool = False
    description: str = ""


class ModelView(msgspec.Struct, frozen=True):
    """A host model and its CPU factor."""

    name: str
    cpu_factor: float = 1.0


class Definitions(msgspec.Struct, frozen=True, kw_only=True):
    """All of lsf.shared that glsinfo lists, with what is built in."""

    resources: tuple[ResourceView, ...] = ()
    types: tuple[str, ...] = ()
    models: tuple[ModelView, ...] = ()


class TimeSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A time from `since` up to `until`, both included, UTC seconds. None: open on that side."""

    since: float | None = None
    until: float | None = None

    def __bool__(self) -> bool:
        return self.since is not None or self.until is not None


MOST_NAMED = 5_000
"""Jobs that one question after accounts may name."""


class AccountFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which finished jobs gacct asks for. Empty fields do not restrict; a list means any of its names."""

    ids: tuple[int, ...] = ()
    users: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    """DONE, EXIT; none: both."""
    completed: TimeSpan = TimeSpan()
    submitted: TimeSpan = TimeSpan()
    dispatched: TimeSpan = TimeSpan()
    reservation: str = ""
    application: str = ""
    service_class: str = ""

    @property
    def is_of_submission(self) -> bool:
        """Whether the submission alone tells what is asked for, and no row of the store does."""
        return bool(self.reservation or self.service_class)


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What one finished job took. Times are UTC seconds."""

    job_id: int
    user: str
    queue: str
    project: str = ""
    name: str = ""
    state: str
    submitted_at: float
    dispatched_at: float | None = None
    """Of its last attempt; None for a job that never had one."""
    finished_at: float
    cpu_s: float = 0.0
    """Of its last attempt."""
    run_s: float = 0.0
    """From its last dispatch to its end."""
    gpu_s: float = 0.0
    """Seconds of GPUs that all its attempts held; of a shared GPU the part that was held."""
    gpu_seen_s: float = 0.0
    """Of these, those of which it is known whether the GPUs computed (gsched.model.efficiency.gpu_seconds)."""
    gpu_busy_s: float = 0.0
    gpu_energy_j: float | None = None
    job: JobView | None = None
    """Everything else, when it was asked for."""
    told: StartEstimate | None = None
    """What was said of its start while it waited, when that was asked for."""
