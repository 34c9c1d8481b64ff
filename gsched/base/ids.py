"""Identifiers that the engine does not decide: submission tokens, and the form of an attempt's name."""

from __future__ import annotations

import uuid


def new_token() -> str:
    """A token for one submission: the same token never makes a second job."""
    return uuid.uuid4().hex


def attempt_name(job_id: int, attempt: int) -> str:
    """Name of an attempt in paths and logs, `17.1`."""
    return f"{job_id}.{attempt}"


def parse_attempt_name(name: str) -> tuple[int, int]:
    """(job id, attempt) of a name made by `attempt_name`. Raises ValueError for anything else."""
    job, dot, attempt = name.partition(".")
    if not dot or not (job.isascii() and job.isdigit() and attempt.isascii() and attempt.isdigit()):
        raise ValueError(f"'{name}' is not the name of an attempt")
    return int(job), int(attempt)
