"""The slots of the jobs that a filter admits, by state, for `gjobs -sum`: counted here, so that no job travels.

Everything comes from published views; waiting elements of an array are counted by their number.
"""

from __future__ import annotations

from collections.abc import Collection, Container

import msgspec

from gsched.base.ids import index_of
from gsched.core.control.job_filter import admits
from gsched.master.views.array_views import ArrayCopy
from gsched.master.views.board import Board
from gsched.master.views.listing_order import Listing
from gsched.master.views.published_jobs import Untouched
from gsched.model.jobs.job import FINISHED, PENDING
from gsched.model.views.view import JobFilter, JobView


def slot_sums(board: Board, wanted: JobFilter) -> dict[str, int]:
    """State -> slots that unfinished jobs in it hold or wait for."""
    counts: dict[str, int] = {}
    arrays, jobs = board.records(wanted)
    by_name, numbers = Listing(wanted, board.config), frozenset(wanted.ids)
    loose = msgspec.structs.replace(wanted, name="")
    for job in jobs.values():
        is_admitted = by_name.admits(job) if wanted.name else admits(loose, job, numbers=numbers)
        if is_admitted and job.state not in FINISHED:
            counts[job.state] = counts.get(job.state, 0) + _slots(job)
    for array in arrays:
        waiting = _waiting(array, board.members(array.array_id), jobs, by_name if wanted.name or wanted.ids else None)
        if waiting and admits(msgspec.structs.replace(loose, ids=()), array.template):
            state = array.template.state
            counts[state] = counts.get(state, 0) + waiting * array.template.spec.slots
    return counts


def _slots(job: JobView | Untouched) -> int:
    held = job.allocation
    return held.slots if held is not None and job.state not in PENDING else job.spec.slots


def _waiting(array: ArrayCopy, members: Collection[int], jobs: Container[int], chosen: Listing | None) -> int:
    """Elements in the array's record that `chosen` admits, or all: without those that are jobs of their own by now."""
    if not array.count:
        return 0
    if chosen is not None:
        return sum(1 for _ in chosen.waiting(array, jobs))
    became = (number for number in members if number in jobs)
    return array.count - sum(array.has_waiting(index_of(number)) for number in became)
