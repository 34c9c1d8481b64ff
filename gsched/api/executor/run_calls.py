"""What an executor's job runs: the calls of its part of a batch, one after the other; it writes how each ended.

    python -P run_calls.py FOLDER BATCH     calls and outcomes lie in a folder that all hosts share
    python -P -c START - BATCH              calls come by standard input, outcomes go through the master

It is run as a file, or sent with the calls, by the interpreter of the program that made them, and imports nothing of
gsched: whatever the function needs is imported by the paths of that program. It must never run calls that another
version of Python has pickled, nor leave half of a file of results. A call of an object with a method `checkpoint` saves
itself when the job is asked to, and goes on in the job's next attempt.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from io import BufferedReader, BytesIO
from typing import Any

RETURNED, RAISED, REFUSED = "returned", "raised", "refused"
"""How a call ended: with a value, with an exception, or there is neither."""
CallOutcome = tuple[str, bytes, str]
"""One of these words; the pickled value or exception, empty where it cannot be pickled; the traceback or the reason."""
FunctionCall = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""The function, and its arguments by position and by name."""

START = (
    "import base64,io,json,sys,zlib;calls=io.BytesIO(sys.stdin.buffer.read());"
    "source=zlib.decompress(base64.b64decode(json.loads(calls.readline())['source']));"
    "exec(compile(source,'run_calls.py','exec'))"
)
"""What Python is given where the program is sent with the calls: shortened, for each job has it."""
MOST_BYTES = 8 << 20
"""Of what goes through the master: the calls of a job, how they ended, what one of them saves."""
CHECKPOINT_BOX, RESULT_BOX = 126, 127
"""As in gsched.model.views.message_boxes, which is not imported here."""
ASKS_AGAIN = 99
"""Exit code of a job that has saved its state and wants another run (docs/training.md)."""
NO_CALLS = 66
"""Exit code where the calls are not there. Source: EX_NOINPUT of sysexits.h."""
NOTHING_ATTACHED = 66
"""Exit code of `gread -a` where the box has no attachment, as in its module."""
LEAVE_S = 10.0
"""How long a call that has saved itself may take to end."""
_WAIT_S = 86_400
"""How long a master that does not answer is waited for."""
_TRIES, _AGAIN_S = 5, 2.0
_LEAST_TOLD = 1000
"""Letters of a traceback that are told in any case."""


class TooLarge(Exception):
    """More than may go through the master; its text says how much."""


class RelayFailed(Exception):
    """What was to go through the master did not; its text says why."""


def main(given: BytesIO | None = None) -> int:
    """Exit code 0 where all outcomes were written, whatever they are; ASKS_AGAIN where a call has saved itself.
    `given`: the calls, where they came by standard input.
    """
    folder, batch = sys.argv[1:3]
    index = int(os.environ.get("LSB_JOBINDEX") or 0)
    place: SharedFolder | MasterRelay
    place = MasterRelay(given) if given is not None else SharedFolder(folder, batch, index)
    try:
        with place.calls() as file:
            return CallsOfPart(file, index, place).make()
    except FileNotFoundError as error:
        where = f"{os.uname().nodename}: {error.filename} is not there"
        print(f"{where}: an executor's folder= has to be one that all hosts share, or shared=False", file=sys.stderr)
        return NO_CALLS
    except (PermissionError, RelayFailed) as error:
        print(f"{os.uname().nodename}: {error}", file=sys.stderr)
        return 1


class CallsOfPart:
    """The calls of an element of an array, or of all of a job that is none."""

    def __init__(self, file: BufferedReader | BytesIO, index: int, place: SharedFolder | MasterRelay) -> None:
        self._file = file
        self._place = place
        self._header = header = json.loads(file.readline())
        self._first = file.tell()
        size = header["chunk"]
        self._calls = header["calls"][(index - 1) * size : index * size] if index else header["calls"]
        self._outcomes: list[CallOutcome] = []
        self._size = 0
        """Bytes of the outcomes, about."""
        self._function: Any = None
        self._continued = b""
        """The call that an attempt before has saved, pickled: the next one that is made."""
        self._process = os.getpid()
        self._current: FunctionCall | None = None
        """The one that is under way, if it can save itself."""
        self._is_asked = False
        self._is_saved = False
        self._unsaved: CallOutcome | None = None
        """Of a call that was to save itself, and did not."""

    def make(self) -> int:
        """Make the calls; see `main`."""
        refusal = self._other_version()
        if refusal:
            self._outcomes = [(REFUSED, b"", refusal) for _ in self._calls]
        else:
            sys.path[:] = self._place.search_path(self._header["path"])
            self._expect_signal()
            self._take_up()
        while len(self._outcomes) < len(self._calls):
            if self._is_asked:
                self._save(self._continued)
                return ASKS_AGAIN
            outcome = self._made(self._calls[len(self._outcomes)])
            if self._is_saved:
                return ASKS_AGAIN
            outcome, self._unsaved = self._unsaved or outcome, None
            self._outcomes.append(outcome)
            self._size += len(outcome[1]) + len(outcome[2])
        self._place.finish(pickle.dumps(self._outcomes))
        return 0

    def _other_version(self) -> str:
        """Why the calls cannot be made by this interpreter; empty: they can."""
        here, there = list(sys.version_info[:2]), self._header["python"]
        if here == there:
            return ""
        made = f"and the call was made by Python {_version(there)}"
        return f"{os.uname().nodename}: {sys.executable} is Python {_version(here)}, {made}"

    def _piece(self, place: Sequence[int]) -> bytes:
        self._file.seek(self._first + place[0])
        return self._file.read(place[1])

    def _made(self, place: Sequence[int]) -> CallOutcome:
        try:
            function, args, keywords = call = self._next(place)
            if callable(getattr(function, "checkpoint", None)):
                self._current = call
            value = function(*args, **keywords)
            self._current = None
            return self._returned(value)
        except KeyboardInterrupt:  # the job is being ended, and ends by that
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
            raise
        except BaseException as error:
            return self._raised(error)
        finally:
            self._current = None

    def _next(self, place: Sequence[int]) -> FunctionCall:
        if self._continued:
            content, self._continued = self._continued, b""
            found: FunctionCall = pickle.loads(content)
            return found
        if self._function is None:
            self._function = pickle.loads(self._piece(self._header["function"]))
        args, keywords = pickle.loads(self._piece(place))
        return _unwrapped(self._function, args, keywords)

    # How they end

    def _dumped(self, value: Any) -> bytes:
        """Raises TooLarge, and what pickling it raises."""
        import cloudpickle  # by the paths of the program that made the call

        most = self._place.limit
        file = CountedBytes(max(0, most - self._size) if most else None)
        cloudpickle.dump(value, file)
        if file.is_over:
            own, others, allowed = shown_sizes(most, file.size, self._size)
            of_others = f", those of calls before hold {others}" if self._size else ""
            raise TooLarge(f"{own}{of_others}: {allowed} are the most that go through the master")
        return file.content()

    def _returned(self, value: Any) -> CallOutcome:
        try:
            return (RETURNED, self._dumped(value), "")
        except TooLarge as error:
            reason = f"its result holds {error}; a folder= that all hosts share has no such limit"
        except Exception as error:
            reason = f"its result, of type {type(value).__name__}, cannot be pickled: {type(error).__name__}: {error}"
        return (REFUSED, b"", reason)

    def _raised(self, error: BaseException) -> CallOutcome:
        told = "".join(traceback.format_exception(error))
        if self._place.limit:
            told = told[-max(self._place.limit // 8 - self._size // 8, _LEAST_TOLD) :]
        try:
            dumped = self._dumped(error)
            pickle.loads(dumped)  # some exceptions can be written and not read
        except Exception:
            dumped = b""
        return (RAISED, dumped, told)

    # Saving

    def _expect_signal(self) -> None:
        if not self._header["signal"]:
            return
        signal.signal(self._header["signal"], self._on_signal)
        with suppress(OSError), open(os.environ.get("GSCHED_DEADLINE", os.devnull)) as file:
            self._is_asked = bool(file.read())  # before this process could hear of it

    def _take_up(self) -> None:
        """What an attempt before has saved."""
        content = self._place.saved()
        if content is not None:
            self._outcomes, self._continued = pickle.loads(content)
            self._size = sum(len(dumped) + len(told) for _, dumped, told in self._outcomes)

    def _on_signal(self, *_: object) -> None:
        if os.getpid() != self._process:  # a process forked by the call
            return
        self._is_asked = True
        call, self._current = self._current, None
        if call is not None:
            self._checkpoint(call)
            raise SystemExit(ASKS_AGAIN)

    def _checkpoint(self, call: FunctionCall) -> None:
        """Have the call save itself; where it does not, that is how it ends."""
        function, args, keywords = call
        try:
            following = function.checkpoint(*args, **keywords)  # type: ignore[attr-defined]
            if following is None:
                self._unsaved = (REFUSED, b"", "its job was to end, and it does not go on: checkpoint() returned None")
                return
            self._save(self._dumped(_call_of(following)))
        except (TooLarge, RelayFailed) as error:
            self._unsaved = (REFUSED, b"", f"its job was to end, and what checkpoint() returned is not kept: {error}")
        except Exception as error:
            self._unsaved = self._raised(error)
        else:
            self._is_saved = True
            timer = threading.Timer(LEAVE_S, _leave)
            timer.daemon = True
            timer.start()

    def _save(self, continued: bytes) -> None:
        self._place.save(pickle.dumps((self._outcomes, continued)))


class SharedFolder:
    """Calls and outcomes as files of a folder that all hosts share."""

    limit = 0
    """Bytes; there is none."""

    def __init__(self, folder: str, batch: str, index: int) -> None:
        self._folder = folder
        self._calls = os.path.join(folder, f"{batch}.calls")
        self._result = os.path.join(folder, result_name(batch, index))
        self._state = os.path.join(folder, f"{batch}.{index}.state")

    def calls(self) -> BufferedReader:
        """The file of the batch. Raises OSError."""
        file = open(self._calls, "rb")  # noqa: SIM115 - the caller closes it
        check_owner(file)
        return file

    def search_path(self, program: list[str]) -> list[str]:
        """Where modules are looked for: as in the program that made the calls."""
        return program

    def saved(self) -> bytes | None:
        """What an attempt before has saved; None: nothing."""
        os.listdir(self._folder)  # has a network file system look again
        try:
            with open(self._state, "rb") as file:
                check_owner(file)
                return file.read()
        except FileNotFoundError:
            return None

    def save(self, content: bytes) -> None:
        """Keep it for the next attempt."""
        write_whole(self._state, content)

    def finish(self, content: bytes) -> None:
        """Write the outcomes; what was saved has served."""
        write_whole(self._result, content)
        with suppress(OSError):
            os.unlink(self._state)


class MasterRelay:
    """Calls from standard input; outcomes, and what is saved, as messages of the job that its owner alone reads."""

    limit = MOST_BYTES

    def __init__(self, given: BytesIO) -> None:
        self._given = given
        self._job = os.environ["GSCHED_JOB_ID"]
        self._folder = os.environ.get("GSCHED_BINDIR", "")
        self._environment = {**os.environ, "GSCHED_COMMAND_WAIT": str(_WAIT_S)}

    def calls(self) -> BytesIO:
        """The batch."""
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        self._given.seek(0)
        return self._given

    def search_path(self, program: list[str]) -> list[str]:
        """Where modules are looked for: as by any program of this host, then where the other host's program does."""
        return [*sys.path, *(each for each in program if each not in sys.path and os.path.isdir(each))]

    def saved(self) -> bytes | None:
        """What an attempt before has saved; None: nothing. Raises RelayFailed."""
        if os.environ.get("GSCHED_ATTEMPT", "1") == "1":
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "saved")
            if not self._run("gread", "-i", str(CHECKPOINT_BOX), "-a", path, self._job):
                return None
            with open(path, "rb") as file:
                return file.read()

    def save(self, content: bytes) -> None:
        """Keep it for the next attempt. Raises RelayFailed."""
        self._post(CHECKPOINT_BOX, f"a call has saved itself ({_shown(len(content))})", content)

    def finish(self, content: bytes) -> None:
        """Send the outcomes. Raises RelayFailed."""
        self._post(RESULT_BOX, f"how its calls have ended ({_shown(len(content))})", content)

    def _post(self, box: int, text: str, content: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "posted")
            write_whole(path, content, survives=False)
            self._run("gpost", "-i", str(box), "-d", text, "-a", path, self._job)

    def _run(self, program: str, *words: str) -> bool:
        """False: there is no attachment in the box, which only gread says. What was posted twice is there once."""
        told = ""
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_AGAIN_S)
            try:
                done = subprocess.run(
                    [os.path.join(self._folder, program), *words],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    env=self._environment,
                    check=False,
                )
            except OSError as error:  # in a container that does not have them, say
                raise RelayFailed(f"{error.filename}: {error.strerror}: results go through the master by it") from None
            told = done.stderr.decode("utf-8", "replace").strip()
            if not done.returncode:
                return True
            if done.returncode == NOTHING_ATTACHED:
                return False
        raise RelayFailed(f"{program}: {told}")


class CountedBytes:
    """A file in memory. When it holds more than `most` bytes it keeps nothing and counts on; None: no limit."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self.size = 0
        self._pieces: list[bytes] = []

    @property
    def is_over(self) -> bool:
        """Whether it holds more than it may."""
        return self._most is not None and self.size > self._most

    def write(self, data: Any) -> int:
        """What pickle calls."""
        size = memoryview(data).nbytes
        self.size += size
        if self.is_over:
            self._pieces.clear()
        else:
            self._pieces.append(bytes(data))
        return size

    def content(self) -> bytes:
        """All of it."""
        return b"".join(self._pieces)


def result_name(batch: str, index: int) -> str:
    """The file of outcomes of an array's element; index 0: of a job that is none."""
    return f"{batch}.{index}.result"


def check_owner(file: BufferedReader) -> None:
    """Raises PermissionError for a file of another user: what is unpickled can do anything."""
    owner = os.fstat(file.fileno()).st_uid
    if owner != os.geteuid():
        raise PermissionError(f"{file.name}: it belongs to uid {owner}")


def _version(numbers: list[int]) -> str:
    return ".".join(map(str, numbers))


def _shown(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else f"{size} bytes"


def shown_sizes(most: int, *sizes: int) -> list[str]:
    """The sizes, which are too large together, and last what is allowed: in units in which that can be seen."""
    if _shown(sum(sizes)) == _shown(most):
        return [f"{size} bytes" for size in (*sizes, most)]
    return [_shown(size) for size in (*sizes, most)]


def _unwrapped(function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> FunctionCall:
    """The call without functools.partial: the method `checkpoint` is that of what it calls in the end."""
    while isinstance(function, partial):
        function, args, keywords = function.func, (*function.args, *args), {**function.keywords, **keywords}
    return function, tuple(args), dict(keywords)


def _call_of(following: Any) -> FunctionCall:
    """What checkpoint() returned as a call: of a partial, of submitit's DelayedSubmission (function, args, kwargs), or
    of anything that can be called. Raises TypeError.
    """
    function, args, keywords = (getattr(following, name, None) for name in ("function", "args", "kwargs"))
    if callable(function) and isinstance(args, tuple | list) and isinstance(keywords, dict):
        return _unwrapped(function, args, keywords)
    if not callable(following):
        raise TypeError(f"checkpoint() returned what cannot be called: an object of type {type(following).__name__}")
    return _unwrapped(following, (), {})


def _leave() -> None:
    """End the process, whatever the call still does: all is kept."""
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(ASKS_AGAIN)


def write_whole(path: str, content: bytes, *, survives: bool = True) -> None:
    """The file is there as a whole or not at all, also after a crash of the host if it `survives` one. Only its owner
    may read it.
    """
    part = f"{path}.{os.uname().nodename}.{os.getpid()}.part"
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            if survives:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, path)
    except OSError:
        if os.path.exists(part):
            os.unlink(part)
        raise


if __name__ == "__main__":
    sys.exit(main(globals().get("calls")))
