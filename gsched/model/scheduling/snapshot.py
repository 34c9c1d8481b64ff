"""What a scheduling cycle sees and what it decides: waiting jobs by class, hosts, ledger, limits already used.

A snapshot shares structure with the state; the policy treats everything in it as read-only except the forked ledger
and columns.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import msgspec

from gsched.base.coded_text import AnyText
from gsched.model.hosts.resource import BUILTIN
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.ledgers.allocation import Allocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.model.ledgers.ledger import Ledger
from gsched.model.queues.fairshare_factors import FairshareFactors
from gsched.model.queues.guarantee import GuaranteePool
from gsched.model.queues.limit import HeldCounts, Limit
from gsched.model.queues.preempt_sparing import NOBODY_SPARED, Sparing
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import Share

if TYPE_CHECKING:
    from gsched.model.scheduling.columns import HostColumns
    from gsched.model.scheduling.run_kind import RunKind

HostValues = Mapping[str, float | str | bool | None]
"""Resource name -> value; None means unknown."""


class RequirementClass(NamedTuple):
    """Jobs that can hold exactly the same places for the same time: what decides which hosts could take them."""

    requirement: str
    """Combined requirement text (gsched.resreq: simple, compound or alternatives)."""
    slots: int = 1
    asked_hosts: tuple[str, ...] = ()
    """-m; empty means any."""
    avoid_host: str = ""
    auto_gpu: bool = False
    max_slots: int = 0
    """-n min,max; 0: exactly `slots`."""
    gpu: str = ""
    """Combined -gpu requirement, as gsched.resreq.parsing.gpu prints it; empty: none."""
    host_levels: tuple[int, ...] = ()
    """Preference of each of `asked_hosts`, larger first; empty: all alike."""
    other_hosts: bool = False
    """`others` stood in -m: further hosts may be used, with preference 0."""
    first_hosts: tuple[str, ...] = ()
    """`host!` in -m: one of these must be the first execution host."""
    exclusive: bool = False
    """-x: alone on its hosts."""
    run_s: float | None = None
    """Run limit in seconds, for backfill; None: it has none."""
    estimate_s: float | None = None
    """-We of a job without a run limit: how long it is expected to run."""
    reservation: str = ""
    """-U."""
    waited_s: float = 0.0
    """Delay of the alternative that the job may use by now (0 at first)."""
    excluded_hosts: tuple[str, ...] = ()
    """Hosts that the job must not come back to (EXCLUDE of the requeue exit values)."""
    container_runtimes: tuple[str, ...] = ()
    """One of these programs must be on its hosts; none: it needs none."""


class Bucket(NamedTuple):
    """Jobs that are equal in everything that order and limits look at, except for their rank."""

    queue: str
    user: str
    requirement: RequirementClass
    project: str = ""
    user_group: str = ""
    """-G: the share group charged."""
    job_group: str = ""
    array: int = 0
    """Number of the array when it has a slot limit (%n), else 0."""
    application: str = ""
    """Application profile."""
    service_class: str = ""
    """-sla."""


class JobKind(NamedTuple):
    """What a job needs on the one host that it runs on, as far as placing for others' sake looks at it."""

    slots: int
    mem_mib: float
    gpus: int = 0
    share: float = 1.0
    """Part of one GPU."""
    claim: str = ""
    """What the GPUs are claimed as, see gsched.model.ledgers.allocation.HeldGpu; empty without GPUs."""
    gmodel: str = ""


class Rank(NamedTuple):
    """Place within a queue that serves first come first served: the smallest is served first."""

    priority: float
    """Of the user, not of the queue: the negative of -sp, aged by JOB_PRIORITY_OVER_TIME in a way that does not depend
    on when one looks."""
    order: float
    """Number of the submission; gtop and gbot change it."""
    element: int = 0
    """Index of an array's element."""


class JobLine(Protocol):
    """The jobs of a bucket in order."""

    def __iter__(self) -> Iterator[tuple[Rank, int]]:
        """(rank, job id), first to be served first."""
        ...

    def __len__(self) -> int: ...


class HeadLine(JobLine, Protocol):
    """A line whose first job others remember."""

    bucket: Bucket
    version: int
    """Another one, which no other line ever has, whenever another job becomes the first."""

    @property
    def has_arrays(self) -> bool:
        """Whether entries stand for arrays; then the line can only be iterated over."""
        ...

    def entry(self, place: int) -> tuple[float, float, int, int] | None:
        """Rank, laid open, and number of the job at that place of the line, from 0; None behind its end."""
        ...


Head = tuple[float, float, int, int, int, HeadLine]
"""The first job of a line: its rank laid open, its number (an array's for its elements), the line's version when it
became the first, the line. Whoever finds another version there must pass it over.
"""


class QueueIndex(Protocol):
    """Pending jobs that know their queues, and who comes first, without looking at every bucket."""

    def queues_of(self, requirement: RequirementClass) -> Iterable[str]:
        """Queues with jobs of the class."""
        ...

    def heads(self, queue: str, requirement: RequirementClass) -> list[Head]:
        """The first jobs of the buckets of a class in a queue, in order.

        The list is nobody's to change, and stands until jobs come or go.
        """
        ...


def index_of_queues(pending: Mapping[RequirementClass, Mapping[Bucket, JobLine]]) -> QueueIndex | None:
    """The same pending jobs as ones that know more; None when they do not."""
    return cast(QueueIndex, pending) if hasattr(pending, "heads") else None


def queues_of(pending: Mapping[RequirementClass, Mapping[Bucket, JobLine]], requirement: RequirementClass) -> list[str]:
    """Queues with jobs of the class, by name."""
    index = index_of_queues(pending)
    if index is not None:
        return sorted(index.queues_of(requirement))
    return sorted({bucket.queue for bucket in pending.get(requirement, ())})


class Running(NamedTuple):
    """A started job as reservation and preemption see it."""

    job_id: int
    attempt: int
    bucket: Bucket
    allocation: Allocation
    state: str
    """RUN, USUSP, SSUSP, UNKWN or ZOMBI."""
    started_at: float
    ends_at: float
    """Latest end by its run limit, UTC seconds; infinite when it has none. In the past: it is overdue."""
    is_ending: bool = False
    """It has been asked to end (killed, requeued, preempted)."""
    rerunnable: bool = False
    preempted: int = 0
    """How often it has been preempted."""
    resumed_at: float = float("-inf")
    """When it last went on after a preemption."""
    save_by: float = float("-inf")
    """Of one that is ending: until when it may save its state before it is ended, UTC seconds. Of one that is spared
    after it was asked: the same.
    """
    saves_s: float = 0.0
    """How long one that is asked to end has to save its state, in seconds."""
    keeps: Allocation | None = None
    """Of one that is ending so as to have another number of GPUs: what it holds as soon as it has ended."""
    gives_to: tuple[int, ...] = ()
    """Jobs that are known to get GPUs which such a one gives back."""
    wants_slots: int = 0
    """How many slots it is to have; 0: as many as it has."""
    may_move: bool = False
    """It may be moved off its one GPU when it is suspended, where its host can do that."""
    moved_off: Allocation | None = None
    """Of one that is: what it holds again when it goes on."""

    def ends_when_asked(self, now: float, terminate_s: float) -> float:
        """When it has ended at the latest if it is asked to at `now`, or was before."""
        saved_by = self.save_by if self.is_ending or self.save_by > now else now + self.saves_s
        return max(now + terminate_s, saved_by)

    @property
    def key(self) -> AttemptKey:
        return (self.job_id, self.attempt)


@dataclass(frozen=True, slots=True)
class HostSnapshot:
    """A host in a cycle. `closed` says in LSF's words why it takes no jobs now; empty when it does."""

    name: str
    values: HostValues
    """As reported and configured, before reservations."""
    closed: AnyText = ""
    user_limit: int | None = None
    """JL/U."""
    only_user: str = ""
    """Its agent starts this user's jobs alone; empty: everybody's."""
    last_dispatch: float = float("-inf")
    busy: Mapping[str, PendingReason] = field(default_factory=dict)
    """Queue ("" for all) -> the loadSched threshold that the host is beyond, as a pending reason."""
    exclusive_resources: tuple[str, ...] = ()
    ncpus: int = 0


@dataclass(frozen=True, slots=True)
class AdvanceReservation:
    """A reservation made with grsvadd. `parts`: what it keeps on each host from `start` to `end` (UTC seconds)."""

    name: str
    users: tuple[str, ...]
    """Who may use it; user groups resolved."""
    start: float
    end: float
    slots: Mapping[str, int] = field(default_factory=dict)
    """Host -> slots."""
    gpus: Mapping[str, int] = field(default_factory=dict)
    """Host -> GPUs."""


@dataclass(frozen=True, slots=True)
class FairshareUse:
    """What a user has used in a queue's fairshare tree, decayed to the cycle's time. Times in seconds."""

    cpu_s: float = 0.0
    hist_run_s: float = 0.0
    run_s: float = 0.0
    """Of jobs that run now."""
    slots: int = 0
    jobs: int = 0
    """That hold the slots."""
    hist_gpu_s: float = 0.0
    """Of finished jobs: run time multiplied by the GPUs that the job held alone, summed over jobs."""
    gpu_s: float = 0.0
    """The same of jobs that run now."""
    gpus: int = 0
    """GPUs held alone now; for the tables, since `gpu_s` has them in it."""
    committed_s: float = 0.0
    """Run limits of the jobs that run now."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything `schedule` may look at."""

    queues: Mapping[str, Queue]
    hosts: Mapping[str, HostSnapshot]
    ledger: Ledger
    """A fork: the policy may take from it."""
    pending: Mapping[RequirementClass, Mapping[Bucket, JobLine]]
    columns: HostColumns | None = None
    """The hosts and this very ledger in columns, when the core keeps them from cycle to cycle; None: they are made."""
    queue_slots: Mapping[str, int] = field(default_factory=dict)
    queue_user_slots: Mapping[tuple[str, str], int] = field(default_factory=dict)
    running: Mapping[int, Running] = field(default_factory=dict)
    inactive_queues: Mapping[str, AnyText] = field(default_factory=dict)
    """Queue -> why it starts nothing now (inactivated, window closed), as a pending reason."""
    applications: Container[str] | None = None
    """Application profiles that exist; None: all that jobs name."""
    application_tasks: Mapping[str, int] = field(default_factory=dict)
    """Application profile -> most slots of one job, where it says so (TASKLIMIT)."""
    limits: tuple[Limit, ...] = ()
    guarantees: tuple[GuaranteePool, ...] = ()
    """Pools of which something is guaranteed to service classes."""
    gpu_seconds: Mapping[str, float] = field(default_factory=dict)
    """Budget limit's name and member (`NAME`, `NAME/user`) -> GPU seconds used within its window."""
    minute_of_week: int = 0
    """Local time of the master, for windows of limits."""
    user_limits: Mapping[str, float] = field(default_factory=dict)
    """User -> MAX_JOBS slots, infinite for a row that sets none; "default" may be there."""
    group_limits: Mapping[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)
    """User group -> (members, MAX_JOBS of all of them together)."""
    user_groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Group -> users."""
    job_group_limits: Mapping[str, int] = field(default_factory=dict)
    """Job group -> most jobs started at a time (gbgadd -L)."""
    job_group_jobs: Mapping[str, int] = field(default_factory=dict)
    """Job group -> started jobs in it and below."""
    array_limits: Mapping[int, int] = field(default_factory=dict)
    array_jobs: Mapping[int, int] = field(default_factory=dict)
    """Array -> started elements."""
    shares: Mapping[str, Mapping[str, FairshareUse]] = field(default_factory=dict)
    """Fairshare queue -> user (`group/user` for jobs charged to a group with -G) -> use."""
    factors: Mapping[str, FairshareFactors] = field(default_factory=dict)
    """Fairshare queue -> the weights in force; LSF's where none are given."""
    group_shares: Mapping[str, tuple[Share, ...]] = field(default_factory=dict)
    """User group -> its own USER_SHARES; a group that has none divides equally among its members."""
    processor_limits: Mapping[str, float] = field(default_factory=dict)
    """User, `group@` or "default" -> JL/P."""
    held: HeldCounts | None = None
    """What limits count of the started jobs, when the core keeps it; None: it is counted from `running` if need be."""
    reservations: tuple[AdvanceReservation, ...] = ()
    planned: Mapping[int, PlannedStart] = field(default_factory=dict)
    """Plans of the cycle before: kept while they still hold."""
    explained: Container[Bucket | tuple[str, RequirementClass]] = ()
    """Kinds of jobs whose reasons of a moment ago may stand if the cycle starts something, or is to come to its end."""
    may_end_early: bool = False
    """Whether a cycle that is made in turns may leave to another what is only to be planned for: those that start need
    not wait for it.
    """
    may_give_up: bool = False
    """Whether such a cycle may end as soon as somebody waits for its end, if it has not found anything that starts."""
    are_reasons_read: bool = True
    """Whether anybody reads why jobs wait; where nobody does, it only is said that they do."""
    usual_run_s: Mapping[RunKind, float] = field(default_factory=dict)
    """Kind of jobs -> how long most of them run, for those without a run limit; only where that is known."""
    increasing: frozenset[str] = frozenset(resource.name for resource in BUILTIN.values() if resource.increasing)
    """Resources of which less is better; order[] sorts these upwards and all others downwards."""
    local_type: str = ""
    job_accept_interval_s: float = 0.0
    reserve_cores_per_gpu: int = 0
    mix: tuple[tuple[JobKind, float], ...] = ()
    """Kinds of GPU jobs to expect, and how often each was seen, when GPU_PLACEMENT is scarce; empty: nobody knows."""
    min_run_before_preempt_s: float = 0.0
    preempt_requeue: bool = False
    sparing: Sparing = NOBODY_SPARED
    """Which started jobs are not preempted, where neither their application profile nor their queue says so."""
    application_sparing: Mapping[str, Sparing] = field(default_factory=dict)
    """Of the profiles that say something of it."""
    compute_units: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    terminate_s: float = 10.0
    """How long a job that is asked to end may take."""
    elastic: Collection[int] = ()
    """Started jobs that take a range of numbers of GPUs (num=2..8)."""
    growing: Collection[int] = ()
    """Started jobs that are to have more slots."""
    gpu_grow_interval_s: float = 600.0
    """So long such a job runs with as many as it has before it may get more."""
    shows_all_waiting: bool = True
    """Whether all kinds of waiting jobs are in `pending`."""


@dataclass(frozen=True, slots=True)
class Resize:
    """A started job ends, so as to go on with another number of GPUs at once."""

    job_id: int
    allocation: Allocation
    """What it holds then."""
    by: int = 0
    """The job for which it gives GPUs back; 0: it gets more."""
    gives_to: Mapping[int, int] = field(default_factory=dict)
    """That job and others which get what this and others give back -> how many of its GPUs each gets."""

    @property
    def gpus(self) -> int:
        """So many it holds then."""
        return sum(len(part.gpus) for part in self.allocation.hosts)


class Growth(msgspec.Struct, frozen=True, gc=False):
    """A started job gets more slots, and goes on as it is."""

    job_id: int
    allocation: Allocation
    """What it holds then."""


class Placement(msgspec.Struct, frozen=True, gc=False):
    """One job that can start now."""

    job_id: int
    allocation: Allocation
    effective: str = ""
    """What of the requirement is used where it offers alternatives; empty: all of it."""


@dataclass(frozen=True, slots=True)
class Preempted:
    """A started job that makes room for `by`. `requeue`: it ends and waits again; otherwise it is suspended, and if it
    `moves`, taken off its GPU before.
    """

    job_id: int
    by: int
    requeue: bool
    moves: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What a cycle decided: placements in order, a reason for every class or bucket that waits, one sentence."""

    placements: tuple[Placement, ...]
    reasons: Mapping[Bucket | tuple[str, RequirementClass], tuple[PendingReason, ...]]
    """A bucket's own reasons, or those of all jobs of a class in a queue (queue, class). Never empty tuples."""
    summary: str
    truncated: bool = False
    """The budget of steps ran out; another cycle should follow."""
    planned: Mapping[int, PlannedStart] = field(default_factory=dict)
    """Job id -> when it will start, for the jobs that something is reserved for."""
    preempted: tuple[Preempted, ...] = ()
    resumed: tuple[int, ...] = ()
    """Preempted jobs that may go on."""
    unexplained: frozenset[Bucket | tuple[str, RequirementClass]] = frozenset()
    """Of the snapshot's `explained`: those that found no place, and whose reasons were not looked for anew."""
    ended_early: bool = False
    """It used the snapshot's `may_end_early` or `may_give_up`: another cycle has to look at everything anew, soon, or
    at once if nothing starts.
    """
    resized: tuple[Resize, ...] = ()
    grown: tuple[Growth, ...] = ()
    deferred: frozenset[Bucket] = frozenset()
    """Of a truncated one: who may borrow from service classes, and was not served again after their jobs."""

    def starts(self, job_id: int) -> bool:
        """Whether the job is among those that are placed."""
        return any(placement.job_id == job_id for placement in self.placements)

    @property
    def takes_gpus(self) -> bool:
        """Whether a placement holds any device."""
        return any(part.gpus for placement in self.placements for part in placement.allocation.hosts)
