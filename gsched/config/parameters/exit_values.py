"""REQUEUE_EXIT_VALUES as a file gives it. The form itself is gsched.model.jobs.requeue_exits' business."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import show
from gsched.model.jobs.requeue_exits import fault_in


def exit_values(text: str) -> str:
    """The text with single blanks. Raises BadRequest when it is not of that form."""
    fault = fault_in(text)
    if fault is not None:
        raise BadRequest(f"'{show(fault.quoted)}'{fault.complaint}")
    return " ".join(text.split())
