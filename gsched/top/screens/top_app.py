"""The screen of the cluster: GPUs above, jobs in the middle, queues below, and what keys do in the last line."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import tzinfo
from typing import ClassVar, TypeVar

from msgspec.structs import replace
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.filter import NoColor
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input

from gsched.base.errors import GschedError
from gsched.cli.render.text.text_columns import printable
from gsched.cli.render.text.time_texts import hms, long_stamp
from gsched.model.jobs.job import FINISHED
from gsched.top.drawing.array_rows import ArrayRow, Row
from gsched.top.drawing.gpu_lines import counts_text, gpu_lines
from gsched.top.drawing.job_list import Choice, SortBy, Which, chosen, heading
from gsched.top.drawing.queue_lines import queue_lines
from gsched.top.drawing.styled_lines import Line, Piece, line
from gsched.top.screens.job_list_view import JobListView
from gsched.top.screens.job_screen import JobScreen
from gsched.top.screens.kill_question import KillQuestion
from gsched.top.screens.line_view import LineView
from gsched.top.watching.live_source import LiveSource
from gsched.top.watching.look import ClusterLook
from gsched.top.watching.recording import Recorder
from gsched.top.watching.replay_source import ReplaySource

SECOND_S = 1.0
SAID_S = 6.0
"""How long the status line says what came of a key."""
KEYS = "↑↓ move Enter look / filter s sort a all/mine t state k kill Tab GPUs q end"
REPLAY_KEYS = "↑↓ move Enter look / filter s sort a all/mine t state Space pause ←→ step +- speed q end"
TALL = 30
_Kind = TypeVar("_Kind", SortBy, Which)

_PARTS = ("status", "counts", "gpus", "choice", "heading", "jobs", "queues")
"""What a look is drawn into."""


class TopApp(App[None]):
    """Shows what the source tells. `recorder` writes each look."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit"),
        ("ctrl+c", "quit"),
        ("ctrl+z", "suspend_process"),
        ("slash", "filter"),
        ("s", "sort"),
        ("a", "whose"),
        ("t", "state"),
        ("k", "kill"),
        ("space", "pause"),
        ("plus", "speed(1)"),
        ("minus", "speed(-1)"),
        ("left", "step(-1)"),
        ("right", "step(1)"),
    ]
    CSS = """
    Screen { layout: vertical; overflow: hidden; }
    LineView, JobListView { background: transparent; scrollbar-size: 1 1; }
    #status, #counts, #choice, #heading, #keys { height: 1; }
    #jobs { height: 1fr; }
    #filter { display: none; height: 1; border: none; padding: 0; }
    """

    class Told(Message):
        """The source has something new, or is away."""

    def __init__(self, source: LiveSource | ReplaySource, zone: tzinfo, recorder: Recorder | None = None) -> None:
        super().__init__(ansi_color=True)  # the terminal's own colours: they fit light and dark ones
        if self.no_color and not any(isinstance(each, NoColor) for each in self._filters):
            self._filters.append(NoColor())
        self._source, self._zone, self._recorder = source, zone, recorder
        self.choice = Choice()
        self._said, self._said_until = "", 0.0

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield LineView(id="status")
        yield LineView(id="counts")
        yield LineView(id="gpus", can_focus=True)
        yield LineView(id="choice")
        yield LineView(id="heading")
        yield JobListView(id="jobs")
        yield LineView(id="queues")
        yield Input(id="filter", placeholder="text in the name, user, queue, host or command", compact=True)
        yield LineView(id="keys")

    def on_mount(self) -> None:
        """Begin."""
        keys = REPLAY_KEYS if isinstance(self._source, ReplaySource) else KEYS
        self.query_one("#keys", LineView).show_lines([line(Piece(keys, "dim"))])
        self.query_one("#jobs").focus()
        self._source.start(lambda: self.post_message(self.Told()))
        self.set_interval(SECOND_S, self._tick)
        self.app_resume_signal.subscribe(self, lambda _app: self.screen.refresh(layout=True, repaint=True))

    def on_resize(self) -> None:
        """Lines are as long as the screen is wide."""
        self.call_after_refresh(self.draw)

    def on_top_app_told(self) -> None:
        """Show it."""
        look = self._source.look
        if self._recorder is not None and look is not None and self._source.away_since is None:
            self._recorder.write(look)
        self.draw()

    def _tick(self) -> None:
        """Run times grow; a recording goes on."""
        self._replay(lambda source: source.tick())

    # -- drawing --------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """All of it, from the last look."""
        look = self._source.look
        if look is None or not self.screen_stack:
            return
        now = look.at if isinstance(self._source, ReplaySource) else time.time()
        for screen in self.screen_stack:
            if isinstance(screen, JobScreen):
                screen.show_look(look, now, self._status(look))
        cluster = self.screen_stack[0]
        if all(cluster.query(f"#{name}") for name in _PARTS):  # they come after the screen, and go before it at the end
            self._draw_cluster(look, now, cluster)

    def _draw_cluster(self, look: ClusterLook, now: float, cluster: Screen[object]) -> None:
        columns, height = self.size.width, self.size.height
        rows = chosen(look, self.choice, now)
        cluster.query_one("#status", LineView).show_lines([self._status(look)])
        more = ", not all are shown" if look.is_cut else ""
        cluster.query_one("#counts", LineView).show_lines([line(counts_text(look))])
        told = f"Jobs: {_jobs_in(rows)} of {len(look.jobs)} ({printable(self.choice.described)}{more})"
        cluster.query_one("#choice", LineView).show_lines([line(told)])
        gpus, queues = cluster.query_one("#gpus", LineView), cluster.query_one("#queues", LineView)
        shown = gpu_lines(look, columns - 1)
        gpus.styles.height = min(len(shown), max(3, height * 2 // 5))
        gpus.show_lines(shown)
        below = queue_lines(look, 3 if height < TALL else 8)
        queues.styles.height = len(below)
        queues.show_lines(below)
        cluster.query_one("#heading", LineView).show_lines([heading(columns)])
        cluster.query_one("#jobs", JobListView).show_rows(rows, now)

    def _status(self, look: ClusterLook) -> Line:
        """What came of a key, while it is new; else of when the look is, and what is not as usual."""
        name = Piece(f"{printable(look.cluster)}  ", "bold")
        if self._said and time.monotonic() < self._said_until:
            return line(name, Piece(printable(self._said), "bold yellow"))
        pieces = [name, Piece(long_stamp(look.at, self._zone))]
        if isinstance(self._source, ReplaySource):
            pieces.append(Piece(f"  {self._source.described}", "cyan"))
        elif self._source.away_since is not None:
            for_s = hms(time.time() - self._source.away_since)
            pieces.append(Piece(f"  the master has not answered for {for_s}", "bold red"))
        if self._recorder is not None:
            pieces.append(Piece(f"  {self._recorder.ended_because or 'recording'}", "red"))
        return tuple(pieces)

    def say(self, text: str) -> None:
        """Tell what came of a key, for a while."""
        self._said, self._said_until = text, time.monotonic() + SAID_S
        self.draw()

    # -- keys -----------------------------------------------------------------------------------------------------

    def action_sort(self) -> None:
        """By the next column."""
        self._choose(sort_by=_next(SortBy, self.choice.sort_by))

    def action_whose(self) -> None:
        """All jobs, or mine."""
        self._choose(is_mine=not self.choice.is_mine)

    def action_state(self) -> None:
        """The next choice of states."""
        self._choose(which=_next(Which, self.choice.which))

    def action_filter(self) -> None:
        """Ask for a text."""
        if len(self.screen_stack) == 1:
            field = self.query_one("#filter", Input)
            field.display = True
            field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show at once what is left."""
        self._choose(text=event.value)

    def on_input_submitted(self) -> None:
        """Enter: it stays filtered."""
        self._leave_filter()

    def key_escape(self) -> None:
        """Esc: nothing is filtered any more, and then back from the elements of an array."""
        if len(self.screen_stack) == 1:
            if self.choice.array and not self.choice.text and not self.query_one("#filter", Input).display:
                self._choose(array=0)
            self.query_one("#filter", Input).value = ""
            self._leave_filter()

    def _leave_filter(self) -> None:
        self.query_one("#filter", Input).display = False
        self.query_one("#jobs").focus()

    def _choose(self, **changes: object) -> None:
        self.choice = replace(self.choice, **changes)
        self.draw()

    def on_job_list_view_opened(self, event: JobListView.Opened) -> None:
        """Look into the job, or show the elements of the array."""
        source, row = self._source, event.row
        if isinstance(row, ArrayRow):
            self._choose(array=row.job_id)
            return
        self.push_screen(JobScreen(row, source.client if isinstance(source, LiveSource) else None, self._zone))
        self.call_after_refresh(self.draw)

    def action_kill(self) -> None:
        """Ask first."""
        screen = self.screen
        row = screen.job if isinstance(screen, JobScreen) else self.query_one("#jobs", JobListView).row
        if isinstance(self._source, ReplaySource):
            self.say("this is a recording: nothing is killed")
        elif row is None or row.state in FINISHED:
            self.say("there is no job to kill" if row is None else f"job {row.label} has ended already")
        else:
            self._ask_to_kill(row, self._source)

    def _ask_to_kill(self, row: Row, source: LiveSource) -> None:
        def answered(is_yes: bool | None) -> None:
            if is_yes:
                threading.Thread(target=self._kill, args=(row, source), name="kill", daemon=True).start()

        self.push_screen(KillQuestion(row), answered)

    def _kill(self, row: Row, source: LiveSource) -> None:
        """In a thread: it may have to wait for the master."""
        try:
            errors = [done.error for done in source.kill(row.job_id) if done.error]
        except GschedError as error:
            errors = [error.text]
        self.call_later(self.say, errors[0] if errors else f"job {row.label} is being killed")

    def action_pause(self) -> None:
        """Of a recording."""
        self._replay(lambda source: source.toggle())

    def action_step(self, by: int) -> None:
        """Of a recording: so many looks on."""
        self._replay(lambda source: source.step(by))

    def action_speed(self, by: int) -> None:
        """Of a recording: more looks a second, or fewer."""
        self._replay(lambda source: source.change_speed(by))

    def _replay(self, do: Callable[[ReplaySource], None]) -> None:
        if isinstance(self._source, ReplaySource):
            try:
                do(self._source)
            except GschedError as error:
                self.say(error.text)
        self.draw()


def _next(kinds: type[_Kind], now: _Kind) -> _Kind:
    ordered = list(kinds)
    return ordered[(ordered.index(now) + 1) % len(ordered)]


def _jobs_in(rows: Iterable[Row]) -> int:
    """Each element of an array is one."""
    return sum(len(row.elements) if isinstance(row, ArrayRow) else 1 for row in rows)
