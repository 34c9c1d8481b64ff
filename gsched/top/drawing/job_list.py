"""Jobs as a table: which of them, arrays folded, in which order, and a line for each."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from gsched.base.ids import array_of, index_of, job_order
from gsched.cli.render.text.text_columns import right
from gsched.cli.render.text.time_texts import hms
from gsched.model.jobs.job import FINISHED, PENDING, STARTED
from gsched.top.drawing.array_rows import ArrayRow, Row, array_line, folded
from gsched.top.drawing.styled_lines import Line, Piece, column, line
from gsched.top.watching.look import ClusterLook, JobLook

STATE_STYLES = {"RUN": "green", "PEND": "yellow", "EXIT": "red", "DONE": "dim"}
WIDE = 110
"""From so many columns on hosts have a column of their own."""
_HOSTS = 20


class SortBy(StrEnum):
    """The value is what is shown."""

    ID = "id"
    USER = "user"
    STATE = "state"
    RUN_TIME = "run time"
    GPUS = "GPUs"


class Which(StrEnum):
    """Which states; the value is what is shown."""

    UNFINISHED = "unfinished"
    RUNNING = "running"
    PENDING = "pending"
    FINISHED = "finished"
    ANY = "any state"


_STATES: dict[Which, Callable[[str], bool]] = {
    Which.UNFINISHED: lambda state: state not in FINISHED,
    Which.RUNNING: lambda state: state in STARTED,
    Which.PENDING: lambda state: state in PENDING,
    Which.FINISHED: lambda state: state in FINISHED,
    Which.ANY: lambda state: True,
}


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are shown, and in which order."""

    text: str = ""
    is_mine: bool = False
    which: Which = Which.UNFINISHED
    sort_by: SortBy = SortBy.ID
    array: int = 0
    """Elements of this array alone, each in a line of its own; 0: all jobs, each array in one line."""

    @property
    def described(self) -> str:
        """In a few words."""
        said = ["mine" if self.is_mine else "all", str(self.which), f"by {self.sort_by}"]
        if self.array:
            said.insert(0, f"elements of array {self.array}")
        return ", ".join(said + ([f"with '{self.text}'"] if self.text else []))


def chosen(look: ClusterLook, choice: Choice, now: float) -> list[Row]:
    """The jobs and arrays that are to be shown, in their order. An array is shown when one of its elements is meant."""
    found = _meant(look, choice)
    rows: list[Row] = [*found] if choice.array else folded(found, look.jobs)
    return sorted(rows, key=lambda row: (_key(row, choice.sort_by, now), job_order(row.job_id)))


def _meant(look: ClusterLook, choice: Choice) -> list[JobLook]:
    is_wanted, text = _STATES[choice.which], choice.text.casefold()
    return [
        job
        for job in look.jobs
        if is_wanted(job.state)
        and (not choice.is_mine or job.user == look.me)
        and (not choice.array or (index_of(job.job_id) and array_of(job.job_id) == choice.array))
        and (not text or text in _said(job))
    ]


def _said(job: JobLook) -> str:
    return " ".join((job.label, job.name, job.user, job.queue, job.state, *job.hosts, job.command)).casefold()


def _key(job: Row, sort_by: SortBy, now: float) -> tuple[str, float]:
    """Of run times and GPUs the most first."""
    if sort_by is SortBy.USER:
        return job.user, 0.0
    if sort_by is SortBy.STATE:
        return job.state, 0.0
    if sort_by is SortBy.RUN_TIME:
        run_s = job.run_s(now)
        return "", 1.0 if run_s is None else -run_s
    return "", float(-job.gpus) if sort_by is SortBy.GPUS else 0.0


def heading(columns: int) -> Line:
    """The heads of the columns."""
    hosts = f"{'HOSTS':{_HOSTS}} " if columns >= WIDE else ""
    text = f"{'JOBID':10} {'USER':9} {'STATE':5} {'QUEUE':10} {'GPUS':>4} {'RUN':>9} {hosts}NAME"
    return line(Piece(text.ljust(columns), "bold underline"))


def row_line(row: Row, columns: int, now: float) -> Line:
    """A job or an array."""
    return array_line(row, columns, now) if isinstance(row, ArrayRow) else job_line(row, columns, now)


def job_line(job: JobLook, columns: int, now: float) -> Line:
    """One job; a pending one with the reason."""
    run_s = job.run_s(now)
    run = "-" if run_s is None else hms(run_s)
    gpus = "-" if not job.gpus else str(job.gpus)
    hosts = f"{column(' '.join(job.hosts), _HOSTS)} " if columns >= WIDE else ""
    name = f"{job.name}: {job.why}" if job.why else job.name
    begin = f"{column(job.label, 10)} {column(job.user, 9)} "
    end = f" {column(job.queue, 10)} {right(gpus, 4)} {right(run, 9)} {hosts}"
    used = 10 + 1 + 9 + 1 + 5 + 1 + 10 + 1 + 4 + 1 + max(9, len(run)) + 1 + len(hosts)
    state = Piece(column(job.state, 5), STATE_STYLES.get(job.state, "bold"))
    return line(begin, state, end, column(name, max(1, columns - used)))
