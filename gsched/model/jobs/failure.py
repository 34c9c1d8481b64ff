"""Why an attempt failed, beside its exit code: one class of failure, and a detail where there is one.

The class is a code that events and agents carry; users name it in RETRY and read it in `gjobs -o fail_class`. What it
means in words, and what to do next, is made where it is shown. What a job printed is never part of it: others may read
a job's history, and not its output. Pure.
"""

from __future__ import annotations

import signal
from enum import StrEnum

import msgspec

from gsched.base.coded_text import CodedText, coded
from gsched.base.sentences import SENTENCES
from gsched.model.gpus.xid import OF_THE_DEVICE
from gsched.model.jobs.job import AttemptFailure, AttemptResult

LONGEST_DETAIL = 80
"""Characters of a detail."""


class FailureClass(StrEnum):
    """The classes of failures. A value never changes once events are stored."""

    KILLED = "killed"
    LIMIT = "limit"
    SYSTEM = "system"
    NOT_STARTED = "not_started"
    HOST_DOWN = "host_down"
    XID = "xid"
    HOST_OOM = "host_oom"
    CUDA_OOM = "cuda_oom"
    GPU_BUSY = "gpu_busy"
    NO_GPU = "no_gpu"
    GPU_DRIVER = "gpu_driver"
    CUDA_ERROR = "cuda_error"
    NCCL_TIMEOUT = "nccl_timeout"
    NCCL_ERROR = "nccl_error"
    DISK_FULL = "disk_full"
    SHM_FULL = "shm_full"
    MISSING_LIBRARY = "missing_library"
    PYTHON_IMPORT = "python_import"
    PYTHON_ERROR = "python_error"
    COMMAND_NOT_FOUND = "command_not_found"
    NOT_EXECUTABLE = "not_executable"
    SEGFAULT = "segfault"
    SIGNAL = "signal"
    EXIT_CODE = "exit_code"
    UNKNOWN = "unknown"


_BY_A_PERSON = frozenset(
    {"TERM_OWNER", "TERM_ADMIN", "TERM_FORCE_OWNER", "TERM_FORCE_ADMIN", "TERM_REQUEUE_OWNER", "TERM_REQUEUE_ADMIN"}
)
_BY_A_LIMIT = frozenset(
    {
        *("TERM_RUNLIMIT", "TERM_CPULIMIT", "TERM_MEMLIMIT", "TERM_SWAP", "TERM_PROCESSLIMIT", "TERM_THREADLIMIT"),
        "TERM_DEADLINE",
    }
)
_OF_TERM_REASON: dict[str, FailureClass] = {
    **dict.fromkeys(_BY_A_PERSON, FailureClass.KILLED),
    **dict.fromkeys(_BY_A_LIMIT, FailureClass.LIMIT),
    "TERM_GPU": FailureClass.XID,
    "TERM_EXTERNAL_SIGNAL": FailureClass.SIGNAL,
    "TERM_CWD_NOTEXIST": FailureClass.NOT_STARTED,
}
"""Of LSF's keywords; the others are of the system."""
_FIRST_SIGNAL = 128
"""A shell exits with this and the number of the signal that its child died of."""
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGBUS})


def failure_of(result: AttemptResult) -> AttemptFailure | None:
    """Why an attempt with that end failed; None for one that did not fail.

    What was done to it comes first, then what its host and its GPUs tell, then what its output tells (`result.failure`,
    which agents of before do not have), and last its exit status alone.
    """
    if (result.succeeded and result.started) or result.is_interrupted:
        return None
    if result.term_reason:
        kind = _OF_TERM_REASON.get(result.term_reason, FailureClass.SYSTEM)
        if kind is not FailureClass.XID:
            return AttemptFailure(kind=kind, detail=result.term_reason)
        is_told = result.failure is not None and result.failure.kind == kind
        return result.failure if is_told else AttemptFailure(kind=kind)
    if result.host_down:
        return AttemptFailure(kind=FailureClass.HOST_DOWN)
    if not result.started:
        return AttemptFailure(kind=FailureClass.NOT_STARTED)
    if result.failure is not None:
        return result.failure
    return _of_status(result)


def death(result: AttemptResult) -> int:
    """The signal that it died of, also where a shell passes its child's death on; 0: of none."""
    if result.signal is not None:
        return result.signal
    number = (result.exit_code or 0) - _FIRST_SIGNAL
    return number if 0 < number < signal.SIGRTMIN else 0


def _of_status(result: AttemptResult) -> AttemptFailure:
    number = death(result)
    if number in _CRASHES:
        return AttemptFailure(kind=FailureClass.SEGFAULT, detail=_signal_name(number))
    if number:
        return AttemptFailure(kind=FailureClass.SIGNAL, detail=_signal_name(number))
    if result.exit_code is None:
        return AttemptFailure(kind=FailureClass.UNKNOWN)
    if result.exit_code == _NOT_FOUND:
        return AttemptFailure(kind=FailureClass.COMMAND_NOT_FOUND)
    if result.exit_code == _NOT_EXECUTABLE:
        return AttemptFailure(kind=FailureClass.NOT_EXECUTABLE)
    return AttemptFailure(kind=FailureClass.EXIT_CODE, detail=str(result.exit_code))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def judge(result: AttemptResult, said: AttemptFailure | None, *, xids: tuple[int, ...] = ()) -> AttemptResult:
    """The result with what its status alone does not tell: `said` by its output, errors of the driver (`xids`), and
    processes that the kernel killed for want of memory. Most XIDs come from a program's own mistakes, of which its
    output tells more.
    """
    of_device = [number for number in xids if number in OF_THE_DEVICE]
    failure = said
    if of_device:
        failure = AttemptFailure(kind=FailureClass.XID, detail=str(of_device[0]))
    elif result.oom_kills:
        failure = AttemptFailure(kind=FailureClass.HOST_OOM)
    elif xids and (said is None or said.kind == FailureClass.PYTHON_ERROR):
        failure = AttemptFailure(kind=FailureClass.XID, detail=str(xids[0]))
    return result if failure == result.failure else msgspec.structs.replace(result, failure=failure)


def is_plain(failure: AttemptFailure) -> bool:
    """Whether LSF's own lines about the end say as much."""
    if failure.kind == FailureClass.SIGNAL:
        return f"failure.advice.{failure.kind}.{failure.detail}" not in SENTENCES
    return failure.kind in (FailureClass.KILLED, FailureClass.EXIT_CODE)


def failure_text(failure: AttemptFailure) -> CodedText:
    """What has happened, in a sentence."""
    return _worded(f"failure.{failure.kind}", failure.detail)


def failure_advice(failure: AttemptFailure) -> CodedText | None:
    """What to do next; None where there is nothing to be said."""
    codes = (f"failure.advice.{failure.kind}.{failure.detail}", f"failure.advice.{failure.kind}")
    return next((coded(code) for code in codes if code in SENTENCES), None)


def _worded(code: str, detail: str) -> CodedText:
    """With the detail where there is a sentence for it; of a class that is not known here its name."""
    if code not in SENTENCES:
        return coded("failure.other", code.removeprefix("failure."))
    if detail and f"{code}.of" in SENTENCES:
        return coded(f"{code}.of", detail)
    return coded(code)
