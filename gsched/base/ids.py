"""Identifiers: submission tokens, numbers of jobs and of array elements, and the form of an attempt's name.

An element of an array is a job of its own: its number holds the array's in the low 32 bits and the index above them.
Source of the encoding: LSF's 64-bit job ids.
"""

from __future__ import annotations

import uuid


def new_token() -> str:
    """A token for one submission: the same token never makes a second job."""
    return uuid.uuid4().hex


LARGEST_JOB_NUMBER = 2147483646
"""The most that MAX_JOBID can be."""
_INDEX_SHIFT = 32
_ARRAY_MASK = (1 << _INDEX_SHIFT) - 1


def element_id(array_id: int, index: int) -> int:
    """Number of an array's element; with index 0 that of the array itself."""
    return index << _INDEX_SHIFT | array_id


def array_of(job_id: int) -> int:
    """JOBID as people see it: the array's number for an element, the job's own otherwise."""
    return job_id & _ARRAY_MASK


def index_of(job_id: int) -> int:
    """Index of an array's element; 0 for a job that is none."""
    return job_id >> _INDEX_SHIFT


def job_order(job_id: int) -> int:
    """Sort key: jobs by the number that people see, the elements of an array by index behind the array itself."""
    return (job_id & _ARRAY_MASK) << _INDEX_SHIFT | job_id >> _INDEX_SHIFT


def show_job(job_id: int) -> str:
    """`12`, or `12[3]` for an element."""
    index = index_of(job_id)
    return f"{array_of(job_id)}[{index}]" if index else str(job_id)


def attempt_name(job_id: int, attempt: int) -> str:
    """Name of an attempt in paths and logs, `17.1`."""
    return f"{job_id}.{attempt}"


def parse_attempt_name(name: str) -> tuple[int, int]:
    """(job id, attempt) of a name made by `attempt_name`. Raises ValueError for anything else."""
    job, dot, attempt = name.partition(".")
    if not dot or not (job.isascii() and job.isdigit() and attempt.isascii() and attempt.isdigit()):
        raise ValueError(f"'{name}' is not the name of an attempt")
    return int(job), int(attempt)
