"""One step from its request to the ends of its tasks: what glaunch does, with numbers, labels, waits and a terminal.

Within the job it asks the agent of its host. From outside (salloc, --jobid) it asks by way of the master, which lets
the job's owner do so. What it says is what Slurm's srun says.
"""

from __future__ import annotations

import contextlib
import os
import posix
import signal
import socket
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import msgspec

from gsched.app.glaunch import FAILURE, MAX_FRAME, FrameReader, LaunchArguments, LaunchRefused, exit_code
from gsched.app.launch_streams import say
from gsched.app.steps.step_output import StepOutput
from gsched.app.steps.task_group import TaskGroupClient
from gsched.base.errors import GschedError
from gsched.dialect.slurm.step_options import StepAsk
from gsched.model.jobs.job_step import StepGranted
from gsched.run.supervisor.run_limits import KILL_WAIT_S
from gsched.wire.messages import step_messages
from gsched.wire.messages.launch_protocol import NO_SHELL

INTERRUPT_S = 1.0
"""A second Ctrl-C within that is sent to the tasks."""

Tunnel = Callable[[], socket.socket]
"""Makes a connection to where steps of the job are asked for. Raises GschedError."""


class StepClient(TaskGroupClient):
    """`tunnel`: None within the job."""

    def __init__(self, name: str, ask: StepAsk, job: str, tunnel: Tunnel | None, *, is_inner: bool) -> None:
        """`is_inner`: it is the job's first program, and its terminal is with who has submitted the job."""
        arguments = LaunchArguments()
        arguments.shell, arguments.words = NO_SHELL.encode(), [os.fsencode(word) for word in ask.words]
        arguments.reads = True
        super().__init__(name, arguments)
        self._ask = ask
        self._job = job
        self._tunnel = tunnel
        self._is_inner = is_inner
        self._output = StepOutput(ask, ask.environment)
        self._granted: StepGranted | None = None
        self._has_said_busy = False
        self._interrupted_at = -INTERRUPT_S
        self._is_aborted = False
        self._resized = ask.request.pty
        variables = [os.fsencode(f"{key}={value}") for key, value in ask.environment.items()]
        words = [b"%d" % len(arguments.words), *arguments.words]
        self._after = [os.fsencode(ask.cwd), self._after[1], b"0", *words, *variables]

    def to_its_end(self) -> int:
        """The highest exit code of its tasks. Raises Refused, OutputFault, OSError."""
        window = signal.signal(signal.SIGWINCH, self._on_resize) if self._ask.request.pty else None
        with _raw() if self._ask.request.pty and os.isatty(0) else contextlib.nullcontext():
            try:
                return self.run()
            finally:
                if window is not None:
                    signal.signal(signal.SIGWINCH, window)

    # -- the connection -------------------------------------------------------------------------------------------

    def _connected(self, connection: Any, path: bytes, most_s: float) -> Any:
        if self._tunnel is None:
            return super()._connected(connection, path, most_s)
        try:
            return self._tunnel()
        except GschedError as error:
            raise LaunchRefused(error.text) from None

    def _say_more(self, connection: Any) -> None:
        request = msgspec.json.encode(self._ask.request)
        for start in range(0, len(request), MAX_FRAME):
            self._say(connection, step_messages.STEP, request[start : start + MAX_FRAME])

    def _take(self, connection: Any, kind: bytes, payload: bytes) -> None:
        if kind == step_messages.BUSY:
            if not self._has_said_busy and not self._ask.is_quiet:
                self._tell(f"Job {self._job} step creation temporarily disabled, retrying (Requested nodes are busy)")
            self._has_said_busy = True
        elif kind == step_messages.STEPPED:
            if self._has_said_busy and self._granted is None and not self._ask.is_quiet:
                self._tell(f"Step created for job {self._job}")
            self._granted = msgspec.json.decode(payload, type=StepGranted)
            self._output.begin(self._granted)
        elif kind == step_messages.CANCELLED:
            self._note_cancelled()
        else:
            super()._take(connection, kind, payload)

    def _wait(self, connection: Any, frames: FrameReader) -> None:
        if self._resized and self._granted is not None and os.isatty(0):
            self._resized = False
            size = os.get_terminal_size(0)
            self._send(connection, step_messages.WINDOW, b"%d %d" % (size.lines, size.columns))
        super()._wait(connection, frames)

    # -- what becomes of tasks ------------------------------------------------------------------------------------

    def _show(self, number: int, stream: int, data: bytes) -> None:
        self._output.show(number, stream, data)

    def _note_end(self, number: int, text: bytes) -> None:
        self._output.end(number)
        status, _, problem = text.decode("utf8", "replace").partition(" ")
        code = FAILURE if problem else exit_code(int(status))
        self.code = max(self.code, code)
        if problem:
            self._tell(f"error: task {number}: {problem}")
        elif code and not self._is_aborted:
            host = self._granted.places[number].host.partition(".")[0] if self._granted is not None else ""
            how = signal_text(int(status)) if posix.WIFSIGNALED(int(status)) else f"Exited with exit code {code}"
            self._tell(f"error: {host}: task {number}: {how}")
        if self._is_ending or not any(self._had or ()):
            return
        if code and self._ask.kills_on_bad_exit:
            self._begin_to_end()
        elif self._ask.wait_s and self._ends_at is None:
            self._ends_at = time.monotonic() + self._ask.wait_s

    def _note_cancelled(self) -> None:
        """Somebody has ended the step: the agent ends the tasks."""
        host = self._granted.places[0].host.partition(".")[0] if self._granted is not None else ""
        number = self._granted.number if self._granted is not None else 0
        at = time.strftime("%Y-%m-%dT%H:%M:%S")
        self._tell(f"error: *** STEP {self._job}.{number} ON {host} CANCELLED AT {at} ***")
        self._tell_aborted()

    def _tell_aborted(self) -> None:
        if not self._is_aborted:
            wait = f"Waiting up to {KILL_WAIT_S + 2:.0f} seconds for job step to finish."
            self._tell(f"Job step aborted: {wait}")
        self._is_aborted = True

    def _end_rest(self, connection: Any) -> None:
        self._tell_aborted()
        super()._end_rest(connection)

    # -- signals --------------------------------------------------------------------------------------------------

    def on_signal(self, number: int, frame: object) -> None:
        """Ctrl-C is reported once before it counts; others go to the tasks."""
        if self._granted is None:
            raise LaunchRefused("Cancelled pending job step")
        if number != signal.SIGINT or self._is_inner:
            super().on_signal(number, frame)
            return
        now = time.monotonic()
        is_second = now - self._interrupted_at < INTERRUPT_S
        self._interrupted_at = now
        step = f"StepId={self._job}.{self._granted.number}"
        if is_second or self._ask.quits_on_interrupt or not self._ask.shows_status:
            self._tell(f"sending Ctrl-C to {step}")
            super().on_signal(number, frame)
            return
        self._tell(f"interrupt (one more within {INTERRUPT_S:.0f} sec to abort)")
        left = ",".join(str(task) for task, had in enumerate(self._had or ()) if had is not None)
        self._tell(f"{step} tasks {left or 'none'}: running")

    def _on_resize(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._resized = True

    def _tell(self, text: str) -> None:
        say(f"{self.name}: {text}" + ("\r" if self._ask.request.pty and os.isatty(2) else ""))


def signal_text(status: int) -> str:
    """`Killed`, `Segmentation fault (core dumped)`: as Slurm's srun has it."""
    text = signal.strsignal(posix.WTERMSIG(status)) or f"signal {posix.WTERMSIG(status)}"
    return text + (" (core dumped)" if posix.WCOREDUMP(status) else "")


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """The terminal passes every key on; afterwards it is as it was."""
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, before)


def through_master(connection: Any) -> socket.socket:
    """A socket whose other end is carried to the job's host by this connection (ServiceConnection). Raises GschedError
    where there is none.
    """
    ours, theirs = socket.socketpair()
    pieces = iter(connection)
    next(pieces, None)  # it is there

    def up() -> None:
        with contextlib.suppress(OSError):
            while data := theirs.recv(64 * 1024):
                taken = threading.Event()
                connection.send(data, taken.set)
                taken.wait()
        connection.close()

    def down() -> None:
        with contextlib.suppress(OSError, GschedError):
            for data in pieces:
                theirs.sendall(data)
        with contextlib.suppress(OSError):
            theirs.shutdown(socket.SHUT_RDWR)

    for work in (up, down):
        threading.Thread(target=work, name="gsched-step", daemon=True).start()
    return ours
