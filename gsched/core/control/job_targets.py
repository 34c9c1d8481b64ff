"""Which jobs a control means: by number, by array, by element, or all that a filter admits.

It finds and checks; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import chain

from gsched.base.ids import array_of, index_of
from gsched.core.authorization import Caller
from gsched.core.command_turns import Turn
from gsched.core.control.job_filter import admits, name_weight
from gsched.core.records.array import JobArray, indices_of
from gsched.core.records.job import JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.model.jobs.job import FINISHED
from gsched.model.views.view import JobFilter

NOT_FOUND = "No matching job found"


@dataclass(frozen=True, slots=True)
class Target:
    """What one number of a command stands for. `error` is set when nothing can be done."""

    job_id: int
    job: JobRecord | None = None
    """A job of its own, perhaps an element."""
    array: JobArray | None = None
    """Its elements that still wait in its record are meant."""
    has_members: bool = False
    """So are those that are jobs of their own."""
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
        return Target(job_id, job) if job is not None else Target(job_id, error=NOT_FOUND)
    index = index_of(job_id)
    if not index:
        return Target(job_id, array=array, has_members=True)
    job = state.jobs.get(job_id)
    if job is not None:
        return Target(job_id, job)
    if array.has_waiting(index):
        return Target(job_id, array.element(index))
    ended = index in array.indices
    if not ended:
        return Target(job_id, error=NOT_FOUND)
    unstarted = any(index in indices_of(each.indices) for each in array.unstarted)
    return Target(job_id, error="Job has already finished", ended_in=array if unstarted else None)


def own_indices(array: JobArray) -> Iterator[int]:
    """Indices of the array's elements that are jobs of their own, or over: a million that wait cost nothing."""
    return chain(array.begun(), sorted(array.taken))


def admitted(state: ClusterState, caller: Caller, wanted: JobFilter, turn: Turn) -> Generator[None, None, list[int]]:
    """Numbers of the unfinished jobs that the filter admits: the caller's own, or those of the user it names. Those of
    arrays stand for the elements that wait in their records. Yields when a turn is over.
    """
    user, ids, found = wanted.user or caller.user, frozenset(wanted.ids), []
    for number in [*state.jobs, *state.arrays]:
        turn.spend()
        if turn.is_over:
            yield
        item = waiting_or_started(state, number)
        if item is None or (user != "all" and item.spec.user != user):
            continue
        turn.spend(name_weight(wanted, item.spec))
        if admits(wanted, item, any_user=True, numbers=ids):
            found.append(number)
    return found


def waiting_or_started(state: ClusterState, number: int) -> JobRecord | None:
    """The unfinished job of that number, or one that stands for the waiting elements of the array; else None."""
    job = state.jobs.get(number)
    if job is not None:
        return job if job.state not in FINISHED else None
    array = state.arrays.get(number)
    return array.template() if array is not None and array.count else None
