"""RETRY, REQUEUE_EXIT_VALUES, SUCCESS_EXIT_VALUES, CHKPNT_SIGNAL, JOB_WARNING_ACTION, the retries of pre-execution
commands and GLOBAL_EXIT_RATE as a file gives them. The forms of the first four are the business of gsched.model.jobs.
"""

from __future__ import annotations

import signal

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import show
from gsched.config.grammar.values import KeyValues, integer, yes_or_no
from gsched.model.hosts.exit_rates import NO_LIMIT, ExitKind, ExitRates
from gsched.model.jobs.job_signal import read_save_signal
from gsched.model.jobs.requeue_exits import fault_in as requeue_fault_in
from gsched.model.jobs.requeue_exits import success_fault_in
from gsched.model.jobs.retry import fault_in

_PREEXEC_RETRIES = integer(1, 2**31 - 2)
_NEVER_CAUGHT = ("KILL", "STOP")
_LONGEST_MIN = 7 * 24 * 60
"""Of JOB_EXIT_RATE_DURATION."""


def retries(text: str) -> str:
    """The text with single blanks. Raises BadRequest when it is not of that form."""
    fault = fault_in(text)
    if fault is not None:
        raise BadRequest(f"'{show(fault.quoted)}'{fault.complaint}")
    return " ".join(text.split())


def exit_values(text: str) -> str:
    """The text with single blanks. Raises BadRequest when it is not of that form."""
    fault = requeue_fault_in(text)
    if fault is not None:
        raise BadRequest(f"'{show(fault.quoted)}'{fault.complaint}")
    return " ".join(text.split())


def success_values(text: str) -> str:
    """The text with single blanks. Raises BadRequest when it is no list of exit codes and ranges of them."""
    word = success_fault_in(text)
    if word is not None:
        raise BadRequest(f"'{show(word)}' is neither an exit code from 1 to 255 nor a range of them such as 3-9")
    return " ".join(text.split())


def save_signal(text: str) -> str:
    """The text. Raises BadRequest when it is not of the form of --signal."""
    if read_save_signal(text) is None:
        raise BadRequest(f"'{show(text)}' is not of the form [B:]SIGNAL[@SECONDS] with a signal that a job can catch")
    return text.strip()


def retry_action(text: str) -> bool:
    """LOCAL_MAX_PREEXEC_RETRY_ACTION: whether the job ends. Raises BadRequest."""
    if text.casefold() not in ("suspend", "exit"):
        raise BadRequest(f"'{show(text)}' is neither SUSPEND nor EXIT")
    return text.casefold() == "exit"


def warning_signal(text: str) -> str:
    """JOB_WARNING_ACTION: the name of a signal, without SIG. Raises BadRequest for CHKPNT, commands and all else."""
    name = text.upper().removeprefix("SIG")
    if name == "CHKPNT":
        raise BadRequest("'CHKPNT' is not supported yet: CHKPNT_SIGNAL asks jobs to save their state")
    if f"SIG{name}" not in signal.Signals.__members__ or name in _NEVER_CAUGHT:
        what = "is not the name of a signal that a job can catch; commands are not supported yet"
        raise BadRequest(f"'{show(text)}' {what}")
    return name


def preexec_retries(settings: KeyValues) -> int | None:
    """LOCAL_MAX_PREEXEC_RETRY, or MAX_PREEXEC_RETRY, which is its older name."""
    older = settings.take("MAX_PREEXEC_RETRY", _PREEXEC_RETRIES, None)
    return settings.take("LOCAL_MAX_PREEXEC_RETRY", _PREEXEC_RETRIES, older)


def exit_rate(text: str) -> int:
    """EXIT_RATE: how many may fail."""
    return integer(0, NO_LIMIT)(text)


def read_exit_rates(settings: KeyValues) -> ExitRates:
    """GLOBAL_EXIT_RATE and what goes with it."""
    default = ExitRates()
    most = settings.take("GLOBAL_EXIT_RATE", exit_rate, None)
    return ExitRates(
        most=None if most == NO_LIMIT else most,
        within_s=settings.take("JOB_EXIT_RATE_DURATION", integer(1, _LONGEST_MIN), default.within_s // 60) * 60.0,
        kinds=settings.take("EXIT_RATE_TYPE", _exit_kinds, default.kinds),
        per_slot=settings.take("ENABLE_EXIT_RATE_PER_SLOT", yes_or_no, default.per_slot),
    )


def _exit_kinds(text: str) -> frozenset[ExitKind]:
    found: set[ExitKind] = set()
    for word in text.split():
        try:
            found.add(ExitKind(word.upper()))
        except ValueError:
            raise BadRequest(f"'{show(word)}' is none of {', '.join(ExitKind)}") from None
    if found >= {ExitKind.ANY, ExitKind.OWN}:
        raise BadRequest(f"{ExitKind.ANY} and {ExitKind.OWN} exclude each other")
    if not found:
        raise BadRequest(f"none of {', '.join(ExitKind)} is named")
    return frozenset(found)
