"""Commands: what the engine is asked to do and may refuse. Whoever builds one has already proven who is asking."""

from __future__ import annotations

import msgspec

from gsched.base.coded_text import AnyText
from gsched.model.config import ClusterConfig
from gsched.model.gpus.gpu_idle import AttemptIdleness
from gsched.model.hosts.host import GpuReport, LoadReport
from gsched.model.hosts.kept_output import RemovedOutput
from gsched.model.hosts.topology import Topology
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.jobs.notice import NoticeEnd
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.model.views.room_view import ReservationView
from gsched.model.views.view import JobFilter


class Submit(msgspec.Struct, frozen=True):
    """Make all of these jobs or none. The same token never makes a second set."""

    user: str
    token: str
    specs: tuple[JobSpec, ...]


class JobCommand(msgspec.Struct, frozen=True):
    """Something to be done to jobs: the ids, or the caller's jobs that the filter admits. The number of an array stands
    for all its elements. One subclass for each thing that can be done.
    """

    user: str
    is_admin: bool
    job_ids: tuple[int, ...] = ()
    wanted: JobFilter | None = None


class KillJobs(JobCommand, frozen=True, kw_only=True):
    """End jobs, with the signals and intervals that their queues have for it."""

    text: str = ""
    """Why, for the jobs' histories."""
    as_done: bool = False
    """Started jobs are DONE by it."""
    hangup: bool = False
    """Of interactive jobs, whose terminal is gone; they get SIGHUP, and SIGKILL soon afterwards."""
    kill_delay_s: int | None = None
    """Seconds from the signals that ask to SIGKILL; None: as usual."""


class SignalJobs(JobCommand, frozen=True, kw_only=True):
    """Send a signal. One that stops or continues is carried out as StopJobs or ResumeJobs."""

    signal: int
    target: str = ""
    """Of jobs of Slurm's commands, whom it is for: `main`, `steps`; empty: all processes."""
    step: int | None = None
    """This step of the job alone; signal 0 ends it."""


class StopJobs(JobCommand, frozen=True, kw_only=True):
    """Suspend jobs, or hold those that wait."""

    text: str = ""
    """Why, for the jobs' histories."""


class ResumeJobs(JobCommand, frozen=True, kw_only=True):
    """Let suspended jobs go on."""

    text: str = ""
    """Why, for the jobs' histories."""


class RequeueJobs(JobCommand, frozen=True, kw_only=True):
    """Have jobs that run, or have ended, wait again."""

    hold: bool = False
    """Wait as PSUSP."""
    states: tuple[str, ...] = ()
    """Only jobs in these states (RUN, DONE, EXIT); empty: RUN."""


class ReleaseSlots(JobCommand, frozen=True, kw_only=True):
    """Have started jobs give slots back."""

    hosts: tuple[str, ...]
    """`HOST`, `NUMBER*HOST` or `all`."""
    cancels: bool = False
    """They ask for no more, either."""


class RequestSlots(JobCommand, frozen=True, kw_only=True):
    """Give started jobs so many slots more, as soon as there are any; 0: no more than they have."""

    slots: int


class MoveJobsToTop(JobCommand, frozen=True, kw_only=True):
    """Give waiting jobs the first place in the order of their queue, or the `position`th."""

    position: int = 1
    among_own: bool = False
    """Among the jobs of their user, also for administrators."""


class MoveJobsToBottom(JobCommand, frozen=True, kw_only=True):
    """As MoveJobsToTop, counted from the end."""

    position: int = 1
    among_own: bool = False


class ExchangeJobs(JobCommand, frozen=True):
    """Two waiting jobs of a queue take each other's place in its order."""


class RunJobs(JobCommand, frozen=True, kw_only=True):
    """Start waiting jobs now, whatever else would have been first."""

    hosts: tuple[str, ...]
    """Where, each once; empty: wherever there is room."""


class PostToJobs(JobCommand, frozen=True, kw_only=True):
    """Put a message into a box of each job."""

    box: int = 0
    text: str = ""
    attachment: str = ""
    """Id of the blob that goes with the message; empty: nothing does."""
    attached_bytes: int = 0


class ModifyJobs(msgspec.Struct, frozen=True):
    """Give the jobs other values for the named fields of their specs, taken from `spec` (gmod, gswitch)."""

    user: str
    is_admin: bool
    job_ids: tuple[int, ...]
    spec: JobSpec
    fields: tuple[str, ...]
    """Names of JobSpec fields; `queue` alone is a switch."""
    wanted: JobFilter | None = None


class EvaluateCondition(msgspec.Struct, frozen=True):
    """Does a condition on jobs hold, as -w has them? Changes nothing."""

    user: str
    is_admin: bool
    text: str


class ForecastStart(msgspec.Struct, frozen=True):
    """When could a job of this specification start? Changes nothing."""

    user: str
    is_admin: bool
    spec: JobSpec


class DryRunJob(msgspec.Struct, frozen=True):
    """What would become of a job of this specification? Changes nothing."""

    user: str
    is_admin: bool
    spec: JobSpec


class ExplainJob(msgspec.Struct, frozen=True):
    """Why does this job wait, and until when? Changes nothing."""

    user: str
    is_admin: bool
    job_id: int


class CompareJobs(msgspec.Struct, frozen=True):
    """Why does the one job wait, and the other run or stand before it? Changes nothing."""

    user: str
    is_admin: bool
    job_id: int
    other_id: int


class ControlQueues(msgspec.Struct, frozen=True):
    """`open`, `close`, `activate` or `inactivate` queues."""

    user: str
    is_admin: bool
    action: str
    queues: tuple[str, ...]
    comment: str = ""


class ControlGroups(msgspec.Struct, frozen=True):
    """`add`, `modify` or `remove` job groups. `job_limit` -1: no limit."""

    user: str
    is_admin: bool
    action: str
    groups: tuple[str, ...]
    job_limit: int = -1


class ControlReservations(msgspec.Struct, frozen=True):
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


class ControlHosts(msgspec.Struct, frozen=True):
    """Open or close hosts."""

    user: str
    is_admin: bool
    action: str
    hosts: tuple[str, ...]
    comment: str = ""


class DrainHosts(msgspec.Struct, frozen=True):
    """Close hosts and have their jobs run again elsewhere, as far as they can. `grace_s`: so long has who saves its
    state; None: as each job says.
    """

    user: str
    is_admin: bool
    hosts: tuple[str, ...]
    comment: str = ""
    grace_s: int | None = None


class ControlGpus(msgspec.Struct, frozen=True):
    """Open or close single GPUs: `HOST:INDEX` or a UUID each. `until` (UTC seconds): when they open by themselves."""

    user: str
    is_admin: bool
    action: str
    gpus: tuple[str, ...]
    comment: str = ""
    until: float | None = None


class EndOrphans(msgspec.Struct, frozen=True):
    """End attempts that the store has no record of: `all`, those of a host, or one by its name `JOB.ATTEMPT`."""

    user: str
    is_admin: bool
    names: tuple[str, ...]


class RaiseNumbers(msgspec.Struct, frozen=True):
    """Job numbers below `next_job_id` have been given out by a store that is lost."""

    next_job_id: int
    why: str


class NoteArchiving(msgspec.Struct, frozen=True):
    """An administrator begins to take jobs out of the store that this part of an archive has."""

    user: str
    part: str


class RenewStore(msgspec.Struct, frozen=True):
    """The store is of this generation, which is later than the state knows."""

    generation: int


class Reconfigure(msgspec.Struct, frozen=True):
    """Switch to a configuration that has been checked. `started`: the master has come up with it."""

    user: str
    config: ClusterConfig
    started: bool = False
    files: str = ""
    """Blob with what its files say."""


class AttemptStarted(msgspec.Struct, frozen=True):
    """An agent saw the attempt's first process run."""

    job_id: int
    attempt: int
    host: str
    pid: int
    at: float
    home: str = ""
    cwd: str = ""
    boot_id: str = ""


class AttemptEnded(msgspec.Struct, frozen=True):
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


class ServiceAnswers(msgspec.Struct, frozen=True):
    """The attempt listens on the port of its service since `at`, UTC seconds."""

    job_id: int
    attempt: int
    host: str
    port: int
    at: float


class AttemptWarned(msgspec.Struct, frozen=True):
    """The agent of its first host has warned the attempt of its end at `ends_by`, UTC seconds."""

    job_id: int
    attempt: int
    host: str
    ends_by: float | None = None


class SignalsSent(msgspec.Struct, frozen=True):
    """The agent has sent the attempt's processes on its host the signal of this number, and those before it."""

    job_id: int
    attempt: int
    host: str
    number: int


class AttemptMoved(msgspec.Struct, frozen=True):
    """The suspended attempt is off its GPU; or it keeps it, and `why` says why."""

    job_id: int
    attempt: int
    host: str
    why: AnyText = ""


class AttemptUnkillable(msgspec.Struct, frozen=True):
    """SIGKILL does not end these processes of the attempt, which therefore has not ended: (number, name) of each."""

    job_id: int
    attempt: int
    host: str
    processes: tuple[tuple[int, str], ...]


class HeldAttempt(msgspec.Struct, frozen=True):
    """An attempt in an agent's journal that has not ended, and what it holds there."""

    job_id: int
    attempt: int
    part: HostAllocation
    foreign: bool = False
    """Another store than the master's has ordered it."""
    generation: int = 0
    """Which of the master's store has; 0: that is not known."""
    signalled: int = 0
    """Number of the last signal that its processes were sent (SignalAttempt.number)."""

    @property
    def key(self) -> AttemptKey:
        return (self.job_id, self.attempt)


class HostHello(msgspec.Struct, frozen=True):
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
    confirms_signals: bool = False
    """It tells which signals it has sent, and sends none twice."""


class NoticeSettled(msgspec.Struct, frozen=True):
    """An agent tells what became of a notice; repeated until it is told to forget it."""

    host: str
    end: NoticeEnd


class OutputsRemoved(msgspec.Struct, frozen=True):
    """An agent tells what it no longer keeps of finished runs; repeated until it is told to forget it."""

    host: str
    outputs: tuple[RemovedOutput, ...]


class HostReported(msgspec.Struct, frozen=True):
    """A sign of life, with whatever the agent had to say."""

    host: str
    session: int
    load: LoadReport | None = None
    gpus: GpuReport | None = None
    usage: dict[AttemptKey, Usage] = msgspec.field(default_factory=dict)
    idle: dict[AttemptKey, AttemptIdleness] = msgspec.field(default_factory=dict)
    """Of those of `usage` that hold GPUs."""
    service_idle: dict[AttemptKey, float] = msgspec.field(default_factory=dict)
    """Of those with a service: seconds for which nobody has used it."""


class HostDisconnected(msgspec.Struct, frozen=True):
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
    | NoteArchiving
    | RenewStore
    | Reconfigure
    | AttemptStarted
    | AttemptEnded
    | AttemptUnkillable
    | ServiceAnswers
    | AttemptWarned
    | SignalsSent
    | AttemptMoved
    | NoticeSettled
    | OutputsRemoved
    | HostHello
    | HostReported
    | HostDisconnected
)
