"""One job at length, live: a thread of its own asks for it and for its output while the screen is open."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import tzinfo
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.screen import Screen

from gsched.base.errors import GschedError
from gsched.model.jobs.job import FINISHED
from gsched.top.drawing.job_lines import asked_lines, held_lines, job_lines, output_lines, why_lines
from gsched.top.drawing.styled_lines import Line, Piece, line
from gsched.top.screens.line_view import LineView
from gsched.top.watching.gpu_curves import GpuCurves
from gsched.top.watching.job_questions import JobNow, JobQuestions
from gsched.top.watching.look import ClusterLook, JobLook, job_look
from gsched.wire.calls.client import Client

EVERY_S, FINISHED_EVERY_S = 1.0, 5.0
_PROPORTION = 4.0
KEYS = "↑↓ scroll the output   k kill   Esc back   q end"
Connect = Callable[[], AbstractContextManager[Client]]


class JobScreen(Screen[None]):
    """`connect` None: a recording is shown, and nobody is asked."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave"), ("backspace", "leave"), ("k", "app.kill")]
    CSS = """
    #job { height: auto; }
    #output { height: 1fr; }
    #job_status, #job_keys { height: 1; }
    """

    class Answered(Message):
        """The master has told of the job."""

        def __init__(self, now: JobNow) -> None:
            super().__init__()
            self.now = now

    def __init__(self, job: JobLook, connect: Connect | None, zone: tzinfo) -> None:
        super().__init__()
        self.job = job
        self._connect, self._zone = connect, zone
        self._now: JobNow | None = None
        self._curves = GpuCurves()
        self._is_left = threading.Event()
        self._look: ClusterLook | None = None

    def compose(self) -> ComposeResult:
        """What is known above, the output below."""
        yield LineView(id="job_status")
        yield LineView(id="job")
        yield LineView(id="output", can_focus=True, follows_end=True)
        yield LineView(id="job_keys")

    def _is_whole(self) -> bool:
        """Whether its parts are there: they come after it, and go before it when it is left."""
        return self.is_mounted and all(self.query(f"#{name}") for name in ("job_status", "job", "output", "job_keys"))

    def on_mount(self) -> None:
        """Begin to ask."""
        self.query_one("#job_keys", LineView).show_lines([line(Piece(KEYS, "dim"))])
        if self._connect is not None:
            threading.Thread(target=self._ask, args=(self._connect,), name="job", daemon=True).start()

    def on_unmount(self) -> None:
        """Ask nothing more."""
        self._is_left.set()

    def on_resize(self) -> None:
        """Lines are as long as the screen is wide."""
        self._draw()

    def on_job_screen_answered(self, message: Answered) -> None:
        """Show what was told."""
        self._now = message.now
        if message.now.view is not None:
            self.job = job_look(message.now.view)
        self._draw()

    def show_look(self, look: ClusterLook, now: float, status: Line) -> None:
        """A new look, or a second later; `status`: the status line of the cluster."""
        if self._is_whole():
            self.query_one("#job_status", LineView).show_lines([status])
        self._look, self._at = look, now
        if self._connect is None or self._now is None:
            self.job = look.job(self.job.job_id) or self.job
        self._curves.add(look, [held.board for held in self.job.held])
        self._draw()

    def action_leave(self) -> None:
        """Back to the cluster."""
        self.dismiss(None)

    def _draw(self) -> None:
        if self._look is None or not self._is_whole():
            return
        columns, look, job, zone = self.size.width, self._look, self.job, self._zone
        view = self._now.view if self._now is not None else None
        if self._now is not None and view is None:
            gone = [line(Piece("The master does not tell of this job any more: ghist does", "yellow"))]
        else:
            gone = []
        above = [
            *job_lines(job, look, self._at, columns, zone),
            *gone,
            *asked_lines(job, view, columns, zone),
            *why_lines(job, view, columns, zone),
            *held_lines(job, look, self._curves, columns),
        ]
        panel = self.query_one("#job", LineView)
        panel.styles.height = min(len(above), max(4, self.size.height * 2 // 3))
        panel.show_lines(above)
        output = list(output_lines(self._now, columns, is_recorded=self._connect is None))
        self.query_one("#output", LineView).show_lines(output)

    def _ask(self, connect: Connect) -> None:
        """In a thread: ask again and again, and rest in proportion to what it cost."""
        questions = JobQuestions(self.job.job_id)
        while not self._is_left.is_set():
            try:
                with connect() as client:
                    self._ask_on(questions, client)
            except GschedError:
                self._is_left.wait(EVERY_S)  # the status line of the cluster says that the master is away

    def _ask_on(self, questions: JobQuestions, client: Client) -> None:
        while not self._is_left.is_set():
            began = time.monotonic()
            now = questions.ask(client)
            self.post_message(self.Answered(now))
            is_over = now.view is None or now.view.state in FINISHED
            pause_s = FINISHED_EVERY_S if is_over else EVERY_S
            self._is_left.wait(max(pause_s, _PROPORTION * (time.monotonic() - began)))
