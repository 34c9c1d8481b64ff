"""The daemons of a private cluster, started where they do not run: the master first, then all others side by side.

A daemon that runs is left alone. Who starts it waits until it serves, and hears why it cannot.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from gsched.app.clusters import daemons
from gsched.base.errors import GschedError
from gsched.model.config import ClusterConfig
from gsched.wire.address import DOOR_FILE, MASTER_FILE, read_address
from gsched.wire.calls.client import Client

READY_S = 90.0
HELLO_S = 3.0
FIRST_ASK_S = 0.2
MOST_AT_ONCE = 8
"""Daemons that are started side by side: a cluster of many hosts for tests must not take all of a machine's memory."""


@dataclass(frozen=True, slots=True)
class _Daemon:
    """One to be started: its name in logs and locks, its words after `gsched`, and what tells that it serves."""

    name: str
    words: tuple[str, ...]
    is_ready: Callable[[], bool]


def start_missing(conf: Path, config: ClusterConfig, names: Collection[str] = ()) -> None:
    """Start the daemons that do not run, or those of them that are named (`master`, `agent-HOST`, `door`)."""
    run_dir = config.locations.run_dir

    def is_missing(name: str) -> bool:
        return (not names or name in names) and not daemons.running_pid(run_dir, name)

    daemons.wait_a_while(lambda: not is_starting(conf, run_dir), READY_S)
    if is_missing("master"):
        _start(conf, config, [_Daemon("master", ("master",), _master_answers(conf))])
    others = [
        _Daemon(f"agent-{host}", ("agent", "--host", host), _host_is_known(conf, host))
        for host in config.hosts
        if is_missing(f"agent-{host}")
    ]
    if is_missing("door"):
        others.append(_Daemon("door", ("door",), _door_listens(conf)))
    for first in range(0, len(others), MOST_AT_ONCE):
        _start(conf, config, others[first : first + MOST_AT_ONCE])
    for host in config.hosts:  # an agent that was running finds a new master by itself
        if not names or daemons.running_pid(run_dir, f"agent-{host}"):
            daemons.wait_a_while(_host_is_known(conf, host), HELLO_S)


def is_starting(conf: Path, run_dir: str) -> bool:
    """Whether a master has begun, by a `gsched up` that was broken off, and has not said yet where it listens."""
    return not (conf / MASTER_FILE).exists() and bool(daemons.running_pid(run_dir, "master"))


def _start(conf: Path, config: ClusterConfig, missing: Sequence[_Daemon]) -> None:
    """Start them side by side and wait for each. Raises Unavailable with the first one that cannot start."""
    with contextlib.ExitStack() as stack:
        waits = []
        for daemon in missing:
            log_file = Path(config.locations.log_dir) / f"{daemon.name}.log"
            logged_before = log_file.stat().st_size if log_file.exists() else 0
            failure = stack.enter_context(daemons.hearing_failure())
            process = daemons.spawn([*daemon.words, "--envdir", str(conf)], log_file, failure)
            waits.append((daemon.is_ready, process, daemon.name, log_file, READY_S, failure, logged_before))
        for wait in waits:
            daemons.wait_until(*wait)


def _master_answers(conf: Path) -> Callable[[], bool]:
    wait_s = FIRST_ASK_S

    def ask() -> bool:
        nonlocal wait_s
        try:
            with Client(read_address(str(conf)), wait_s=wait_s) as client:
                client.cluster()
        except GschedError:
            wait_s = min(1.5 * wait_s, HELLO_S)  # where everything is slow, so is an answer
            return False
        return True

    return ask


def _host_is_known(conf: Path, host: str) -> Callable[[], bool]:
    client = Client(read_address(str(conf)), wait_s=1.0)

    def ask() -> bool:
        try:
            view = client.hosts([host])[0]
        except GschedError:
            return False
        return view.status not in ("unavail", "unreach") and view.ncpus > 0 and view.gpu_provider != ""

    return ask


def _door_listens(conf: Path) -> Callable[[], bool]:
    def ask() -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(1.0)
                probe.connect(read_address(str(conf), DOOR_FILE))
        except (GschedError, OSError):
            return False
        return True

    return ask
