"""Views: what a query answers. Made by the master from committed state, carried by wire, laid out by the commands.

A view is a copy that nobody changes. Texts that depend on the reader's time zone or terminal are not made here.
"""

from __future__ import annotations

import msgspec

from gsched.base.coded_text import AnyText
from gsched.base.errors import LSF_FAILURE
from gsched.base.ids import show_job
from gsched.model.gpus.gpu_closure import GpuClosure
from gsched.model.gpus.gpu_idle import GpuIdleness, IdleWarning
from gsched.model.hosts.host import Gpu
from gsched.model.hosts.topology import Topology
from gsched.model.jobs.job import AttemptResult, JobSpec, JobState, Usage
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.ledgers.allocation import Allocation
from gsched.model.queues.exception_thresholds import ExceptionThresholds

NEVER_STARTED = 126
"""Exit code of a job that was ended while it was pending, for who waits for it. Source: bsub(1), -K."""


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One external message of a job."""

    box: int
    user: str
    posted_at: float
    text: str
    attachment: str = ""
    """Id of the blob in the store that goes with it; empty: nothing does."""
    attached_bytes: int = 0
    """Of all that were posted to the box: where one takes the place of another the store keeps both."""


class JobView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job as gjobs sees it."""

    job_id: int
    spec: JobSpec
    state: str
    submitted_at: float
    attempt: int = 0
    allocation: Allocation | None = None
    effective_req: str = ""
    dispatched_at: float | None = None
    started_at: float | None = None
    pid: int | None = None
    exec_home: str = ""
    exec_cwd: str = ""
    finished_at: float | None = None
    result: AttemptResult | None = None
    usage: Usage | None = None
    messages: tuple[Message, ...] = ()
    notes: tuple[AnyText, ...] = ()
    pending_reasons: tuple[PendingReason, ...] = ()
    """Dominant reason first; never empty for a pending job."""
    pending_reasons_at: float | None = None
    """When the scheduling cycle ran that found them, UTC seconds; None: no cycle did, they are true at any time."""
    suspending_reason: AnyText = ""
    planned: PlannedStart | None = None
    """When it will start, for a pending job that something is known of."""
    queue_priority: int = 0
    requeues: int = 0
    """How often it has gone back to pending after it ran."""
    retries: dict[str, int] = {}
    """Class of failure -> how often it was run again because of it."""
    restarts: int = 0
    resizes: int = 0
    """How often of these the system has run it again, as its --max-restarts counts."""
    save_by: float | None = None
    """It was asked to save its state before its end, and has until then, UTC seconds."""
    is_spared: bool = False
    """It is not ended then: the job that was to get its place needs it no more."""
    moved_off: bool = False
    """It is suspended, and off its GPU, which somebody else may have."""
    gpus_kept: AnyText = ""
    """Why it could not be moved off its GPU."""
    idle: tuple[GpuIdleness, ...] = ()
    """How idle each GPU of a running job is; empty: nobody has looked."""
    idle_warning: IdleWarning | None = None
    """What it was told because of it."""
    share_group: str = ""
    """Whom fairshare charges, `/GROUP/USER`; empty in a queue without fairshare."""
    kill_reason: str = ""
    """gkill -C: why its end was asked for."""
    leaving: tuple[str, ...] = ()
    """Hosts of a finished job where its part has not ended: what it had there is still held."""
    awaited: tuple[str, ...] = ()
    """What a job that was dispatched and has not begun waits for: hosts that open their parts, then the first one."""
    service_port: int | None = None
    """Of a started job with a service: the port of its first host on which it listens; None: it does not yet."""
    service_at: float | None = None
    """Since when, UTC seconds."""

    def __repr__(self) -> str:
        return f"<JobView {show_job(self.job_id)} {self.state} {self.spec.name[:60]!r}>"


class JobTexts(msgspec.Struct, frozen=True, kw_only=True):
    """What a job was submitted with; of its environment pieces `NAME=value`, each ended by a NUL byte."""

    script: bytes = b""
    environment: bytes = b""


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs a query wants. Empty fields do not restrict."""

    ids: tuple[int, ...] = ()
    user: str = ""
    """Empty or "all" means everybody's."""
    queue: str = ""
    host: str = ""
    name: str = ""
    """-J, may hold `*`."""
    project: str = ""
    states: tuple[str, ...] = ()
    finished: bool = False
    """Also those that finished within CLEAN_PERIOD."""
    group: str = ""
    """-g: jobs of this job group and of those below it."""
    arrays: bool = False
    """Only array elements."""
    application: str = ""
    """-app: jobs of this application profile; not of histories."""
    service_class: str = ""
    """-sla: jobs of this service class; not of histories."""


class ResourceValue(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of a host in `ghosts -l`. None means unknown, printed `-`."""

    name: str
    total: float | None = None
    """What is left to give."""
    text: str = ""
    """Value of a String resource."""
    reserved: float | None = None
    consumable: bool = False


class SharedView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One instance of a resource that hosts share. None means unknown, printed `-`."""

    name: str
    hosts: tuple[str, ...] = ()
    there: float | None = None
    """All that there is, whoever has it."""
    total: float | None = None
    """What is left to give."""
    reserved: float | None = None
    static: bool = False
    """Configured, not reported by elims."""


class GpuView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A device of the ledger with who holds it."""

    gpu: Gpu
    holders: tuple[str, ...] = ()
    """Attempts, `17.1`."""
    closure: GpuClosure | None = None
    """Set while an administrator has closed it."""


class ShareView(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a fairshare queue's share table; times in seconds. `depth` 0 is the queue's own level."""

    path: str
    """QUEUE/ or QUEUE/GROUP/."""
    name: str
    shares: int
    priority: float
    started: int = 0
    reserved: int = 0
    cpu_s: float = 0.0
    run_s: float = 0.0
    adjust: float = 0.0
    gpu_s: float = 0.0


class ArrayView(msgspec.Struct, frozen=True, kw_only=True):
    """A job array's counts, for gjobs -A."""

    job_id: int
    name: str
    user: str
    counts: dict[str, int] = {}
    """Job state -> elements in it."""


class JobGroupView(msgspec.Struct, frozen=True, kw_only=True):
    """A job group with the counts of its jobs and of those below it."""

    name: str
    counts: dict[str, int] = {}
    job_limit: int | None = None
    owner: str = ""
    slots: dict[str, int] = {}
    """Job state -> slots of the jobs in it that have not ended."""
    rsv: int = 0
    """Free slots that are kept for its pending jobs."""


class OrphanView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An attempt on a host that the store has no record of."""

    name: str
    """`17.1`."""
    slots: int = 0
    gpus: tuple[int, ...] = ()
    """Indices."""
    over: bool = False
    """It has ended and holds nothing; its agent keeps how it ended."""


class HostView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A host as ghosts and gload see it."""

    name: str
    status: str
    """LSF's word with its subtype: ok, closed_Full, unavail …"""
    cpu_factor: float = 1.0
    type: str = ""
    model: str = ""
    ncpus: int = 0
    max_slots: int | None = None
    user_slots: int | None = None
    slots_free: int | None = None
    njobs: int = 0
    run: int = 0
    ssusp: int = 0
    ususp: int = 0
    rsv: int = 0
    load: dict[str, float] = {}
    """Built-in indices that are known, less what is reserved of them."""
    reserved: dict[str, float] = {}
    """What is reserved of built-in indices."""
    externals: tuple[ResourceValue, ...] = ()
    """External resources of the host in lsf.shared's order, and static ones that jobs take of."""
    shared: tuple[ResourceValue, ...] = ()
    """Resources that it shares with other hosts: all that there is of its instance (`total`), and what is reserved of
    it on this host."""
    gpus: tuple[GpuView, ...] = ()
    gpu_provider: str = ""
    gpu_driver: str = ""
    notes: tuple[AnyText, ...] = ()
    """Lines that explain: why there are no GPUs, an elim that died, a disagreement about a count."""
    comment: str = ""
    closed_by: str = ""
    """The administrator that has closed it; STATUS tells of it only while its agent is there."""
    affinity: str = ""
    """The CPUs that jobs with affinity[] may have: `all` or a list; empty: there are no such jobs, or nobody knows."""
    topology: Topology | None = None
    """Where these CPUs lie; None when it was not asked for."""
    cpu_jobs: dict[int, str] = {}
    """CPU -> job that holds it by its affinity[]."""
    max_mem_mib: float | None = None
    max_swp_mib: float | None = None
    max_tmp_mib: float | None = None
    server: bool = True
    """It runs jobs."""
    resources: tuple[str, ...] = ()
    """Boolean resources that it has."""
    exclusive_resources: tuple[str, ...] = ()
    """Those of them that a job must name to get there."""
    values: dict[str, float | str] = {}
    """Static values of other resources, shared ones too."""
    facts: dict[str, float | str] = {}
    """What was found out about it: nprocs, ncores, nthreads, ostype, osrel, osver, and under TYPE_NAMES
    (gsched.resreq.judging.host_types) what its type goes by; what is unknown is absent."""
    thresholds: dict[str, str] = {}
    """Load index -> `sched/stop`, as configured."""
    dispatch_window: str = ""
    """When it takes jobs; empty: always."""
    orphans: tuple[OrphanView, ...] = ()
    exit_limit: int | None = None
    """So many attempts may fail there within JOB_EXIT_RATE_DURATION; None: any number."""
    exits: int = 0
    """So many have, as far as they are counted."""

    @property
    def is_beyond_exit_limit(self) -> bool:
        """Whether more have failed than may."""
        return self.exit_limit is not None and self.exits > self.exit_limit


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as gqueues sees it; counts are in slots."""

    name: str
    priority: int
    description: str = ""
    status: str = "Open:Active"
    job_limit: int | None = None
    user_limit: int | None = None
    host_limit: int | None = None
    njobs: int = 0
    pend: int = 0
    run: int = 0
    ssusp: int = 0
    ususp: int = 0
    rsv: int = 0
    nice: int = 0
    run_limit_s: int | None = None
    default_run_limit_s: int | None = None
    users: tuple[str, ...] = ()
    """Who may use it; empty means everybody."""
    hosts: tuple[str, ...] = ()
    """Where its jobs may run; empty means everywhere."""
    res_req: str = ""
    gpu_req: str = ""
    policies: tuple[str, ...] = ()
    """SCHEDULING POLICIES as LSF prints them: FAIRSHARE, BACKFILL, EXCLUSIVE, PREEMPTIVE …"""
    shares: tuple[ShareView, ...] = ()
    administrators: tuple[str, ...] = ()
    processor_limit: float | None = None
    thresholds: dict[str, str] = {}
    """Load index -> `sched/stop`, as configured."""
    pjobs: int = 0
    """Pending jobs; `pend` counts their slots."""
    facts: dict[str, str] = {}
    """Further parameters by LSF's names (PREEMPTION, RUN_WINDOWS, REQUEUE_EXIT_VALUES …) as text."""
    defaulted: tuple[str, ...] = ()
    """Those of the facts that nobody stated: factors of a fairshare queue."""
    exceptions: ExceptionThresholds | None = None
    """From when on its jobs count as exceptions; None: they never do."""


class Parameter(msgspec.Struct, frozen=True):
    """A setting by its name in lsb.params, with the value that counts, written as in the file."""

    name: str
    value: str


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """What gid, gadmin and `gsched status` ask first."""

    cluster: str
    master_host: str
    version: str
    default_queue: str
    """One, or several between blanks."""
    external_resources: tuple[str, ...] = ()
    """Names with an instance on at least one host, in lsf.shared's order."""
    cycle_summary: str = ""
    """One sentence about the last scheduling cycle."""
    store_problem: str = ""
    """Why new commands are refused for now (a full disk); empty when all is well."""
    quarantined: tuple[str, ...] = ()
    """Jobs set aside because a record of theirs could not be read, with the reason."""
    administrators: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    """lsb.params as it counts, defaults included; only when they were asked for."""
    may_administer: bool = False
    """Whether who asks is an administrator of the cluster."""


class EventRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A stored event as a reader gets it: `payload` is its JSON (gsched.model.event)."""

    seq: int
    at: float
    kind: str
    job_id: int = 0
    payload: str = ""


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """One job to submit: its spec plus the texts that the spec only refers to."""

    spec: JobSpec
    environment: bytes = b""
    """`NAME=value` pieces, each ended by a NUL byte, as the kernel keeps them."""
    script: bytes = b""
    input: bytes | None = None
    """-is: the input file's contents."""
    notice_targets: bytes = b""
    """Where the job's notices go (gsched.model.jobs.notice_targets.packed_targets)."""


class Submitted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer to one submission. `warnings` are lines for stderr."""

    job_id: int
    queue: str
    default_queue: bool
    warnings: tuple[AnyText, ...] = ()


class JobEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended; of an array: how all its elements did."""

    job_id: int
    state: str
    """DONE or EXIT; of an array EXIT when any element is. Empty: there is no such job (any more)."""
    result: AttemptResult | None = None
    """How its last attempt ended; None for an array."""
    host: str = ""
    """Its first execution host; empty for an array, and for a job that never got one."""
    name: str = ""
    counts: dict[str, int] = {}
    """Of an array: state -> elements in it."""

    def __repr__(self) -> str:
        return f"<JobEnd {show_job(self.job_id)} {self.state} {self.exit_code}>"

    @property
    def succeeded(self) -> bool:
        """Whether the job, or every element of the array, is DONE."""
        return self.state == JobState.DONE

    @property
    def exit_code(self) -> int:
        """What a shell would say: the exit code, 128 and the signal, 126 for a job that never started, 255 when nobody
        knows. Of an array 0 or 1.
        """
        if self.result is None:
            return 0 if self.succeeded else 1
        if not self.result.started and not self.host:
            return NEVER_STARTED
        if self.result.signal is not None:
            return 128 + self.result.signal
        return LSF_FAILURE if self.result.exit_code is None else self.result.exit_code


class OutputChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a running job's output. `stream` is "stdout" or "stderr"."""

    stream: str
    data: bytes = b""


class ReconfigResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `gadmin ckconfig` and `reconfig` report."""

    applied: bool
    problems: tuple[str, ...] = ()
    """`file:line: what`, errors first in file order."""
    notes: tuple[str, ...] = ()


class JobHistory(msgspec.Struct, frozen=True, kw_only=True):
    """All stored events of one job, oldest first."""

    job_id: int
    events: tuple[EventRecord, ...] = ()


class ConditionView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a condition on jobs holds; `is_final`: it stays so. `text` names what decides."""

    holds: bool
    is_final: bool = False
    text: AnyText = ""
    job_ids: tuple[int, ...] = ()
    """The jobs and arrays that it is about."""
    seq: int = 0
    """The newest event that was looked at."""


class StartForecast(msgspec.Struct, frozen=True, kw_only=True):
    """When a job could start if it were submitted now."""

    starts_now: bool = False
    hosts: tuple[str, ...] = ()
    """Where it would start at once."""
    planned: PlannedStart | None = None
    """What can be said of a later start; None: nothing."""
    reasons: tuple[PendingReason, ...] = ()
    """Why it would not start at once."""
    is_alone: bool = False
    """Nothing can be said of it because of others that wait: it is planned for as if it were the only one."""
    waits_for: str = ""
    """What must come first: `hold`, `time` or `condition`; the rest is as if it had come."""
    job_id: int = 0
    """The number that it would have; 0: a master before 0.1 does not say."""
    queue: str = ""
    """Its queue; the first of those that it may choose from."""
    slots: int = 0
    """That it would have at the least."""


class Control(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer to kill, stop, resume or a change of one job: `error` empty when it was accepted."""

    job_id: int
    error: str = ""
    about: tuple[str, ...] = ()
    """Fields of the job's spec that the error is about, where that is known."""
    refused_as: str = ""
    """The gRPC status that the error would travel as; empty where that is not known."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a control of something that is no job (queue, job group, reservation): a line for people."""

    name: str
    text: str = ""
    error: str = ""
