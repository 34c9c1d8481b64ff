"""Arrays as rows of the list of jobs: all elements in one line with a bar. The list folds them; nothing here asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from gsched.base.ids import array_of, index_of
from gsched.cli.render.text.array_progress import finished_in, progress_text, time_left
from gsched.model.jobs.job import FINISHED, JobState
from gsched.top.drawing.bars import bar
from gsched.top.drawing.styled_lines import Line, Piece, column, line
from gsched.top.watching.look import JobLook

BAR = 16
"""As wide as the columns of state and queue, whose place it takes."""


class ArrayRow(msgspec.Struct, frozen=True):
    """All elements of an array that the look has, by index. Those that the master has forgotten are not counted."""

    elements: tuple[JobLook, ...]

    @property
    def job_id(self) -> int:
        """The array's own number."""
        return array_of(self.elements[0].job_id)

    @property
    def label(self) -> str:
        """As people name it."""
        return str(self.job_id)

    @property
    def name(self) -> str:
        """Of all its elements."""
        return self.elements[0].name

    @property
    def user(self) -> str:
        """Whose it is."""
        return self.elements[0].user

    @property
    def state(self) -> str:
        """That of an element which runs, else of one that has not ended, else of one that failed."""
        states = {element.state for element in self.elements}
        for wanted in (JobState.RUN, JobState.PEND, *sorted(states - FINISHED), JobState.EXIT):
            if wanted in states:
                return wanted
        return self.elements[0].state

    @property
    def gpus(self) -> int:
        """That its elements hold now."""
        return sum(element.gpus for element in self.elements if element.state not in FINISHED)

    def run_s(self, now: float) -> float | None:
        """How long the element that has run longest runs or ran; None: none has begun."""
        return max((run_s for element in self.elements if (run_s := element.run_s(now)) is not None), default=None)


Row = JobLook | ArrayRow


def folded(jobs: Iterable[JobLook], every: Iterable[JobLook]) -> list[Row]:
    """These jobs, and instead of elements their arrays with all elements that are in `every`."""
    rows: list[Row] = []
    arrays: dict[int, list[JobLook]] = {}
    for job in jobs:
        if not index_of(job.job_id):
            rows.append(job)
        else:
            arrays[array_of(job.job_id)] = []
    for job in every:
        if index_of(job.job_id) and (elements := arrays.get(array_of(job.job_id))) is not None:
            elements.append(job)
    return rows + [ArrayRow(tuple(elements)) for elements in arrays.values()]


def array_line(row: ArrayRow, columns: int, now: float) -> Line:
    """Number, user, bar, how far it is, name."""
    counts = _counts(row.elements)
    left_s = time_left(((job.state, job.started_at, job.finished_at) for job in row.elements), now)
    text = progress_text(counts, left_s)
    drawn = bar(100 * finished_in(counts) // len(row.elements), BAR)
    begin = f"{column(row.label, 10)} {column(row.user, 9)} "
    room = max(1, columns - len(begin) - BAR - 1 - len(text) - 1)
    return line(begin, Piece(drawn, "cyan"), f" {text} ", column(row.name, room))


def _counts(elements: Sequence[JobLook]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for job in elements:
        counts[job.state] = counts.get(job.state, 0) + 1
    return counts
