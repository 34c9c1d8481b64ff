"""Views: what a query answers. Made by the master from committed state, carried by wire, laid out by the commands.

A view is a copy that nobody changes. Texts that depend on the reader's time zone or terminal are not made here.
"""

from __future__ import annotations

import msgspec

from gsched.model.allocation import Allocation
from gsched.model.host import Gpu
from gsched.model.job import AttemptResult, JobSpec, Usage


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One external message of a job."""

    box: int
    user: str
    posted_at: float
    text: str


class JobView(msgspec.Struct, frozen=True, kw_only=True):
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
    notes: tuple[str, ...] = ()
    pending_reasons: tuple[str, ...] = ()
    """Dominant reason first; never empty for a pending job."""
    queue_priority: int = 0


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


class ResourceValue(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of a host in `ghosts -l`. None means unknown, printed `-`."""

    name: str
    total: float | None = None
    """What is left to give."""
    text: str = ""
    """Value of a String resource."""
    reserved: float | None = None
    consumable: bool = False


class GpuView(msgspec.Struct, frozen=True, kw_only=True):
    """A device of the ledger with who holds it."""

    gpu: Gpu
    holders: tuple[str, ...] = ()
    """Attempts, `17.1`."""


class HostView(msgspec.Struct, frozen=True, kw_only=True):
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
    """Built-in indices that are known."""
    externals: tuple[ResourceValue, ...] = ()
    """External resources of the host in lsf.shared's order."""
    gpus: tuple[GpuView, ...] = ()
    gpu_provider: str = ""
    notes: tuple[str, ...] = ()
    """Lines that explain: why there are no GPUs, an elim that died, a disagreement about a count."""
    comment: str = ""


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


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """What gid, gadmin and `gsched status` ask first."""

    cluster: str
    master_host: str
    version: str
    default_queue: str
    external_resources: tuple[str, ...] = ()
    """Names with an instance on at least one host, in lsf.shared's order."""
    cycle_summary: str = ""
    """One sentence about the last scheduling cycle."""
    store_problem: str = ""
    """Why new commands are refused for now (a full disk); empty when all is well."""
    quarantined: tuple[str, ...] = ()
    """Jobs set aside because a record of theirs could not be read, with the reason."""


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
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


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one submission. `warnings` are lines for stderr."""

    job_id: int
    queue: str
    default_queue: bool
    warnings: tuple[str, ...] = ()


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


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to kill, stop or resume of one job: `error` empty when it was accepted."""

    job_id: int
    error: str = ""
