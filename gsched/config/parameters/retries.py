"""RETRY and CHKPNT_SIGNAL as a file gives them. Their forms are the business of gsched.model.jobs."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import show
from gsched.model.jobs.job_signal import read_save_signal
from gsched.model.jobs.retry import fault_in


def retries(text: str) -> str:
    """The text with single blanks. Raises BadRequest when it is not of that form."""
    fault = fault_in(text)
    if fault is not None:
        raise BadRequest(f"'{show(fault.quoted)}'{fault.complaint}")
    return " ".join(text.split())


def save_signal(text: str) -> str:
    """The text. Raises BadRequest when it is not of the form of --signal."""
    if read_save_signal(text) is None:
        raise BadRequest(f"'{show(text)}' is not of the form [B:]SIGNAL[@SECONDS] with a signal that a job can catch")
    return text.strip()
