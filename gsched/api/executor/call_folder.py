"""The folder in which an executor keeps its calls until their results are there. It must be the user's alone: what lies
there is unpickled.

    BATCH.calls         a line of JSON, then the pickled function and the pickled arguments of each call
    BATCH.job           a line of JSON: the job's number and the cluster's folder, written once it was submitted
    BATCH.INDEX.result  outcomes of an array's element, of a job that is none with 0 (run_calls)
    BATCH.INDEX.state   what a call has saved for the next attempt of its job
"""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gsched.api.executor.call_outcome import CallFailed
from gsched.api.executor.run_calls import NO_CALLS, CallOutcome, check_owner, result_name, write_whole
from gsched.api.failure import JobFailed
from gsched.base.errors import BadRequest, GschedError
from gsched.model.views.view import JobEnd

try:
    import cloudpickle
except ImportError:  # of an extra
    cloudpickle = None

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_BATCH = re.compile(r"(\d{20}-[0-9a-f]{8})\.calls")
MOST_ELEMENTS = 10_000
"""Of an array; a larger map becomes several."""
_SEEN_LATE_S = 5.0
"""For so long a file that another host has written may not be seen yet on a network file system."""
_LOOK_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True)
class Batch:
    """Calls of one function that were submitted together."""

    name: str
    calls: int
    chunk: int
    """Calls of each element of its array; 0: it is one job without elements."""

    @property
    def elements(self) -> int:
        """0: it is no array."""
        return -(-self.calls // self.chunk) if self.chunk else 0


class CallFolder:
    """One executor's. `is_kept`: another program may find its calls again, also after a crash of the host. Raises
    BadRequest where it is not the user's alone.
    """

    def __init__(self, path: str, *, is_kept: bool = True) -> None:
        self.path = path
        self._is_kept = is_kept
        self._held = -1
        """The folder, open, while it is held."""
        try:
            _make_private(path)
            found = os.stat(path)
        except OSError as error:
            raise BadRequest(f"{path}: {error.strerror}: an executor keeps its calls there") from None
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
            raise BadRequest(f"{path}: others may write there: an executor's folder has to be of its user alone")

    def hold(self) -> bool:
        """Have the folder alone, until `release` or the end of this process; false where somebody else has it. A file
        system that has no such locks is taken as it is.
        """
        self._held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            return False
        except OSError:
            pass
        return True

    def release(self) -> None:
        """Somebody else may have the folder."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def check_size(self, function: bytes, calls: Sequence[bytes]) -> None:
        """Raise BadRequest where the calls, made together, are larger than they may be."""

    def pieces(self, calls: Sequence[bytes], chunk: int) -> Iterator[Sequence[bytes]]:
        """The calls of a map for each of its arrays."""
        most = chunk * MOST_ELEMENTS
        return (calls[start : start + most] for start in range(0, len(calls), most))

    def path_of(self, batch: Batch) -> str:
        """The file of its calls."""
        return os.path.join(self.path, f"{batch.name}.calls")

    def add(self, function: bytes, calls: Sequence[bytes], chunk: int, signal: int = 0, source: str = "") -> Batch:
        """Write the calls, pickled. `chunk`: as of Batch. `signal`: the number of that by which a call saves itself; 0:
        none does. `source`: the program that makes them, where it is sent with them.
        """
        places, at = [], len(function)
        for call in calls:
            places.append([at, len(call)])
            at += len(call)
        header = {
            "python": list(sys.version_info[:2]),
            "path": [os.path.abspath(each) if each else os.getcwd() for each in sys.path],
            "function": [0, len(function)],
            "calls": places,
            "chunk": chunk,
            "signal": signal,
            "source": source,
        }
        # By name in the order in which they were made.
        batch = Batch(f"{time.time_ns():020d}-{os.urandom(4).hex()}", len(calls), chunk)
        content = json.dumps(header).encode() + b"\n" + function + b"".join(calls)
        try:
            write_whole(self.path_of(batch), content, survives=self._is_kept)
        except OSError as error:
            raise GschedError(f"{self.path}: {error.strerror}: the call was not submitted") from None
        return batch

    def batches(self) -> list[Batch]:
        """Those that are there, oldest first."""
        names = sorted(found[1] for found in map(_BATCH.fullmatch, os.listdir(self.path)) if found)
        return [each for each in map(self._batch, names) if each is not None]

    def _batch(self, name: str) -> Batch | None:
        try:
            with open(os.path.join(self.path, f"{name}.calls"), "rb") as file:
                header = json.loads(file.readline())
                return Batch(name, len(header["calls"]), int(header["chunk"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def note_job(self, batch: Batch, job_id: int, cluster: str) -> None:
        """The batch was submitted as this job: for programs that find it again."""
        if not self._is_kept:
            return
        content = json.dumps({"job": job_id, "cluster": cluster}).encode()
        write_whole(os.path.join(self.path, f"{batch.name}.job"), content)

    def job_of(self, batch: Batch) -> tuple[int, str] | None:
        """Number of its job, and the cluster's folder; None where it is not known."""
        try:
            with open(os.path.join(self.path, f"{batch.name}.job"), "rb") as file:
                found = json.loads(file.read())
                return int(found["job"]), str(found["cluster"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def kept(self, batch: Batch, index: int) -> list[CallOutcome] | None:
        """The outcomes that lie here of an element, or with 0 of a job that is no array; None where there are none.
        Raises GschedError.
        """
        path = os.path.join(self.path, result_name(batch.name, index))
        try:
            with open(path, "rb") as file:
                check_owner(file)
                content = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise GschedError(f"{path}: cannot be read: {type(error).__name__}: {error}") from None
        return unpickled(content, path)

    def outcomes(self, batch: Batch, index: int, job_id: int, *, is_expected: bool = False) -> list[CallOutcome] | None:
        """Those of the job of that number, which is over; see `kept`. `is_expected`: they were written, perhaps by
        another host, so that they may be seen a little later.
        """
        until = time.monotonic() + (_SEEN_LATE_S if is_expected else 0.0)
        while (found := self.kept(batch, index)) is None and time.monotonic() < until:
            with suppress(OSError):
                os.listdir(self.path)  # has a network file system look again
            time.sleep(_LOOK_AGAIN_S)
        return found

    def let_go(self) -> None:
        """What was fetched since the last time need not be kept for this program any more. Never raises."""

    def missing(self, end: JobEnd, where: str) -> GschedError:
        """Why a job that is over has left no outcome."""
        if end.succeeded:
            return CallFailed(f"{where}: it has ended, and its results are not in {self.path}")
        if end.exit_code == NO_CALLS:
            return CallFailed(
                f"{where} does not find {self.path}: an executor's folder= has to be one that all hosts share; "
                "shared=False sends calls and results through the master"
            )
        return JobFailed(end)

    def remove(self, batches: Iterable[Batch]) -> None:
        """All files of the batches that are still there. Raises GschedError."""
        names = {batch.name for batch in batches}
        try:
            for each in os.listdir(self.path) if names else ():
                if each.partition(".")[0] in names:
                    with suppress(FileNotFoundError):
                        os.unlink(os.path.join(self.path, each))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise GschedError(f"{self.path}: {error.strerror}: its files cannot be removed") from None

    def remove_if_empty(self) -> None:
        """The folder itself; another executor may use it too."""
        try:
            os.rmdir(self.path)
        except OSError:
            pass


def _make_private(path: str) -> None:
    """The folder and those above it that are missing: whoever may write above it could put another in its place."""
    above = os.path.dirname(path)
    if not os.path.isdir(above):
        _make_private(above)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)


def unpickled(content: bytes, where: str) -> list[CallOutcome]:
    """The outcomes that `where` holds. Raises GschedError."""
    try:
        return list(pickle.loads(content))
    except Exception as error:
        raise GschedError(f"{where}: cannot be read: {type(error).__name__}: {error}") from None


def checked_name(name: object) -> str:
    """The name of an executor. Raises BadRequest for one that cannot be that of a folder."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadRequest(
            f"name={name!r}: letters, digits, '.', '_' and '-' are wanted, at most 100, a letter or digit first"
        )
    return name


def pickled(what: str, value: Any) -> bytes:
    """By cloudpickle. Raises BadRequest naming what cannot be pickled, and GschedError where the package is missing."""
    if cloudpickle is None:
        raise GschedError("gsched.Executor needs the package cloudpickle: python -m pip install 'gsched[executor]'")
    try:
        found: bytes = cloudpickle.dumps(value)
    except Exception as error:
        raise BadRequest(f"{what} cannot be pickled: {type(error).__name__}: {error}") from None
    return found
