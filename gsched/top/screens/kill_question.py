"""Whether a job is really to be killed: y does it, all else does not."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from gsched.cli.render.text.text_columns import head, printable
from gsched.top.drawing.styled_lines import Piece, line
from gsched.top.screens.line_view import LineView
from gsched.top.watching.look import JobLook


class KillQuestion(ModalScreen[bool]):
    """Its result: whether yes was said."""

    CSS = """
    KillQuestion { align: center middle; background: transparent; }
    #question { width: 64; height: 5; border: heavy red; }
    """

    def __init__(self, job: JobLook) -> None:
        super().__init__()
        self._job = job

    def compose(self) -> ComposeResult:
        """One box."""
        yield LineView(id="question")

    def on_mount(self) -> None:
        """Fill it."""
        job = self._job
        named = head(printable(job.name), 40)
        lines = [
            line(Piece(f" Kill job {job.label} of {printable(job.user)}?", "bold")),
            line(f" {named}"),
            line(Piece(" y: kill it    any other key: leave it", "dim")),
        ]
        self.query_one("#question", LineView).show_lines(lines)

    def on_key(self, event: events.Key) -> None:
        """The answer."""
        event.stop()
        self.dismiss(event.key in ("y", "Y"))
