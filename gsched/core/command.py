"""Commands: what the engine is asked to do and may refuse. Whoever builds one has already proven who is asking."""

from __future__ import annotations

from dataclasses import dataclass, field

from gsched.base.coded_text import AnyText
from gsched.model.config import ClusterConfig
from gsched.model.gpus.gpu_idle import AttemptIdleness
from gsched.model.hosts.host import GpuReport, LoadReport
from gsched.model.hosts.topology import Topology
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.jobs.notice import NoticeEnd
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.model.views.room_view import ReservationView
from gsched.model.views.view import JobFilter


@dataclass(frozen=True, slots=True)
class Submit:
    """Make all of these jobs or none. The same token never makes a second set."""

    user: str
    token: str
    specs: tuple[JobSpec, ...]


@dataclass(frozen=True, slots=True)
class JobCommand:
    """Something to be done to jobs: the ids, or the caller's jobs that the filter admits. The number of an array stands
    for all its elements. One subclass for each thing that can be done.
    """

    user: str
    is_admin: bool
    job_ids: tuple[int, ...] = ()
    wanted: JobFilter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KillJobs(JobCommand):
    """End jobs, with the signals and intervals that their queues have for it."""

    text: str = ""
    """Why, for the jobs' histories."""
    as_done: bool = False
    """Started jobs are DONE by it."""
    hangup: bool = False
    """Of interactive jobs, whose terminal is gone; they get SIGHUP, and SIGKILL soon afterwards."""
    kill_delay_s: int | None = None
    """Seconds from the signals that ask to SIGKILL; None: as usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalJobs(JobCommand):
    """Send a signal. One that stops or continues is carried out as StopJobs or ResumeJobs."""

    signal: int
    target: str = ""
    """Of jobs of Slurm's commands, whom it is for: `main`, `steps`; empty: all processes."""
    step: int | None = None
    """This step of the job alone; signal 0 ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopJobs(JobCommand):
    """Suspend jobs, or hold those that wait."""

    text: str = ""
    """Why, for the jobs' histories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeJobs(JobCommand):
    """Let suspended jobs go on."""

    text: str = ""
    """Why, for the jobs' histories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueJobs(JobCommand):
    """Have jobs that run, or have ended, wait again."""

    hold: bool = False
    """Wait as PSUSP."""
    states: tuple[str, ...] = ()
    """Only jobs in these states (RUN, DONE, EXIT); empty: RUN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveJobsToTop(JobCommand):
    """Give waiting jobs the first place in the order of their queue, or the `position`th."""

    position: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveJobsToBottom(JobCommand):
    """As MoveJobsToTop, counted from the end."""

    position: int = 1


@dataclass(frozen=True, slots=True)
class ExchangeJobs(JobCommand):
    """Two waiting jobs of a queue take each other's place in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJobs(JobCommand):
    """Start waiting jobs now, whatever else would have been first."""

    hosts: tuple[str, ...]
    """Where, each once; empty: wherever there is room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostToJobs(JobCommand):
    """Put a message into a box of each job."""

    box: int = 0
    text: str = ""
    attachment: str = ""
    """Id of the blob that goes with the message; empty: nothing does."""
    attached_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ModifyJobs:
    """Give the jobs other values for the named fields of their specs, taken from `spec` (gmod, gswitch)."""

    user: str
    is_admin: bool
    job_ids: tuple[int, ...]
    spec: JobSpec
    fields: tuple[str, ...]
    """Names of JobSpec fields; `queue` alone is a switch."""
    wanted: JobFilter | None = None


@dataclass(frozen=True, slots=True)
class EvaluateCondition:
    """Does a condition on jobs hold, as -w has them? Changes nothing."""

    user: str
    is_admin: bool
    text: str


@dataclass(frozen=True, slots=True)
class ForecastStart:
    """When could a job of this specification start? Changes nothing."""

    user: str
    is_admin: bool
    spec: JobSpec


@dataclass(frozen=True, slots=True)
class DryRunJob:
    """What would become of a job of this specification? Changes nothing."""

    user: str
    is_admin: bool
    spec: JobSpec


@dataclass(frozen=True, slots=True)
class ExplainJob:
    """Why does this job wait, and until when? Changes nothing."""

    user: str
    is_admin: bool
    job_id: int


@dataclass(frozen=True, slots=True)
class CompareJobs:
    """Why does the one job wait, and the other run or stand before it? Changes nothing."""

    user: str
    is_admin: bool
    job_id: int
    other_id: int


@dataclass(frozen=True, slots=True)
class ControlQueues:
    """`open`, `close`, `activate` or `inactivate` queues."""

    user: str
    is_admin: bool
    action: str
    queues: tuple[str, ...]
    comment: str = ""


@dataclass(frozen=True, slots=True)
class ControlGroups:
    """`add`, `modify` or `remove` job groups. `job_limit` -1: no limit."""

    user: str
    is_admin: bool
    action: str
    groups: tuple[str, ...]
    job_limit: int = -1


@dataclass(frozen=True, slots=True)
class ControlReservations:
    """`add`, `modify` or `remove` an advance reservation."""

    user: str
    is_admin: bool
    action: str
    reservation: ReservationView
    slots: int = 0
    """Slots to be found on hosts that meet `requirement`, where `reservation` names no hosts with slots."""
    gpus: int = 0
    hosts: tuple[str, ...] = ()
    requirement: str = ""


@dataclass(frozen=True, slots=True)
class ControlHosts:
    """Open or close hosts."""

    user: str
    is_admin: bool
    action: str
    hosts: tuple[str, ...]
    comment: str = ""


@dataclass(frozen=True, slots=True)
class DrainHosts:
    """Close hosts and have their jobs run again elsewhere, as far as they can. `grace_s`: so long has who saves its
    state; None: as each job says.
    """

    user: str
    is_admin: bool
    hosts: tuple[str, ...]
    comment: str = ""
    grace_s: int | None = None


@dataclass(frozen=True, slots=True)
class ControlGpus:
    """Open or close single GPUs: `HOST:INDEX` or a UUID each. `until` (UTC seconds): when they open by themselves."""

    user: str
    is_admin: bool
    action: str
    gpus: tuple[str, ...]
    comment: str = ""
    until: float | None = None


@dataclass(frozen=True, slots=True)
class EndOrphans:
    """End attempts that the store has no record of: `all`, those of a host, or one by its name `JOB.ATTEMPT`."""

    user: str
    is_admin: bool
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RaiseNumbers:
    """Job numbers below `next_job_id` have been given out by a store that is lost."""

    next_job_id: int
    why: str


@dataclass(frozen=True, slots=True)
class RenewStore:
    """The store is of this generation, which is later than the state knows."""

    generation: int


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Switch to a configuration that has been checked. `started`: the master has come up with it."""

    user: str
    config: ClusterConfig
    started: bool = False
    files: str = ""
    """Blob with what its files say."""


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
    is_part: bool = False
    """Of the job's part on a host that is not its first."""
    given_up: bool = False
    """The attempt had been given up, and is not there."""
    foreign: bool = False
    """Another store than the master's had ordered it."""
    generation: int = 0
    """Which of the master's store had; 0: that is not known."""
    gpu_curves: bytes = b""
    """What it made of its GPUs over time, packed by `gsched.model.gpus.gpu_curve`; empty: nobody knows."""


@dataclass(frozen=True, slots=True)
class ServiceAnswers:
    """The attempt listens on the port of its service since `at`, UTC seconds."""

    job_id: int
    attempt: int
    host: str
    port: int
    at: float


@dataclass(frozen=True, slots=True)
class AttemptWarned:
    """The agent of its first host has warned the attempt of its end at `ends_by`, UTC seconds."""

    job_id: int
    attempt: int
    host: str
    ends_by: float | None = None


@dataclass(frozen=True, slots=True)
class AttemptMoved:
    """The suspended attempt is off its GPU; or it keeps it, and `why` says why."""

    job_id: int
    attempt: int
    host: str
    why: AnyText = ""


@dataclass(frozen=True, slots=True)
class AttemptUnkillable:
    """SIGKILL does not end these processes of the attempt, which therefore has not ended: (number, name) of each."""

    job_id: int
    attempt: int
    host: str
    processes: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class HeldAttempt:
    """An attempt in an agent's journal that has not ended, and what it holds there."""

    job_id: int
    attempt: int
    part: HostAllocation
    foreign: bool = False
    """Another store than the master's has ordered it."""
    generation: int = 0
    """Which of the master's store has; 0: that is not known."""

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
    topology: Topology | None = None
    """None: the agent cannot tell."""
    only_user: str = ""
    """Whose jobs alone it starts; empty: everybody's."""
    notices: tuple[str, ...] = ()
    """Notices that it has and that are not over."""
    notice_ends: tuple[NoticeEnd, ...] = ()
    """Those that are."""
    numbers_from: int = 1
    """It knows, from another or a later store than the master's, that all job numbers below have been given out."""


@dataclass(frozen=True, slots=True)
class NoticeSettled:
    """An agent tells what became of a notice; repeated until it is told to forget it."""

    host: str
    end: NoticeEnd


@dataclass(frozen=True, slots=True)
class HostReported:
    """A sign of life, with whatever the agent had to say."""

    host: str
    session: int
    load: LoadReport | None = None
    gpus: GpuReport | None = None
    usage: dict[AttemptKey, Usage] = field(default_factory=dict)
    idle: dict[AttemptKey, AttemptIdleness] = field(default_factory=dict)
    """Of those of `usage` that hold GPUs."""
    service_idle: dict[AttemptKey, float] = field(default_factory=dict)
    """Of those with a service: seconds for which nobody has used it."""


@dataclass(frozen=True, slots=True)
class HostDisconnected:
    """The agent's connection is gone."""

    host: str
    session: int


Command = (
    Submit
    | JobCommand
    | ModifyJobs
    | EvaluateCondition
    | ForecastStart
    | ExplainJob
    | CompareJobs
    | DryRunJob
    | ControlHosts
    | DrainHosts
    | ControlGpus
    | ControlQueues
    | ControlGroups
    | ControlReservations
    | EndOrphans
    | RaiseNumbers
    | RenewStore
    | Reconfigure
    | AttemptStarted
    | AttemptEnded
    | AttemptUnkillable
    | ServiceAnswers
    | AttemptWarned
    | AttemptMoved
    | NoticeSettled
    | HostHello
    | HostReported
    | HostDisconnected
)
