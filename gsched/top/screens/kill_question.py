"""Whether a job or an array is really to be killed: y does it, all else does not."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from gsched.cli.render.text.text_columns import head, printable
from gsched.model.jobs.job import FINISHED
from gsched.top.drawing.array_rows import ArrayRow, Row
from gsched.top.drawing.styled_lines import Piece, line
from gsched.top.screens.line_view import LineView


class KillQuestion(ModalScreen[bool]):
    """Its result: whether yes was said."""

    CSS = """
    KillQuestion { align: center middle; background: transparent; }
    #question { width: 64; height: 5; border: heavy red; }
    """

    def __init__(self, row: Row) -> None:
        super().__init__()
        self._row = row

    def compose(self) -> ComposeResult:
        """One box."""
        yield LineView(id="question")

    def on_mount(self) -> None:
        """Fill it."""
        row = self._row
        named = head(printable(row.name), 40)
        lines = [
            line(Piece(f" Kill {_what(row)} of {printable(row.user)}?", "bold")),
            line(f" {named}"),
            line(Piece(" y: kill it    any other key: leave it", "dim")),
        ]
        self.query_one("#question", LineView).show_lines(lines)

    def on_key(self, event: events.Key) -> None:
        """The answer."""
        event.stop()
        self.dismiss(event.key in ("y", "Y"))


def _what(row: Row) -> str:
    if not isinstance(row, ArrayRow):
        return f"job {row.label}"
    left = sum(element.state not in FINISHED for element in row.elements)
    return f"{left} element{'' if left == 1 else 's'} of array {row.label}"
