"""Jobs by state, queue and pending reason, and the jobs that run: counted over the published views, job by job.

The engine is not asked, and no view is made of a job that nobody else has looked at, unless its reason is its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gsched.base.coded_text import CodedText
from gsched.base.ids import index_of
from gsched.master.metrics.pace import Pace
from gsched.master.views.array_views import ArrayCopy
from gsched.master.views.board import Board
from gsched.master.views.published_jobs import Untouched
from gsched.model.jobs.job import FINISHED, PENDING, STARTED
from gsched.model.jobs.reason import PendingReason
from gsched.model.views.view import JobFilter, JobView

OTHER = "other"
"""Class of a reason that has no code: a store of before had words alone."""


@dataclass(slots=True)
class JobCounts:
    """Jobs that have not ended."""

    states: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(queue, state) -> jobs."""
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(queue, code of the main reason) -> pending jobs."""
    running: list[JobView] = field(default_factory=list)
    """Jobs that have started, by number."""


def count_jobs(board: Board, pace: Pace) -> JobCounts:
    """Counts of jobs at this moment, however long the counting takes."""
    counts = JobCounts()
    arrays, jobs = board.records(JobFilter())
    alike: dict[int, str] = {}
    for number, job in pace.through(jobs.items()):
        state = job.state
        if state in FINISHED:
            continue
        counts.states[job.spec.queue, state] += 1
        if state in PENDING:
            counts.reasons[job.spec.queue, _reason_of(board, number, job, alike)] += 1
        elif state in STARTED and isinstance(job, JobView):
            counts.running.append(job)
    for array in pace.through(arrays):
        waiting = _waiting(board, array, jobs, pace)
        if waiting > 0:
            spec = array.template.spec
            counts.states[spec.queue, array.template.state] += waiting
            counts.reasons[spec.queue, _class_of(board.reasons_of_array(array))] += waiting
    counts.running.sort(key=lambda job: job.job_id)
    return counts


def _reason_of(board: Board, number: int, job: JobView | Untouched, alike: dict[int, str]) -> str:
    """`alike`: id of a spec -> the class of those untouched jobs that have it, as most of many have the same."""
    if isinstance(job, JobView) or not board.is_plain(number):
        return _class_of(board.reasons_of(job if isinstance(job, JobView) else job.view()))
    found = alike.get(id(job.spec))
    if found is None:
        found = alike[id(job.spec)] = _class_of(board.reasons_of(job.view()))
    return found


def _class_of(reasons: tuple[PendingReason, ...]) -> str:
    text = reasons[0].text
    return text.code if isinstance(text, CodedText) else OTHER


def _waiting(board: Board, array: ArrayCopy, jobs: dict[int, JobView | Untouched], pace: Pace) -> int:
    """Elements in the array's record, without those that became jobs of their own since it was copied."""
    if not array.count:
        return 0
    members = pace.through(board.members(array.array_id))
    return array.count - sum(number in jobs and array.has_waiting(index_of(number)) for number in members)
