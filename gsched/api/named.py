"""The ways in which a program names a job: by its number, its handle, or what a query answered."""

from __future__ import annotations

from typing import Protocol

from gsched.api.values import whole_or_none
from gsched.base.errors import BadRequest


class HasId(Protocol):
    """A Job: `id` is its number."""

    @property
    def id(self) -> int: ...


class HasJobId(Protocol):
    """A JobView, an EventRecord, a JobEnd."""

    @property
    def job_id(self) -> int: ...


NamesJob = int | HasId | HasJobId


def number_of(job: NamesJob) -> int:
    """The number of the job. Raises BadRequest for what names none."""
    number = whole_or_none(job)
    if number is None:
        number = whole_or_none(getattr(job, "id", None) or getattr(job, "job_id", None))
    if number is None or number <= 0:
        raise BadRequest(f"{job!r} names no job: give a number, a Job or a JobView")
    return number
