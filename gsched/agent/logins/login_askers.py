"""Who asks about a login, and the process that opens the session: both as they were when the question came.

A number of a process is another's as soon as its process is gone and reaped. `gsched-pam` holds its connection open
while it waits, and its parent waits for it: as long as that is so, both numbers are theirs. Must never name a process
without its start time, nor one that has not opened a session: init, this agent's own parents, a listening sshd.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from gsched.run.processes import process_tree
from gsched.run.processes.process_tree import Process
from gsched.wire.identity.socket_peer import Peer

SO_PEERPIDFD = 77
"""Of Linux 6.5 and newer (include/uapi/asm-generic/socket.h); Python has no name for it yet."""
_GONE = select.POLLHUP | select.POLLRDHUP | select.POLLERR | select.POLLNVAL


class Connection(Protocol):
    """What is used of a socket: asyncio hands out no whole ones."""

    def fileno(self) -> int:
        """Below zero for one that is closed."""
        ...

    def getsockopt(self, level: int, option: int, /) -> int:
        """As of `socket.socket`."""
        ...


@dataclass(frozen=True, slots=True)
class Asker:
    """The process on the other end of a connection, as it was when the connection was accepted.

    `start`: clock ticks since boot; None for one that was gone by then, or that has no number here. `pidfd`: of the
    very process that connected; below zero where the kernel gives none.
    """

    pid: int
    uid: int
    start: int | None
    connection: Connection
    pidfd: int = -1

    def process(self) -> Process | None:
        """The process as it is now; None when it is gone, or waits no longer."""
        found = process_tree.read_process(self.pid) if self.start is not None else None
        if found is None or found.start != self.start or found.is_dead:
            return None
        # Looked at last: who was there until now had this number when it was read.
        return found if _is_open(self.connection) and not _has_ended(self.pidfd) else None


@contextmanager
def asker_of(connection: Connection, peer: Peer) -> Iterator[Asker]:
    """Who has connected: to be called as soon as that is accepted, and held while the question is answered."""
    pidfd = -1
    with contextlib.suppress(OSError):  # an older kernel, or a process that is reaped
        pidfd = connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    try:
        found = process_tree.read_process(peer.pid) if peer.pid > 0 else None
        is_its = found is not None and _is_open(connection) and not _has_ended(pidfd)
        yield Asker(peer.pid, peer.uid, found.start if found is not None and is_its else None, connection, pidfd)
    finally:
        if pidfd >= 0:
            os.close(pidfd)


@dataclass(frozen=True, slots=True)
class Opener:
    """The process of root's that has started an asker to open a session."""

    process: Process
    asker: Asker

    def is_there(self) -> bool:
        """Whether it still waits for the asker, so that its number is its own."""
        asking, now = self.asker.process(), process_tree.read_process(self.process.pid)
        is_parent = asking is not None and asking.ppid == self.process.pid
        return is_parent and now is not None and now.start == self.process.start


def opener_of(asker: Asker) -> Opener | str:
    """Who has started this process to open a session, or a line that says why it is nobody's session."""
    asking = asker.process()
    if asking is None:
        return "gsched-pam waits no longer"
    process = process_tree.read_process(asking.ppid) if asking.ppid > 1 else None
    if process is None or process_tree.owner_of(process.pid) != 0:
        return "gsched-pam was not started by a process of root's"
    if any(each.pid == process.pid for each in process_tree.ancestors(os.getpid())):
        return "gsched-pam was not started by a process that opens a session"
    if process.ppid <= 1 and process.session == process.pid:
        return "gsched-pam was started by a daemon, not by the process of one session"
    return Opener(process, asker)


def _is_open(connection: Connection) -> bool:
    """Whether the other end holds its connection, whatever of it has been read here."""
    number = connection.fileno()
    if number < 0:
        return False
    poll = select.poll()
    poll.register(number, select.POLLRDHUP)
    return not any(event & _GONE for _, event in poll.poll(0))


def _has_ended(pidfd: int) -> bool:
    """Whether the process is over; its descriptor can be read from then on. False without a descriptor."""
    if pidfd < 0:
        return False
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
