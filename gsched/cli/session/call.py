"""What a command is given instead of `sys.argv`, `os.environ` and the standard streams: its Call.

A command is a function `main(call) -> exit code`. Many of them run at once in one process (the door), for different
users in different directories, so a command must never look at the process it runs in: not its environment, its
working directory, its standard streams or its user. It must never open a caller's file by itself either: `read_file`
and `read_stdin` ask the caller's side, which opens with the caller's own rights.

Standard output is kept back in pieces of `PIECE` bytes unless it goes to a terminal: call `flush()` before waiting for
something, or wait with `wait()`, which does. Everything leaves when the command returns or writes to standard error.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import functools
import os
import select
import signal
import stat
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from gsched.base.errors import LSF_FAILURE, GschedError, ResourceExhausted
from gsched.cli import registry
from gsched.wire.identity.caller_identity import user_name

INPUT_LIMIT = 16 * 1024 * 1024
"""Most bytes of one file or of standard input that a command reads; longer ones raise OSError EFBIG."""

TOKEN_VARIABLE = "GSCHED_SUBMISSION"
"""How a launcher tells the door the token of a submission."""

PIECE = 32 * 1024
"""Bytes of standard output kept back at most when it is not a terminal."""

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


class HandedBack(BaseException):
    """The caller is to run the command itself; nothing has been done yet."""


class Cancelled(BaseException):
    """The person behind the call pressed Ctrl-C or went away.

    Not an Exception, so that a command's own `except Exception` does not swallow it.
    """


class Call:
    """One run of one command: its arguments, its surroundings, its streams.

    `argv[0]` is the name the command was called by (perhaps "bsub"). `env` and `argv` keep bytes that are no UTF-8 as
    surrogates. `uid` and `gid` are proven (by the kernel), everything else is as the caller says. `umask` is a number.
    """

    line_end = "\n"
    """What ends a line on standard error; a terminal that passes every key on wants a carriage return, too."""
    own_streams = False
    """Whether descriptors 0, 1 and 2 of this process are the caller's."""

    def __init__(
        self,
        argv: list[str],
        *,
        cwd: str,
        env: dict[str, str],
        uid: int,
        gid: int,
        umask: int = 0o022,
        terminals: tuple[bool, bool, bool] = (False, False, False),
        columns: int = 0,
    ) -> None:
        self.argv = argv
        self.cwd = cwd
        self.env = env
        self.token = env.pop(TOKEN_VARIABLE, "")
        """Of a submission, so that the caller can ask again; empty: it has none. A job does not see it."""
        self.uid = uid
        self.gid = gid
        self.umask = umask
        self.hostname = os.uname().nodename
        self.stdin_is_tty, self.stdout_is_tty, self.stderr_is_tty = terminals
        self.width = _width(env.get("COLUMNS", ""), columns)
        self.cancelled = threading.Event()
        self.is_hung_up = False
        """The caller's terminal has been closed (SIGHUP)."""
        self._on_cancel: list[Callable[[], object]] = []
        self._kept: list[bytes] = []
        self._kept_size = 0
        self._held: list[bytes] | None = None
        self._lock = threading.RLock()

    @functools.cached_property
    def user(self) -> str:
        """Name of the caller by the host's user database; the number where there is no name."""
        return user_name(self.uid)

    # Output

    def write(self, text: str) -> None:
        """Put text on standard output. Raises BrokenPipeError when nobody reads it any more."""
        self.write_bytes(_encode(text))

    def write_bytes(self, data: bytes) -> None:
        """Put bytes on standard output. Raises BrokenPipeError when nobody reads it any more."""
        with self._lock:
            self._kept.append(data)
            self._kept_size += len(data)
            if self.stdout_is_tty or self._kept_size >= PIECE:
                self.flush()

    def error(self, text: str) -> None:
        """Put text on standard error, after all that was written to standard output before."""
        with self._lock:
            self.flush()
            self._send(2, _encode(text.replace("\n", self.line_end)))

    def flush(self) -> None:
        """Send what is kept back of standard output."""
        with self._lock:
            if self._kept:
                data = b"".join(self._kept)
                self._kept.clear()
                self._kept_size = 0
                self._send(1, data)

    def error_bytes(self, data: bytes) -> None:
        """Put bytes on standard error, after all that was written to standard output before."""
        with self._lock:
            self.flush()
            self._send(2, data)

    @contextlib.contextmanager
    def held_back(self) -> Iterator[list[bytes]]:
        """What is written inside, to either stream, comes into this list in order, and goes nowhere."""
        self.flush()
        written: list[bytes] = []
        self._held = written
        try:
            yield written
            self.flush()
        finally:
            self._held = None

    def _send(self, stream: int, data: bytes) -> None:
        if self._held is None:
            self._put(stream, data)
        else:
            self._held.append(data)

    # Input

    def take_over(self) -> None:
        """Have the command run where the caller's own streams are: `own_streams` is true when this returns, or there
        is no such place. To be called before anything has been done or said.
        """

    def read_stdin(self) -> bytes:
        """Standard input up to its end. Raises OSError; EFBIG when it is longer than INPUT_LIMIT."""
        self.flush()
        return self._fetch(None)[0]

    def read_file(self, path: str) -> bytes:
        """A file of the caller, opened with the caller's rights; a relative path counts from `cwd`.

        Raises OSError as open() does; EFBIG when it is longer than INPUT_LIMIT.
        """
        self.flush()
        return self._fetch(path)[0]

    def read_file_and_mode(self, path: str) -> tuple[bytes, int | None]:
        """The same, and the file's permissions (`0o600`): None where the caller's side does not tell them."""
        self.flush()
        return self._fetch(path)

    # Cancelling

    def raise_if_cancelled(self) -> None:
        """Raise Cancelled when the caller pressed Ctrl-C or is gone."""
        if self.cancelled.is_set():
            raise Cancelled

    def wait(self, seconds: float) -> None:
        """Send what is kept back, then sleep; raises Cancelled as soon as the call is cancelled."""
        self.flush()
        if self.cancelled.wait(seconds):
            raise Cancelled

    def on_cancel(self, action: Callable[[], object]) -> None:
        """Have `action` called once on cancelling (at once when it has happened); it must not block.

        Meant to break off a remote call that the command waits in.
        """
        self._on_cancel.append(action)
        if self.cancelled.is_set():
            self._break_off()

    def cancel(self) -> None:
        """Mark the call as cancelled and break off what it waits in. A second time does nothing."""
        # Without the lock: a command that is stuck in writing holds it. The event comes first, so that an action
        # added at the same moment is run by the one side or the other.
        self.cancelled.set()
        self._break_off()

    def hang_up(self) -> None:
        """The caller's terminal has been closed, so the call is cancelled."""
        self.is_hung_up = True
        self.cancel()

    def _break_off(self) -> None:
        while self._on_cancel:
            try:
                self._on_cancel.pop()()
            except IndexError:  # another thread took the last one
                return
            except Exception as problem:  # an action must not keep the next one from running
                self.report_fault(problem)

    # What each way of running a command does differently

    def report_fault(self, problem: BaseException) -> None:
        """Record a fault of gsched itself where its keepers look (the door's log)."""

    def _put(self, stream: int, data: bytes) -> None:
        raise AssertionError("a Call is made by the door or as LocalCall")

    def _fetch(self, path: str | None) -> tuple[bytes, int | None]:
        raise AssertionError("a Call is made by the door or as LocalCall")


def own_umask() -> int:
    """That of this process; it is another one for a moment, so only while there are no other threads."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def read_regular_file(path: str, folder: str) -> tuple[bytes, int]:
    """The first INPUT_LIMIT bytes of a file, as seen from the folder, and its permissions; never waits for a pipe or a
    device. Raises OSError, also for what is no regular file.
    """
    descriptor = os.open(os.path.join(folder, path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with open(descriptor, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "no file", path)
        return file.read(INPUT_LIMIT), stat.S_IMODE(mode)


class LocalCall(Call):
    """A command run in the process of its caller, with that process's own surroundings and streams."""

    own_streams = True

    def __init__(self, argv: list[str], token: str = "", shown: tuple[bytes, bytes] = (b"", b"")) -> None:
        """`shown`: what an earlier run of the same call has written to each stream; these lines are not repeated."""
        super().__init__(
            argv,
            cwd=_working_directory(),
            env=_environment(),
            uid=os.getuid(),
            gid=os.getgid(),
            umask=own_umask(),
            terminals=(os.isatty(0), os.isatty(1), os.isatty(2)),
            columns=_terminal_columns(),
        )
        self.token = token
        self._cancel_told: int | None = None
        self._shown = [text.splitlines(keepends=True) for text in shown]

    def _put(self, stream: int, data: bytes) -> None:
        shown = self._shown[stream - 1]
        if shown:
            data = b"".join(line for line in data.splitlines(keepends=True) if not _was_among(line, shown))
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(stream, view) :]
            except BlockingIOError:
                # A parent may have left a terminal or pipe non-blocking.
                waiting = select.poll()
                waiting.register(stream, select.POLLOUT)
                waiting.poll()
            except BrokenPipeError:
                raise
            except OSError as problem:  # a full disk, say
                place = "standard output" if stream == 1 else "standard error"
                # Who submits must hear of the job all the same, or submits it again.
                unsaid = data.decode(errors="replace").partition("\n")[0] if self.token and stream == 1 else ""
                text = f"{self.argv[0]}: cannot write to {place}: {problem.strerror}{unsaid and ': '}{unsaid}"
                raise ResourceExhausted(text) from None

    def _fetch(self, path: str | None) -> tuple[bytes, int | None]:
        descriptor = 0 if path is None else os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            pieces = []
            left = INPUT_LIMIT + 1
            wait = self._readable(descriptor)
            while left and wait() and (piece := os.read(descriptor, min(left, 1 << 20))):
                pieces.append(piece)
                left -= len(piece)
            mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        except OSError as problem:
            raise OSError(problem.errno, problem.strerror, path) from None
        finally:
            if path is not None:
                os.close(descriptor)
        if not left:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return b"".join(pieces), mode

    def _readable(self, descriptor: int) -> Callable[[], bool]:
        """What waits until there is something to read; it raises Cancelled where a read would begin anew."""
        if self._cancel_told is None:
            self._cancel_told, told = os.pipe()
            self.on_cancel(lambda: os.write(told, b"c"))
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        waiting.register(self._cancel_told, select.POLLIN)

        def wait() -> bool:
            waiting.poll()
            self.raise_if_cancelled()
            return True

        return wait


def run_main(name: str, call: Call) -> int:
    """Run a command and turn whatever it ends with into an exit code; never raises.

    Commands print their own messages; an error they let through becomes its one line and its exit code. A fault of
    gsched is one line "NAME: internal error: ..." and 255; its traceback is shown when the caller set GSCHED_DEBUG=1.
    """
    try:
        try:
            code = registry.load(name)(call)
            call.flush()
        except GschedError as problem:
            call.error(problem.text + "\n")
            code = problem.exit_code
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            call.flush()
        return code
    except (Cancelled, KeyboardInterrupt):
        with contextlib.suppress(OSError):
            call.flush()
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return EXIT_BROKEN_PIPE
    except GschedError as problem:  # standard output and standard error are both unusable
        return problem.exit_code
    except UnicodeEncodeError as problem:
        text = no_text_among(call.argv)
        if not text:
            return _internal_error(name, call, problem)
        with contextlib.suppress(OSError, GschedError):
            call.error(f"{name}: {text}\n")
        return LSF_FAILURE
    except Exception as problem:  # the last line of defence: a person never sees a traceback unasked
        return _internal_error(name, call, problem)


def no_text_among(argv: Sequence[str]) -> str:
    """What is wrong with the first argument that no message can hold; empty where all are text."""
    for each in argv:
        if any("\ud800" <= letter <= "\udfff" for letter in each):
            return f"{os.fsencode(each)[:60]!r}"[1:] + " is not UTF-8 text"
    return ""


def _was_among(line: bytes, shown: list[bytes]) -> bool:
    """Whether the line was shown; each is taken off once."""
    if line not in shown:
        return False
    shown.remove(line)
    return True


def run_local(argv: list[str], token: str = "", shown: tuple[bytes, bytes] = (b"", b"")) -> int:
    """Run the command named by argv[0] in this process, with Ctrl-C, SIGTERM and SIGHUP as cancelling.

    `token` and `shown`: of a submission, and of what an earlier run of it in the door has written.
    """
    call = LocalCall(argv, token, shown)
    received: list[int] = []
    with _cancel_on_signals(call, received):
        code = run_main(argv[0], call)
    if code == EXIT_INTERRUPTED and received:
        return 128 + received[0]
    return code


@contextlib.contextmanager
def _cancel_on_signals(call: Call, received: list[int]) -> Iterator[None]:
    def handle(number: int, frame: FrameType | None) -> None:
        # In a thread of its own: this one may be in the middle of a wait, and hold the very lock that cancelling takes.
        received.append(number)
        if number == signal.SIGHUP:
            _thread.start_new_thread(call.hang_up, ())
        elif len(received) > 1:
            raise KeyboardInterrupt
        else:
            _thread.start_new_thread(call.cancel, ())

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # nohup and background jobs of a plain shell ignore some of them: that stays.
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: action for number, action in before.items() if action is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def _internal_error(name: str, call: Call, problem: Exception) -> int:
    call.report_fault(problem)
    reason = " ".join(str(problem).split())
    text = f"{name}: internal error: {type(problem).__name__}: {reason}\n"
    if call.env.get("GSCHED_DEBUG") == "1":
        text += "".join(traceback.format_exception(problem))
    with contextlib.suppress(OSError):
        call.error(text)
    return LSF_FAILURE


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a UTF-16 pair, not a byte kept from the outside
        return text.encode("utf-8", "replace")


def _width(wanted: str, columns: int) -> int:
    """Columns of the terminal: COLUMNS, else what the terminal says, else 80 (as shutil.get_terminal_size does)."""
    if wanted.isascii() and wanted.isdigit() and 0 < int(wanted[:6]) <= 100_000:
        return int(wanted)
    return columns if columns > 0 else 80


def _environment() -> dict[str, str]:
    """The environment as the door sees it: UTF-8 whatever the locale, other bytes kept as surrogates."""
    return {_decode(name): _decode(value) for name, value in os.environb.items()}


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _terminal_columns() -> int:
    for stream in (1, 2, 0):
        with contextlib.suppress(OSError):
            return os.get_terminal_size(stream).columns
    return 0


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # removed under our feet: its last name is the best there is
        return os.environ.get("PWD", "/")
