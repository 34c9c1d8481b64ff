"""What all appliers of events share: refusing an event that does not fit, and moving along legal transitions."""

from __future__ import annotations

from typing import NoReturn

from gsched.core.records.job import JobRecord
from gsched.model.event import JobEvent
from gsched.model.jobs.job import TRANSITIONS, JobState


class IllegalEvent(Exception):
    """The event cannot follow what the state holds; the text names the job and both."""


def move(job: JobRecord, new: JobState, event: JobEvent) -> None:
    if new not in TRANSITIONS[job.state]:
        raise IllegalEvent(f"job {job.job_id} is {job.state} and cannot become {new} by {type(event).__name__}")
    job.state = new


def check_current(job: JobRecord, attempt: int, event: JobEvent) -> None:
    if job.attempt != attempt:
        raise IllegalEvent(
            f"{type(event).__name__} is about attempt {attempt} of job {job.job_id}, which is at {job.attempt}"
        )


def refuse(job: JobRecord, event: JobEvent) -> NoReturn:
    raise IllegalEvent(f"{type(event).__name__} does not fit job {job.job_id}, which is {job.state}")
