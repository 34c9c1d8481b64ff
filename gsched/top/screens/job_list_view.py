"""The table of jobs and arrays with a cursor, which stays on its row when the table changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gsched.base.ids import array_of
from gsched.top.drawing.array_rows import ArrayRow, Row
from gsched.top.drawing.job_list import row_line
from gsched.top.screens.line_view import strip_of


class JobListView(ScrollView, inherit_bindings=False, can_focus=True):
    """Draws the rows that are in sight."""

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
        """A job is to be looked into, or an array."""

        def __init__(self, row: Row) -> None:
            super().__init__()
            self.row = row

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._rows: Sequence[Row] = ()
        self._now = 0.0
        self._cursor = 0

    @property
    def row(self) -> Row | None:
        """The one that the cursor is on."""
        return self._rows[self._cursor] if self._rows else None

    def show_rows(self, rows: Sequence[Row], now: float) -> None:
        """Show these; the cursor stays on its row while it is there, else in its place."""
        before = self.row
        self._rows, self._now = rows, now
        self.virtual_size = Size(0, len(rows))
        self._put_cursor(self._place_of(before))

    def _place_of(self, before: Row | None) -> int:
        """Where that row is now: an array that was opened at its first element, one that was left at its own line."""
        if before is None:
            return self._cursor
        near = None
        for place, row in enumerate(self._rows):
            if row.job_id == before.job_id:
                return place
            is_folding = isinstance(row, ArrayRow) is not isinstance(before, ArrayRow)
            if near is None and is_folding and array_of(row.job_id) == array_of(before.job_id):
                near = place
        return self._cursor if near is None else near

    def render_line(self, y: int) -> Strip:
        """A line of what is in sight."""
        number, columns = y + self.scroll_offset.y, self.size.width
        if number >= len(self._rows):
            return strip_of((), columns)
        style = "reverse" if number == self._cursor else ""
        return strip_of(row_line(self._rows[number], columns, self._now), columns, style)

    def action_move(self, by: int) -> None:
        """So many rows down."""
        self._put_cursor(self._cursor + by)

    def action_move_page(self, by: int) -> None:
        """So many pages down."""
        self._put_cursor(self._cursor + by * max(1, self.size.height - 1))

    def action_open(self) -> None:
        """Look into the job or the array."""
        if self.row is not None:
            self.post_message(self.Opened(self.row))

    def _put_cursor(self, place: int) -> None:
        self._cursor = min(max(place, 0), max(0, len(self._rows) - 1))
        self.scroll_to_region(Region(0, self._cursor, 1, 1), animate=False, force=True)
        self.refresh()
