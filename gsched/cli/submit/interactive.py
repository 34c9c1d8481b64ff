"""`gsub -I`, `-Ip`, `-Is`: the command is the job's terminal until the job ends, and ends the job when it goes.

What is typed is read from the caller's own standard input, so this runs in the caller's process; in the door, where a
script took all of standard input, the job has nothing to read. Must leave the terminal as it was, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
import threading
import time
import tty
from collections.abc import Iterator

from gsched.base.errors import Conflict, GschedError, Unavailable
from gsched.base.ids import show_job
from gsched.cli.session.call import Call, Cancelled
from gsched.cli.session.master_links import link_of
from gsched.cli.session.session import Session
from gsched.cli.submit.idle_notice import IdleNotice, idle_notice
from gsched.cli.submit.job_wait import Wait
from gsched.cli.submit.time_left import TimeLeft
from gsched.model.event import AnyEvent, JobFinished, JobStarted
from gsched.model.jobs.job import TERM_TEXTS
from gsched.model.views.view import OutputChunk
from gsched.wire.calls.client import Client
from gsched.wire.messages.control_action import ControlAction

PIECE = 4096
MOST_PAUSE_S = 0.5
KILL_PATIENCE_S = 5.0


class TerminalSession(Wait):
    """One person, or one program, at one job's terminal."""

    def __init__(self, call: Call, session: Session, job_id: int, kind: str, *, has_input: bool) -> None:
        """`kind` is `I`, `Ip` or `Is`."""
        super().__init__(call, session, job_id)
        self._has_input = has_input and call.own_streams
        self._is_raw = kind != "I" and self._has_input and call.stdin_is_tty
        self._done = threading.Event()

    def to_its_end(self) -> int:
        """The job's exit code. However this ends, the job ends with it."""
        self.waits()
        threading.Thread(target=self.be_there, name="gsched-terminal", daemon=True).start()
        try:
            return self._follow()
        except BaseException:
            self._end_the_job()
            raise
        finally:
            self._done.set()

    def waits(self) -> None:
        """Say that the job has been submitted and waits."""
        self.call.error("<<Waiting for dispatch ...>>\n")

    def is_ended(self) -> None:
        """Say that the job is ended because its command goes away."""
        self.call.error(f"Job <{show_job(self.job_id)}> is being terminated\n")

    def happened(self, event: AnyEvent) -> int | None:
        """As for -K; but a start is the time to show what the job prints."""
        if isinstance(event, JobFinished) and (event.result.started or self.host):
            if why := event.result.term_reason:
                self.call.error(f"<<Job is terminated: {why}: {TERM_TEXTS.get(why, 'unknown')}>>\n")
            return self.code_of(event)
        if idle_notice(event):
            return None  # it was said when it happened
        code = super().happened(event)
        if isinstance(event, JobStarted):
            self._show(event.attempt)
        return code

    def _show(self, attempt: int) -> None:
        """Until the attempt is over, and all that it printed is shown."""
        keyboard = Keyboard(
            self.call, self.session, self.job_id, attempt, has_input=self._has_input, is_raw=self._is_raw
        )
        size = {"stdout": 0, "stderr": 0}

        def ask(client: Client) -> Iterator[OutputChunk]:
            return client.output(
                self.job_id, stdout_from=size["stdout"], stderr_from=size["stderr"], follow=True, terminal=True
            )

        time_left = TimeLeft(self.session.client, self.job_id, self.call.error)
        idle = IdleNotice(self.session, self.job_id, attempt, self.call.error)
        with _raw(self.call) if self._is_raw else contextlib.nullcontext(), keyboard, time_left, idle:
            for chunk in self.session.output(self.job_id, attempt, ask):
                if chunk.stream == "stdout":
                    self.call.write_bytes(chunk.data)
                    self.call.flush()
                else:
                    self.call.error_bytes(chunk.data)
                size[chunk.stream] += len(chunk.data)

    def be_there(self) -> None:
        """The master ends jobs whose command is gone: it sees this call."""
        while not self._done.is_set():
            try:
                for _ in self.session.client.terminal.attach(self.job_id):
                    pass
            except (Exception, Cancelled):  # the master restarts, or the command ends; then the job is ended, no worse
                if self.call.cancelled.is_set():
                    return
            self._done.wait(MOST_PAUSE_S)

    def _end_the_job(self) -> None:
        """By a connection of its own: that of the call has been broken off."""
        address, channel = link_of(self.call)
        with contextlib.suppress(GschedError):
            client = Client(address, wait_s=KILL_PATIENCE_S, channel=channel)
            why = "its terminal was closed" if self.call.is_hung_up else "its command was interrupted"
            client.control(ControlAction(action="kill", text=why, hangup=self.call.is_hung_up), (self.job_id,))
            self.is_ended()


class Keyboard:
    """Sends what is typed, piece by piece; each again until the job's host has taken it."""

    def __init__(
        self, call: Call, session: Session, job_id: int, attempt: int, *, has_input: bool, is_raw: bool
    ) -> None:
        self._call = call
        self._client = session.client
        self._job_id = job_id
        self._attempt = attempt
        self._has_input = has_input
        self._is_raw = is_raw
        self._has_window = has_input and call.stdin_is_tty
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_out, False)
        self._before: object = None
        self._ends = False
        self._resized = True
        self._thread = threading.Thread(target=self._run, name="gsched-keyboard", daemon=True)

    def __enter__(self) -> Keyboard:
        if self._has_window and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGWINCH, self._on_resize)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends = True
        self._wake()
        if self._before is not None:
            signal.signal(signal.SIGWINCH, self._before)  # type: ignore[arg-type]
        self._thread.join(MOST_PAUSE_S)  # it may be in the middle of a call, which ends by itself

    def _on_resize(self, *_: object) -> None:
        self._resized = True
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_out, b"w")

    def _run(self) -> None:
        try:
            self._send_all()
        except (Exception, Cancelled):  # nobody reads it any more: what is typed from here on is for nobody
            return

    def _send_all(self) -> None:
        first, pending, has_end = 0, b"", not self._has_input
        pause_s = 0.01
        while not self._ends:
            if not pending and not self._resized and not has_end:
                pending, has_end = self._read()
            if not (pending or has_end or self._resized):
                continue
            size, self._resized = self._window(), False
            try:
                taken = self._client.terminal.type(self._job_id, self._attempt, first, pending, end=has_end, size=size)
            except (Conflict, Unavailable):  # its agent is away, or the job is about to end
                taken, self._resized = first, True
            pause_s = 0.01 if taken > first else min(2 * pause_s, MOST_PAUSE_S)
            pending, first = pending[taken - first :], taken
            if pending or self._resized:
                time.sleep(pause_s)  # the job has enough to read for now
            elif has_end:
                return

    def _read(self) -> tuple[bytes, bool]:
        """What was typed, and whether that was the end; nothing when something else has happened."""
        waiting = select.poll()
        waiting.register(0, select.POLLIN)
        waiting.register(self._wake_in, select.POLLIN)
        ready = dict(waiting.poll())
        if self._wake_in in ready:
            os.read(self._wake_in, 100)
            return b"", False
        try:
            data = os.read(0, PIECE)
        except BlockingIOError:
            return b"", False
        except OSError:  # a terminal that was hung up
            data = b""
        if not data and self._is_raw:  # Ctrl-D is a key there: the terminal is gone
            self._ends = True
            self._call.hang_up()
            return b"", False
        return data, not data

    def _window(self) -> tuple[int, int]:
        if self._has_window and self._resized:
            with contextlib.suppress(OSError):
                size = os.get_terminal_size(0)
                return size.lines, size.columns
        return 0, 0


@contextlib.contextmanager
def _raw(call: Call) -> Iterator[None]:
    """The terminal passes every key on, Ctrl-C too; afterwards it is as it was."""
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead is for the job, too
    call.line_end = "\r\n"
    try:
        yield
    finally:
        call.line_end = "\n"
        if not call.is_hung_up:  # else its owner would wait for us, and we for output that nobody reads
            with contextlib.suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, before)
