"""The files of tasks, which agent and supervisor tell each other of tasks by.

A task is a command that runs beside a job's own main process, on any of the job's hosts. TASKS/NAME in the attempt's
folder holds `order` (by the agent), `started`, `status` (by the supervisor) and the socket of its output. Everything
read here may be missing or torn. Standard library and msgspec only: the fork server's interpreter loads it.
"""

from __future__ import annotations

import json
import os

import msgspec

from gsched.base.machine.atomic_write import write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TASKS = "tasks"
"""Folder of an attempt's tasks, in the attempt's folder."""
ORDER, STARTED, STATUS, UNWANTED = "order", "started", "status", "unwanted"
MOST_RUNNING = 128
"""Tasks of one attempt on one host at a time: each has pipes and a thread in its supervisor."""


class TaskOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A task to be run. Bytes that are not UTF-8 are carried as by the error handler "surrogateescape"."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    """All of it, but for what is added to a job's as well."""
    cwd: str
    umask: int
    reads: bool
    """Its standard input comes from who has ordered it; else it has none."""
    pty: bool = False
    """Its standard streams are a pseudo-terminal."""


def write_order(attempt_folder: str, name: str, order: TaskOrder) -> bool:
    """Put a task's order there, whole; False when it is there already. Raises OSError."""
    tasks = f"{attempt_folder}/{TASKS}"
    if os.path.isdir(f"{tasks}/{name}"):
        return False
    os.makedirs(tasks, mode=0o700, exist_ok=True)
    made = f"{tasks}/.{name}.{os.getpid()}"
    os.mkdir(made, 0o700)
    try:
        write_file(f"{made}/{ORDER}", json.dumps(msgspec.to_builtins(order)).encode())
        os.rename(made, f"{tasks}/{name}")
    except OSError:
        _remove(made)
        if os.path.isdir(f"{tasks}/{name}"):
            return False
        raise
    return True


def read_order(attempt_folder: str, name: str) -> TaskOrder | None:
    """A task's order as it was written; None where there is none."""
    try:
        return msgspec.convert(read(attempt_folder, name, ORDER), TaskOrder)
    except msgspec.MsgspecError:
        return None


def names(attempt_folder: str) -> list[str]:
    """Names of the tasks that there is an order for."""
    try:
        return sorted(name for name in os.listdir(f"{attempt_folder}/{TASKS}") if not name.startswith("."))
    except OSError:
        return []


def running(attempt_folder: str) -> int:
    """How many have not ended."""
    folder = f"{attempt_folder}/{TASKS}"
    return sum(not os.path.exists(f"{folder}/{name}/{STATUS}") for name in names(attempt_folder))


def read(attempt_folder: str, name: str, file: str) -> dict[str, Any] | None:
    """One of a task's files; None where there is none."""
    try:
        with open(f"{attempt_folder}/{TASKS}/{name}/{file}", "rb") as opened:
            found = json.loads(opened.read())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def remove(attempt_folder: str, name: str) -> None:
    """Nothing of it is kept."""
    _remove(f"{attempt_folder}/{TASKS}/{name}")


def _remove(folder: str) -> None:
    import shutil  # only in the agent: the fork server, which every supervisor is a copy of, does without

    shutil.rmtree(folder, ignore_errors=True)
