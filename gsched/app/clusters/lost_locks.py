"""Daemons of a private cluster that run, though nothing in the run folder tells of them: it was removed, or cleaned up.

They are known by their command lines, as `daemons.spawn` makes them, and they are this user's. Nobody reaches them any
more, since their sockets are gone as well; they are only ever ended, and never what they have started.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from gsched.app.clusters.daemons import KILL_TIMEOUT_S, STOP_TIMEOUT_S, lock_path, running_pid
from gsched.base.errors import GschedError

PROC = Path("/proc")


def find(conf: Path, run_dir: str) -> dict[int, str]:
    """Process id -> `master`, `door` or `agent-HOST` of the cluster, whose lock file in `run_dir` was removed.

    One that is about to end has closed it, one that has just begun has not opened it: neither is meant.
    """
    wanted = os.path.realpath(conf)
    found = {pid: _daemon_of(words, wanted) for pid, words in _own_processes()}
    return {
        pid: name
        for pid, name in sorted(found.items())
        if name and running_pid(run_dir, name) != pid and _has_removed(pid, os.path.realpath(lock_path(run_dir, name)))
    }


def end(conf: Path, run_dir: str) -> dict[int, str]:
    """End them all: SIGTERM, after a while SIGKILL. Returns them. Raises GschedError if one does not end."""
    unlocked = find(conf, run_dir)
    for pid, name in unlocked.items():
        if not _end(pid, name, os.path.realpath(conf)):
            raise GschedError(f"the {name} (process {pid}) does not end")
    return unlocked


def _own_processes() -> Iterator[tuple[int, Sequence[str]]]:
    for entry in os.listdir(PROC):
        if entry.isdigit():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if os.stat(PROC / entry).st_uid == os.getuid():
                    yield int(entry), _command_line(int(entry))


def _has_removed(pid: int, path: str) -> bool:
    """Whether the process has a file open that had this name and was removed."""
    with contextlib.suppress(OSError):  # it has ended meanwhile
        for entry in os.listdir(PROC / str(pid) / "fd"):
            with contextlib.suppress(OSError):
                if os.readlink(PROC / str(pid) / "fd" / entry) == f"{path} (deleted)":
                    return True
    return False


def _command_line(pid: int) -> Sequence[str]:
    return os.fsdecode((PROC / str(pid) / "cmdline").read_bytes()).split("\0")[:-1]


def _daemon_of(words: Sequence[str], conf: str) -> str:
    """The daemon whose command line this is; empty if it is none of this cluster."""
    if len(words) < 6 or words[1:3] != ["-m", "gsched.app.entry"]:
        return ""
    if words[-2] != "--envdir" or os.path.realpath(words[-1]) != conf:
        return ""
    kind, rest = words[3], words[4:-2]
    if kind == "agent":
        return f"agent-{rest[1]}" if len(rest) == 2 and rest[0] == "--host" else ""
    return kind if kind in ("master", "door") and not rest else ""


def _end(pid: int, name: str, conf: str) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        with contextlib.suppress(OSError):  # the number is not another process's by now
            if _daemon_of(_command_line(pid), conf) != name:
                return True
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        for number, limit_s in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, KILL_TIMEOUT_S)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
            if poll.poll(limit_s * 1000):
                return True
        return False
    finally:
        os.close(handle)
