"""What all appliers of events share: refusing an event that does not fit, and moving along legal transitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from gsched.core.records.job import JobRecord
from gsched.model.event import JobEvent
from gsched.model.jobs.job import TRANSITIONS, JobState
from gsched.model.ledgers.allocation import Allocation

if TYPE_CHECKING:
    from gsched.core.state.cluster_state import ClusterState


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


def check_place(state: ClusterState, job: JobRecord, attempt: int, allocation: Allocation) -> None:
    """The ledgers can take what the attempt is given: one part on each host, where it holds nothing already but what
    it gives back for it.
    """
    hosts = [part.host for part in allocation.parts]
    if not allocation.hosts or len(set(hosts)) < len(hosts):
        raise IllegalEvent(f"job {job.job_id} is given {allocation}, which is not one part on each host")
    own = {part.host for part in job.allocation.parts} if job.allocation is not None else set()
    for host in hosts:
        if host not in own and state.ledger.holds(host, (job.job_id, attempt)):
            raise IllegalEvent(f"attempt {attempt} of job {job.job_id} already holds something on {host}")
