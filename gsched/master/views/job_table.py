"""Jobs for tables that show little of each: number, name, submission, and what many jobs have in common, made once.

A listing of a hundred thousand jobs that wait makes no view of any of them. Nothing here knows how a table looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gsched.master.views.array_views import ArrayCopy
from gsched.master.views.board import Board
from gsched.master.views.published_jobs import FoundReasons, Untouched
from gsched.model.jobs.job import PENDING, JobSpec
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.views.jobs_in_columns import TableJob
from gsched.model.views.view import JobFilter, JobView

MOST_KEPT = 1_000
"""Views that are kept for further jobs."""
_NO_REASONS: FoundReasons = ((), None)


def table_jobs(board: Board, wanted: JobFilter, *, with_reasons: bool) -> Iterator[TableJob]:
    """The jobs that the filter admits, in the order of `Board.jobs`; those of this moment, however long it takes."""
    shared, listing = board.listed(wanted)
    alike = AlikeViews(with_reasons=with_reasons)
    arrays: dict[int, FoundReasons] = {}

    def why(job: JobView | Untouched, array: ArrayCopy | None) -> FoundReasons:
        is_asked = with_reasons and job.state in PENDING
        return board.found_reasons(job, array, shared, arrays) if is_asked else _NO_REASONS

    return (
        (job.job_id, job.spec.listed_name(job.job_id), job.submitted_at, alike.of(job, why(job, array)))
        for job, array in listing
    )


class AlikeViews:
    """One view for all jobs that show the same but for number, name and submission."""

    def __init__(self, *, with_reasons: bool) -> None:
        self._with_reasons = with_reasons
        self._known: dict[Any, JobView] = {}

    def of(self, job: JobView | Untouched, why: FoundReasons) -> JobView:
        """The view that the job shares with others. `why`: reasons that it waits for."""
        spec, held = job.spec, job.allocation
        hosts = None if held is None else tuple([(part.host, part.slots) for part in held.hosts])
        suspended = job.suspending_reason if self._with_reasons and isinstance(job, JobView) else ""
        # The reasons by their identity, which is quicker: they live as long as the view that is found by it.
        key = (spec.user, spec.queue, spec.submit_host, job.state, hosts, id(why[0]), why[1], suspended)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            parts = None if hosts is None else tuple(HostAllocation(host=host, slots=slots) for host, slots in hosts)
            found = self._known[key] = JobView(
                job_id=0,
                spec=JobSpec(command="", user=spec.user, queue=spec.queue, submit_host=spec.submit_host),
                state=job.state,
                submitted_at=0.0,
                allocation=None if parts is None else Allocation(hosts=parts),
                pending_reasons=why[0],
                pending_reasons_at=why[1],
                suspending_reason=suspended,
            )
        return found
