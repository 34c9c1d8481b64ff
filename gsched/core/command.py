"""Commands: what the engine is asked to do and may refuse. Whoever builds one has already proven who is asking."""

from __future__ import annotations

from dataclasses import dataclass, field

from gsched.model.allocation import HostAllocation
from gsched.model.config import ClusterConfig
from gsched.model.host import GpuReport, LoadReport
from gsched.model.job import AttemptResult, JobSpec, Usage
from gsched.model.ledger import AttemptKey
from gsched.model.view import JobFilter


@dataclass(frozen=True, slots=True)
class Submit:
    """Make all of these jobs or none. The same token never makes a second set."""

    user: str
    token: str
    specs: tuple[JobSpec, ...]


@dataclass(frozen=True, slots=True)
class ControlJobs:
    """Kill, signal, stop or resume jobs: the ids, or the caller's unfinished jobs that the filter admits."""

    user: str
    is_admin: bool
    action: str
    job_ids: tuple[int, ...] = ()
    wanted: JobFilter | None = None
    signal: int = 0


@dataclass(frozen=True, slots=True)
class ControlHosts:
    """Open or close hosts."""

    user: str
    is_admin: bool
    action: str
    hosts: tuple[str, ...]
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Switch to a configuration that has been checked."""

    user: str
    config: ClusterConfig


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """An agent saw the attempt's first process run."""

    job_id: int
    attempt: int
    host: str
    pid: int
    at: float
    home: str = ""
    cwd: str = ""
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """An agent reports how an attempt ended; repeated until the agent is told to forget it."""

    job_id: int
    attempt: int
    host: str
    result: AttemptResult


@dataclass(frozen=True, slots=True)
class HeldAttempt:
    """An attempt in an agent's journal that has not ended, and what it holds there."""

    job_id: int
    attempt: int
    part: HostAllocation

    @property
    def key(self) -> AttemptKey:
        return (self.job_id, self.attempt)


@dataclass(frozen=True, slots=True)
class HostHello:
    """An agent has connected and tells what its journal holds. `session` numbers its connections."""

    host: str
    session: int
    boot_id: str
    version: str
    held: tuple[HeldAttempt, ...] = ()
    started: tuple[AttemptStarted, ...] = ()
    ended: tuple[AttemptEnded, ...] = ()


@dataclass(frozen=True, slots=True)
class HostReported:
    """A sign of life, with whatever the agent had to say."""

    host: str
    session: int
    load: LoadReport | None = None
    gpus: GpuReport | None = None
    usage: dict[AttemptKey, Usage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostDisconnected:
    """The agent's connection is gone."""

    host: str
    session: int


Command = (
    Submit
    | ControlJobs
    | ControlHosts
    | Reconfigure
    | AttemptStarted
    | AttemptEnded
    | HostHello
    | HostReported
    | HostDisconnected
)
