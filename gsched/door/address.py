"""Where the door's socket lies, who may reach it, and how launchers learn of it.

The socket's folder belongs to the door's user alone, so nobody else can put a false door in its place. Nothing here
ever removes a socket that somebody still listens on.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
from pathlib import Path

from gsched.base.errors import Conflict, GschedError, PermissionDenied
from gsched.wire.address import DOOR_FILE, MAX_SOCKET_PATH, write_address


class Listener:
    """The door's listening socket; the folder's lock is held as long as it lives."""

    def __init__(self, path: str, listening: socket.socket, lock: int) -> None:
        self.path = path
        self.socket = listening
        self._lock = lock
        self._inode = os.lstat(path).st_ino

    def close(self) -> None:
        """Stop listening and remove the socket, unless it is no longer ours."""
        with contextlib.suppress(OSError):
            if os.lstat(self.path).st_ino == self._inode:
                Path(self.path).unlink()
        self.socket.close()
        os.close(self._lock)


def listen(path: str, *, others: bool = False) -> Listener:
    """Open the door's socket at an absolute path; its folder is made when it is missing.

    `others` lets every user of the host reach the socket. Raises PermissionDenied when the folder is not safely ours,
    Conflict when another door listens there, GschedError when the path cannot be used.
    """
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        raise GschedError(f"{path}: a unix socket's path has at most {MAX_SOCKET_PATH} bytes")
    folder = Path(path).parent
    try:
        folder.mkdir(mode=0o755 if others else 0o700, exist_ok=True)
        _check_folder(folder, others)
        lock = _lock(folder / (Path(path).name + ".lock"), path)
    except OSError as problem:
        raise GschedError(f"{folder}: {problem.strerror}") from None
    try:
        _remove_stale(path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(path)
            # Between bind and chmod nobody can connect: that needs listen.
            Path(path).chmod(0o666 if others else 0o600)
            listening.listen(128)
        except BaseException:
            listening.close()
            raise
    except OSError as problem:
        os.close(lock)
        raise GschedError(f"{path}: {problem.strerror}") from None
    except BaseException:
        os.close(lock)
        raise
    return Listener(path, listening, lock)


def announce(configuration: Path, path: str) -> None:
    """Tell launchers: write the socket's path into the configuration folder, unless it stands there already.

    Raises GschedError.
    """
    if _is_announced(configuration, path):
        return
    try:
        write_address(str(configuration), DOOR_FILE, path)
        (configuration / DOOR_FILE).chmod(0o644)
    except (OSError, UnicodeEncodeError) as problem:
        raise GschedError(f"{configuration / DOOR_FILE}: {getattr(problem, 'strerror', problem)}") from None


def withdraw(configuration: Path, path: str) -> None:
    """Take the word back, unless another door has given its own since."""
    with contextlib.suppress(OSError):
        if _is_announced(configuration, path):
            (configuration / DOOR_FILE).unlink()


def _is_announced(configuration: Path, path: str) -> bool:
    try:
        return (configuration / DOOR_FILE).read_text(encoding="utf-8", errors="surrogateescape") == path + "\n"
    except OSError:
        return False


def _check_folder(folder: Path, others: bool) -> None:
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise PermissionDenied(f"{folder}: the door's folder must belong to the user the door runs as")
    if others and status.st_mode & 0o022:
        raise PermissionDenied(f"{folder}: the door's folder must not be writable for others (mode 0755)")
    if not others and status.st_mode & 0o077:
        raise PermissionDenied(f"{folder}: the door's folder must be closed to others (mode 0700)")


def _lock(file: Path, path: str) -> int:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Conflict(f"{path}: another door listens there") from None
    return descriptor


def _remove_stale(path: str) -> None:
    """Remove a socket that a dead door left behind; the lock is not enough, an older door may not know of it."""
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.setblocking(False)
    with probe:
        code = probe.connect_ex(path)
    if code == errno.ENOENT:
        return
    if code != errno.ECONNREFUSED or not Path(path).is_socket():
        raise Conflict(f"{path}: another door listens there" if Path(path).is_socket() else f"{path}: not a socket")
    Path(path).unlink()
