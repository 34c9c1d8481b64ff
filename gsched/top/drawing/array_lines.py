"""Arrays that have not ended, a line with a bar each: one's own first, then the newest."""

from __future__ import annotations

from gsched.base.ids import array_of, index_of
from gsched.cli.render.text.array_progress import finished_in, progress_text, time_left
from gsched.model.jobs.job import FINISHED
from gsched.top.drawing.bars import bar
from gsched.top.drawing.styled_lines import Line, Piece, column, line
from gsched.top.watching.look import ClusterLook, JobLook

BAR = 16


def array_lines(look: ClusterLook, columns: int, now: float, most: int) -> list[Line]:
    """At most so many lines. Of jobs that are not in the look nothing is counted: the master forgets old ones."""
    arrays: dict[int, list[JobLook]] = {}
    for job in look.jobs:
        if index_of(job.job_id):
            arrays.setdefault(array_of(job.job_id), []).append(job)
    running = {number: jobs for number, jobs in arrays.items() if any(job.state not in FINISHED for job in jobs)}
    order = sorted(running, key=lambda number: (running[number][0].user != look.me, -number))
    return [_line(number, running[number], columns, now) for number in order[:most]]


def _line(number: int, jobs: list[JobLook], columns: int, now: float) -> Line:
    counts: dict[str, int] = {}
    for job in jobs:
        counts[job.state] = counts.get(job.state, 0) + 1
    left_s = time_left(((job.state, job.started_at, job.finished_at) for job in jobs), now)
    text = progress_text(counts, left_s)
    drawn = bar(100 * finished_in(counts) // len(jobs), BAR)
    room = max(1, columns - 10 - 1 - BAR - 1 - len(text) - 1)
    return line(column(str(number), 10), " ", Piece(drawn, "cyan"), f" {text} ", column(jobs[0].name, room))
