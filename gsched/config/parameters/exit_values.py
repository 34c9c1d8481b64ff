"""REQUEUE_EXIT_VALUES and SUCCESS_EXIT_VALUES as a file gives them. The forms are gsched.model.jobs.requeue_exits'
business.
"""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import show
from gsched.model.jobs.requeue_exits import fault_in, success_fault_in


def exit_values(text: str) -> str:
    """The text with single blanks. Raises BadRequest when it is not of that form."""
    fault = fault_in(text)
    if fault is not None:
        raise BadRequest(f"'{show(fault.quoted)}'{fault.complaint}")
    return " ".join(text.split())


def success_values(text: str) -> str:
    """The text with single blanks. Raises BadRequest when it is no list of exit codes and ranges of them."""
    word = success_fault_in(text)
    if word is not None:
        raise BadRequest(f"'{show(word)}' is neither an exit code from 1 to 255 nor a range of them such as 3-9")
    return " ".join(text.split())
