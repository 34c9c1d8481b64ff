"""Instructions: what the outside is told to do. Idempotent by (job, attempt); sent once their events are
durable.
"""

from __future__ import annotations

import msgspec

from gsched.model.gpus.gpu_idle import IdleLimits, IdleWarning
from gsched.model.jobs.notice import Notice
from gsched.model.ledgers.host_ledger import AttemptKey


class Instruction(msgspec.Struct, frozen=True):
    """Something the agent of `host` is to do."""

    host: str


class StartJob(Instruction, frozen=True):
    """Start the attempt; the agent ignores a repeat."""

    job_id: int
    attempt: int


class SaveRequest(msgspec.Struct, frozen=True):
    """What asks a job to save its state before it is ended, and how long it has for that."""

    signal: int
    """0: nothing on this host."""
    grace_s: int
    target: str = ""
    """As in SignalAttempt."""


class TerminateAttempt(Instruction, frozen=True):
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


class WarnAttempt(Instruction, frozen=True):
    """Warn it of its end, as its first host has. A repeat warns of nothing anew."""

    job_id: int
    attempt: int
    signal: int
    """0: it is only told when that is."""
    ends_by: float | None


class SpareAttempt(Instruction, frozen=True):
    """Do not end it when its time to save its state is over: nobody needs what it has any more. TerminateAttempt takes
    that back.
    """

    job_id: int
    attempt: int


class SignalAttempt(Instruction, frozen=True):
    """Send one signal to all its processes, or to those of `target` (`main`, `steps`), or of one step."""

    job_id: int
    attempt: int
    signal: int
    reason: str = ""
    """LSF's keyword for a job that ends by it."""
    target: str = ""
    step: int | None = None
    number: int = 0
    """Counts the signals of the attempt: one that was sent is not sent again. 0: it is not asked whether it was."""


class SuspendAttempt(Instruction, frozen=True):
    """Stop all processes of the attempt; `moves_gpus`: move them off its GPU before, if that can be done, and tell."""

    job_id: int
    attempt: int
    moves_gpus: bool = False


class ResumeAttempt(Instruction, frozen=True):
    """Let the processes of the attempt go on."""

    job_id: int
    attempt: int


class LimitAttempt(Instruction, frozen=True):
    """The job's limits are what its spec says now, not what they were when it was started."""

    job_id: int
    attempt: int


class JudgeIdleness(Instruction, frozen=True):
    """Its GPUs count as idle below these figures from now on."""

    job_id: int
    attempt: int
    limits: IdleLimits


class WarnIdle(Instruction, frozen=True):
    """Tell its owner that its GPUs are idle; the agent ignores a number that it has told already."""

    job_id: int
    attempt: int
    warning: IdleWarning


class ForgetAttempts(Instruction, frozen=True):
    """Their results are durable here: the agent may drop its journal of them."""

    attempts: tuple[AttemptKey, ...]


class ConfigureAgent(Instruction, frozen=True):
    """Take over the working parameters of the current configuration."""

    shared: tuple[str, ...] = ()
    """Shared resources that the agent reports for all hosts that have them."""


class OpenGpu(Instruction, frozen=True):
    """An administrator says that the GPU is well: a fault that it had is over."""

    uuid: str


class SendNotice(Instruction, frozen=True):
    """Send the notice; the agent ignores a repeat."""

    notice: Notice


class ForgetRemovedOutputs(Instruction, frozen=True):
    """That the outputs of these runs were removed is durable here."""

    attempts: tuple[tuple[int, int], ...]


class ForgetNotices(Instruction, frozen=True):
    """What became of these notices is durable here, or nobody wants them any more."""

    notice_ids: tuple[str, ...]
