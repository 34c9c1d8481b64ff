"""Running the daemons: in the foreground for systemd and people, in the background for a private cluster.

A daemon holds a lock file in the run folder for as long as it lives; the lock, not a process id, says whether it runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path

from gsched.base.errors import Conflict, GschedError, Unavailable

STOP_TIMEOUT_S = 15.0
KILL_TIMEOUT_S = 5.0
LOOK_S = 0.02
LOCK_PATIENCE_S = 2.0
LOG_TAIL = 6
FAILURE_VARIABLE = "GSCHED_FAILURE_FD"
MOST_FAILURE = 4000
"""Bytes that are told of why a daemon cannot start; less than a pipe takes at once."""


def make_shared_folder(folder: str) -> None:
    """Make the folder unless it is there; everybody may look into it, its owner alone puts something there."""
    try:
        os.mkdir(folder)
    except FileExistsError:
        return
    except OSError as error:
        raise GschedError(f"{folder}: cannot be made: {error.strerror}") from None
    os.chmod(folder, 0o755)


@contextlib.contextmanager
def holding_lock(run_dir: str, name: str) -> Iterator[None]:
    """Hold the daemon's lock, with the process id in it. Raises Conflict if another one runs."""
    Path(run_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(lock_path(run_dir, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _take(descriptor):
        pid = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise Conflict(f"the {name} of this cluster already runs (process {pid})")
    # In place, and cut afterwards: this takes no room on a disk that is full.
    os.ftruncate(descriptor, os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0))
    try:
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    """Lock the open file. Whoever only looks (`running_pid`) holds it for an instant: that is waited for."""
    deadline = time.monotonic() + LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        time.sleep(0.003)


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Wait until nobody else is inside this block for the folder (starting or stopping a cluster), then enter."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def lock_path(run_dir: str, name: str) -> Path:
    """Lock file of the daemon `master`, `door` or `agent-HOST`."""
    return Path(run_dir) / f"{name}.lock"


def known(run_dir: str) -> set[str]:
    """Names of the daemons that have ever run here."""
    return {path.stem for path in Path(run_dir).glob("*.lock")}


def running_pid(run_dir: str, name: str) -> int | None:
    """Process id of the running daemon, or None."""
    try:
        descriptor = os.open(lock_path(run_dir, name), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(descriptor)
    return None


class Failure:
    """A pipe on which a daemon that cannot start says why. Its log holds more, and what was there before."""

    def __init__(self) -> None:
        self._read, self.write = os.pipe()
        os.set_blocking(self._read, False)

    def text(self) -> str:
        """What it has said; empty: nothing."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self._read, MOST_FAILURE).decode("utf8", "replace").strip()
        return ""

    def close(self) -> None:
        os.close(self._read)
        os.close(self.write)


@contextlib.contextmanager
def hearing_failure() -> Iterator[Failure]:
    """For who starts a daemon and waits for it."""
    failure = Failure()
    try:
        yield failure
    finally:
        failure.close()


@contextlib.contextmanager
def telling_failure(environment: MutableMapping[str, str]) -> Iterator[None]:
    """What ends the block with an error is told to who has started this daemon, where somebody listens."""
    number = environment.pop(FAILURE_VARIABLE, "")
    if not number.isdigit():
        yield
        return
    descriptor = int(number)
    with contextlib.suppress(OSError):
        os.set_inheritable(descriptor, False)
    try:
        yield
    except Exception as error:
        text = error.text if isinstance(error, GschedError) else f"{type(error).__name__}: {error}"
        if isinstance(error, OSError):
            text = f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}"
        with contextlib.suppress(OSError):
            os.write(descriptor, text.encode("utf8", "replace")[:MOST_FAILURE])
        raise


def spawn(arguments: list[str], log_file: Path, failure: Failure | None = None) -> subprocess.Popen[bytes]:
    """Start `gsched ARGUMENTS` in the background in a session of its own, logging to `log_file`."""
    log_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    told = () if failure is None else (failure.write,)
    with log_file.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "gsched.app.entry", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
            pass_fds=told,
            env={**os.environ, **({FAILURE_VARIABLE: str(told[0])} if told else {})},
        )


def wait_until(
    is_ready: Callable[[], bool],
    process: subprocess.Popen[bytes],
    name: str,
    log_file: Path,
    limit_s: float,
    failure: Failure,
    logged_before: int = 0,
) -> None:
    """Wait for a spawned daemon. Raises Unavailable with what it says of it, or the end of its log, if it dies or takes
    too long. `logged_before`: bytes that the log held already."""
    deadline = time.monotonic() + limit_s
    while not is_ready():
        if process.poll() is not None:
            told = failure.text()
            if told:
                raise Unavailable(f"the {name} cannot start: {told}")
            raise Unavailable(f"the {name} ended with exit code {process.returncode}: {_tail(log_file, logged_before)}")
        if time.monotonic() > deadline:
            logged = _tail(log_file, logged_before)
            raise Unavailable(f"the {name} was not ready within {limit_s:g} s; its log is {log_file}: {logged}")
        time.sleep(LOOK_S)  # it may die instead of answering: nothing else tells of both


def wait_a_while(is_ready: Callable[[], bool], limit_s: float) -> bool:
    """Wait for what should come by itself; returns whether it came."""
    deadline = time.monotonic() + limit_s
    while not is_ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_S)  # another process: nothing tells
    return True


def stop(run_dir: str, name: str) -> bool:
    """End a daemon: SIGTERM, after a while SIGKILL. Returns whether it ran. Raises GschedError if it does not end."""
    pid = running_pid(run_dir, name)
    if not pid:
        return False
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if running_pid(run_dir, name) != pid:  # it has ended just now, and its number may be another's
            return True
        for number, limit_s in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, KILL_TIMEOUT_S)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, number)
            if select.select([process], [], [], limit_s)[0]:  # its lock is free before: it still has files then
                return True
    finally:
        os.close(process)
    raise GschedError(f"the {name} (process {pid}) does not end")


def _tail(log_file: Path, since: int) -> str:
    """The last lines below those that the log held before."""
    try:
        lines = log_file.read_bytes()[since:].decode("utf8", "replace").strip().splitlines()
    except OSError:
        return "no log"
    return " | ".join(line.strip() for line in lines[-LOG_TAIL:])
