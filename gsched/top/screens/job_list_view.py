"""The table of jobs with a cursor, which stays on its job when the table changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gsched.top.drawing.job_list import job_line
from gsched.top.screens.line_view import strip_of
from gsched.top.watching.look import JobLook


class JobListView(ScrollView, inherit_bindings=False, can_focus=True):
    """Draws the jobs that are in sight."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("up", "move(-1)"),
        ("down", "move(1)"),
        ("pageup", "move_page(-1)"),
        ("pagedown", "move_page(1)"),
        ("home", "move(-1000000)"),
        ("end", "move(1000000)"),
        ("enter", "open"),
    ]

    class Opened(Message):
        """A job is to be looked into."""

        def __init__(self, job: JobLook) -> None:
            super().__init__()
            self.job = job

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._jobs: Sequence[JobLook] = ()
        self._now = 0.0
        self._cursor = 0

    @property
    def job(self) -> JobLook | None:
        """The one that the cursor is on."""
        return self._jobs[self._cursor] if self._jobs else None

    def show_jobs(self, jobs: Sequence[JobLook], now: float) -> None:
        """Show these; the cursor stays on its job while it is there, else in its place."""
        before = self.job
        self._jobs, self._now = jobs, now
        place = next((n for n, job in enumerate(jobs) if before and job.job_id == before.job_id), self._cursor)
        self.virtual_size = Size(0, len(jobs))
        self._put_cursor(place)

    def render_line(self, y: int) -> Strip:
        """A line of what is in sight."""
        number, columns = y + self.scroll_offset.y, self.size.width
        if number >= len(self._jobs):
            return strip_of((), columns)
        style = "reverse" if number == self._cursor else ""
        return strip_of(job_line(self._jobs[number], columns, self._now), columns, style)

    def action_move(self, by: int) -> None:
        """So many jobs down."""
        self._put_cursor(self._cursor + by)

    def action_move_page(self, by: int) -> None:
        """So many pages down."""
        self._put_cursor(self._cursor + by * max(1, self.size.height - 1))

    def action_open(self) -> None:
        """Look into the job."""
        if self.job is not None:
            self.post_message(self.Opened(self.job))

    def _put_cursor(self, place: int) -> None:
        self._cursor = min(max(place, 0), max(0, len(self._jobs) - 1))
        self.scroll_to_region(Region(0, self._cursor, 1, 1), animate=False, force=True)
        self.refresh()
