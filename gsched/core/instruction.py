"""Instructions: what the outside is told to do. Idempotent by (job, attempt); sent once their events are
durable.
"""

from __future__ import annotations

from dataclasses import dataclass

from gsched.model.gpus.gpu_idle import IdleLimits, IdleWarning
from gsched.model.jobs.notice import Notice
from gsched.model.ledgers.host_ledger import AttemptKey


@dataclass(frozen=True, slots=True)
class Instruction:
    """Something the agent of `host` is to do."""

    host: str


@dataclass(frozen=True, slots=True)
class StartJob(Instruction):
    """Start the attempt; the agent ignores a repeat."""

    job_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """What asks a job to save its state before it is ended, and how long it has for that."""

    signal: int
    """0: nothing on this host."""
    grace_s: int
    target: str = ""
    """As in SignalAttempt."""


@dataclass(frozen=True, slots=True)
class TerminateAttempt(Instruction):
    """End it with all its processes: INT, TERM, KILL with JOB_TERMINATE_INTERVAL between."""

    job_id: int
    attempt: int
    reason: str = ""
    """LSF's keyword for why, TERM_OWNER say."""
    given_up: bool = False
    """Its job has ended or goes on without it: a part ends at once, and one that is not there is told to be over."""
    hangup: bool = False
    """Its terminal is gone: HUP, and KILL soon afterwards."""
    failed: bool = False
    """Its job has failed by itself: its agent is to say who else is on its GPUs."""
    kill_delay_s: int | None = None
    """Seconds from the signals that ask to SIGKILL; None: as usual."""
    save: SaveRequest | None = None
    """It is asked to save its state first. A repeat asks for nothing anew."""


@dataclass(frozen=True, slots=True)
class WarnAttempt(Instruction):
    """Warn it of its end, as its first host has. A repeat warns of nothing anew."""

    job_id: int
    attempt: int
    signal: int
    """0: it is only told when that is."""
    ends_by: float | None


@dataclass(frozen=True, slots=True)
class SpareAttempt(Instruction):
    """Do not end it when its time to save its state is over: nobody needs what it has any more. TerminateAttempt takes
    that back.
    """

    job_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class SignalAttempt(Instruction):
    """Send one signal to all its processes, or to those of `target` (`main`, `steps`), or of one step."""

    job_id: int
    attempt: int
    signal: int
    reason: str = ""
    """LSF's keyword for a job that ends by it."""
    target: str = ""
    step: int | None = None


@dataclass(frozen=True, slots=True)
class SuspendAttempt(Instruction):
    """Stop all processes of the attempt; `moves_gpus`: move them off its GPU before, if that can be done, and tell."""

    job_id: int
    attempt: int
    moves_gpus: bool = False


@dataclass(frozen=True, slots=True)
class ResumeAttempt(Instruction):
    """Let the processes of the attempt go on."""

    job_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class LimitAttempt(Instruction):
    """The job's limits are what its spec says now, not what they were when it was started."""

    job_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class JudgeIdleness(Instruction):
    """Its GPUs count as idle below these figures from now on."""

    job_id: int
    attempt: int
    limits: IdleLimits


@dataclass(frozen=True, slots=True)
class WarnIdle(Instruction):
    """Tell its owner that its GPUs are idle; the agent ignores a number that it has told already."""

    job_id: int
    attempt: int
    warning: IdleWarning


@dataclass(frozen=True, slots=True)
class ForgetAttempts(Instruction):
    """Their results are durable here: the agent may drop its journal of them."""

    attempts: tuple[AttemptKey, ...]


@dataclass(frozen=True, slots=True)
class ConfigureAgent(Instruction):
    """Take over the working parameters of the current configuration."""

    shared: tuple[str, ...] = ()
    """Shared resources that the agent reports for all hosts that have them."""


@dataclass(frozen=True, slots=True)
class OpenGpu(Instruction):
    """An administrator says that the GPU is well: a fault that it had is over."""

    uuid: str


@dataclass(frozen=True, slots=True)
class SendNotice(Instruction):
    """Send the notice; the agent ignores a repeat."""

    notice: Notice


@dataclass(frozen=True, slots=True)
class ForgetNotices(Instruction):
    """What became of these notices is durable here, or nobody wants them any more."""

    notice_ids: tuple[str, ...]
