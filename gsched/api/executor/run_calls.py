"""What an executor's job runs: the calls of its part of a batch, one after the other; it writes how each ended.

    python -P run_calls.py FOLDER BATCH

It is run as a file by the interpreter of the program that made the calls, and imports nothing of gsched: whatever the
function needs is imported by the paths of that program. It must never run calls that another version of Python has
pickled, nor leave half of a file of results.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import traceback
from io import BufferedReader
from typing import Any

RETURNED, RAISED, REFUSED = "returned", "raised", "refused"
"""How a call ended: with a value, with an exception, or it was never made."""
CallOutcome = tuple[str, bytes, str]
"""One of these words; the pickled value or exception, empty where it cannot be pickled; the traceback or the reason."""


def main() -> int:
    """Exit code 0 where all outcomes were written, whatever they are."""
    folder, batch = sys.argv[1:3]
    index = int(os.environ.get("LSB_JOBINDEX") or 0)
    try:
        with open(os.path.join(folder, f"{batch}.calls"), "rb") as file:
            check_owner(file)
            outcomes = run_part(file, index)
    except FileNotFoundError as error:
        where = f"{os.uname().nodename}: {error.filename} is not there"
        print(f"{where}: an executor's folder= has to be one that all hosts share", file=sys.stderr)
        return 1
    except PermissionError as error:
        print(f"{os.uname().nodename}: {error}", file=sys.stderr)
        return 1
    write_whole(os.path.join(folder, result_name(batch, index)), pickle.dumps(outcomes))
    return 0


def result_name(batch: str, index: int) -> str:
    """The file of outcomes of an array's element; index 0: of a job that is none."""
    return f"{batch}.{index}.result"


def check_owner(file: BufferedReader) -> None:
    """Raises PermissionError for a file of another user: what is unpickled can do anything."""
    owner = os.fstat(file.fileno()).st_uid
    if owner != os.geteuid():
        raise PermissionError(f"{file.name}: it belongs to uid {owner}")


def run_part(file: BufferedReader, index: int) -> list[CallOutcome]:
    """The outcomes of the calls of an element, or of all where there is no array."""
    header = json.loads(file.readline())
    first = file.tell()

    def piece(place: list[int]) -> bytes:
        file.seek(first + place[0])
        return file.read(place[1])

    size = header["chunk"]
    places = header["calls"][(index - 1) * size : index * size] if index else header["calls"]
    here = list(sys.version_info[:2])
    if header["python"] != here:
        reason = (
            f"{os.uname().nodename}: {sys.executable} is Python {_version(here)}, and the call was made by "
            f"Python {_version(header['python'])}"
        )
        return [(REFUSED, b"", reason) for _ in places]
    sys.path[:] = header["path"]
    function = None
    outcomes: list[CallOutcome] = []
    for place in places:
        try:
            if function is None:
                function = pickle.loads(piece(header["function"]))
            args, keywords = pickle.loads(piece(place))
            value = function(*args, **keywords)
        except KeyboardInterrupt:  # the job is being ended, and ends by that
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        except BaseException as error:
            outcomes.append(_raised(error))
        else:
            outcomes.append(_returned(value))
    return outcomes


def _version(numbers: list[int]) -> str:
    return ".".join(map(str, numbers))


def _dumped(value: Any) -> bytes:
    import cloudpickle  # by the paths of the program that made the call

    found: bytes = cloudpickle.dumps(value)
    return found


def _returned(value: Any) -> CallOutcome:
    try:
        return (RETURNED, _dumped(value), "")
    except Exception as error:
        reason = f"its result, of type {type(value).__name__}, cannot be pickled: {type(error).__name__}: {error}"
        return (REFUSED, b"", reason)


def _raised(error: BaseException) -> CallOutcome:
    told = "".join(traceback.format_exception(error))
    try:
        dumped = _dumped(error)
        pickle.loads(dumped)  # some exceptions can be written and not read
    except Exception:
        dumped = b""
    return (RAISED, dumped, told)


def write_whole(path: str, content: bytes) -> None:
    """The file is there as a whole or not at all, also after a crash. Only its owner may read it."""
    part = f"{path}.{os.uname().nodename}.{os.getpid()}.part"
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError:
        if os.path.exists(part):
            os.unlink(part)
        raise


if __name__ == "__main__":
    sys.exit(main())
