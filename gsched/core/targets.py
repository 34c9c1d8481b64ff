"""Which jobs a control means: by number, by array, by element, or all that a filter admits.

It finds and checks; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from gsched.base.ids import array_of, index_of
from gsched.core.array import JobArray, indices_of
from gsched.core.cluster import ClusterState
from gsched.core.job import Job
from gsched.core.roles import Caller
from gsched.core.select_jobs import admits
from gsched.model.job import FINISHED
from gsched.model.view import JobFilter

NOT_FOUND = "No matching job found"


@dataclass(frozen=True, slots=True)
class Target:
    """What one number of a command stands for. `error` is set when nothing can be done.

    `jobs`: jobs of their own, elements among them. `array`: its elements that still wait in its record are meant too.
    """

    job_id: int
    jobs: tuple[Job, ...] = ()
    array: JobArray | None = None
    error: str = ""
    ended_in: JobArray | None = None
    """The array of an element that ended without having been started, which is an error but for a requeue."""


def find(state: ClusterState, job_id: int) -> Target:
    """The job, the array, or the element of that number."""
    array = state.arrays.get(array_of(job_id))
    set_aside = state.quarantined.get(job_id) or state.quarantined.get(array_of(job_id))
    if set_aside:
        return Target(job_id, error=f"the job is set aside: {set_aside}")
    if array is None:
        job = state.jobs.get(job_id)
        return Target(job_id, (job,)) if job is not None else Target(job_id, error=NOT_FOUND)
    index = index_of(job_id)
    if not index:
        return Target(job_id, tuple(members(state, array)), array)
    job = state.jobs.get(job_id)
    if job is not None:
        return Target(job_id, (job,))
    if array.has_waiting(index):
        return Target(job_id, (array.element(index),))
    ended = index in array.indices
    if not ended:
        return Target(job_id, error=NOT_FOUND)
    unstarted = any(index in indices_of(each.indices) for each in array.unstarted)
    return Target(job_id, error="Job has already finished", ended_in=array if unstarted else None)


def members(state: ClusterState, array: JobArray) -> Iterator[Job]:
    """The array's elements that are jobs of their own, by index."""
    for index in chain(array.begun(), sorted(array.taken)):  # a million that wait cost nothing
        job = state.jobs.get(index << 32 | array.array_id)
        if job is not None:
            yield job


def admitted(state: ClusterState, caller: Caller, wanted: JobFilter) -> Iterator[Target]:
    """Unfinished jobs that the filter admits: the caller's own, or those of the user it names.

    The waiting elements of an array are one target.
    """
    user, numbers = wanted.user or caller.user, frozenset(wanted.ids)
    for job in list(state.jobs.values()):
        mine = user == "all" or job.spec.user == user
        if job.state not in FINISHED and mine and admits(wanted, job, any_user=True, numbers=numbers):
            yield Target(job.job_id, (job,))
    for array in list(state.arrays.values()):
        mine = user == "all" or array.spec.user == user
        if array.count and mine and admits(wanted, array.template(), any_user=True, numbers=numbers):
            yield Target(array.array_id, (), array)
