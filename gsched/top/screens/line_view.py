"""Lines on the screen, as many as there is room for: only what is seen is drawn, and no text is taken for markup."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gsched.top.drawing.styled_lines import Line


@lru_cache(maxsize=64)
def style_of(words: str) -> Style:
    """The style with that description."""
    return Style.parse(words)


def strip_of(pieces: Line, columns: int, more: str = "") -> Strip:
    """The line cut and filled to the width; `more`: a style for all of it."""
    added = style_of(more)
    strip = Strip([Segment(piece.text, style_of(piece.style) + added) for piece in pieces if piece.text])
    return strip.adjust_cell_length(columns, added)


class LineView(ScrollView, inherit_bindings=False):
    """Lines that can be scrolled where there are more than fit; with `follows_end` their end is kept in sight."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("up", "scroll_up"),
        ("down", "scroll_down"),
        ("pageup", "page_up"),
        ("pagedown", "page_down"),
        ("home", "scroll_home"),
        ("end", "scroll_end"),
    ]

    def __init__(self, *, id: str, can_focus: bool = False, follows_end: bool = False) -> None:
        super().__init__(id=id)
        self.can_focus = can_focus
        self._follows_end = follows_end
        self._lines: Sequence[Line] = ()

    @property
    def lines(self) -> Sequence[Line]:
        """What is shown."""
        return self._lines

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Show these from now on."""
        is_at_end = self.scroll_offset.y >= self.max_scroll_y
        if lines != self._lines:
            self._lines = lines
            self.virtual_size = Size(0, len(lines))
            self.refresh()
            if self._follows_end and is_at_end:
                self.call_after_refresh(self.scroll_end, animate=False)

    def render_line(self, y: int) -> Strip:
        """A line of what is in sight."""
        number = y + self.scroll_offset.y
        columns = self.size.width
        return strip_of(self._lines[number] if number < len(self._lines) else (), columns)
