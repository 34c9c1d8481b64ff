"""The address of a job's page, and back: `/jobs/17`, `/jobs/17.3` for an element of an array."""

from __future__ import annotations

from gsched.base.errors import NotFound
from gsched.base.ids import array_of, element_id, index_of
from gsched.cli.options.job_selection import MAX_INDEX, MAX_JOB_ID


def job_word(job_id: int) -> str:
    """`17`, `17.3`."""
    index = index_of(job_id)
    return f"{array_of(job_id)}.{index}" if index else str(job_id)


def job_path(job_id: int) -> str:
    """Where the job's page is."""
    return f"/jobs/{job_word(job_id)}"


def read_job(word: str) -> int:
    """The job's number. Raises NotFound for what names none."""
    number, dot, index = word.partition(".")
    if _is_number(number, MAX_JOB_ID) and (not dot or _is_number(index, MAX_INDEX)):
        return element_id(int(number), int(index or 0))
    raise NotFound(f"Job <{word[:60]}> is not found")


def _is_number(word: str, most: int) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 12 and 0 < int(word) <= most
