"""The ways in which a program names a job: by its number, its handle, or what a query answered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from gsched.api.values import members, whole_or_none
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


def numbers_of(name: str, jobs: NamesJob | Iterable[NamesJob]) -> list[int]:
    """The numbers of jobs, or of the one job. Raises BadRequest naming the option for what names none."""
    one: Any = jobs
    if whole_or_none(one) is not None or hasattr(one, "id") or hasattr(one, "job_id"):
        return [number_of(one)]
    return [number_of(each) for each in members(name, jobs, "a job or a list of jobs")]
