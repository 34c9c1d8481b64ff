"""Locks that keep two clusters on one machine off the same GPU.

One file per GPU in a folder that every user of the machine may use. The clusters' masters do not know each other, so
the kernel's flock(2) decides: a lock lives as long as the process that took it, a crash leaves nothing to clean up.
Attempts of one cluster share the lock (its own ledger decides who shares a GPU); attempts of different clusters exclude
each other. The files are open to anyone, so their contents are never trusted for more than "is this lock mine?".

Never writes to anything but a plain file of its own, follows no symbolic link, and never waits longer than asked.
Imports next to nothing, because the fork server loads it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable

_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:")
_OPEN_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_OWNER_BYTES = 255


class GpuLockError(OSError):
    """A GPU that cannot be locked; the text names the GPU and says why."""


def default_folder() -> str:
    """The machine-wide folder: under /run/lock where everybody may create files there, else under /tmp."""
    try:
        mode = os.stat("/run/lock").st_mode
    except OSError:
        mode = 0
    parent = "/run/lock" if stat.S_ISDIR(mode) and mode & 0o1002 == 0o1002 else "/tmp"
    return parent + "/gsched-gpu"


def lock_gpus(uuids: Iterable[str], owner: str, folder: str = "", patience_s: float = 0.2) -> list[int]:
    """File descriptors that hold the locks of all GPUs for cluster `owner`; closing them lets go.

    All or nothing. Raises GpuLockError when a GPU is held by another owner, or cannot be locked within `patience_s`.
    """
    held: list[int] = []
    names = sorted(set(uuids))
    if not names:
        return held
    try:
        folder_fd = _open_folder(folder or default_folder())
        try:
            for uuid in names:
                held.append(_lock_one(folder_fd, uuid, owner, time.monotonic() + patience_s))
        finally:
            os.close(folder_fd)
    except GpuLockError:
        release(held)
        raise
    except OSError as error:
        release(held)
        where = folder or default_folder()
        raise GpuLockError(f"cannot lock GPU {names[len(held)]} in {where}: {error.strerror}") from error
    return held


def release(fds: Iterable[int]) -> None:
    """Let go of the locks that `lock_gpus` returned."""
    for fd in fds:
        os.close(fd)


def _open_folder(path: str) -> int:
    try:
        os.mkdir(path)
    except FileExistsError:
        pass
    else:
        os.chmod(path, 0o1777)  # mkdir obeys the umask; other users' clusters must be able to add files
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _lock_one(folder_fd: int, uuid: str, owner: str, deadline: float) -> int:
    """One attempt after the other until the lock is held, known to be another's, or time is up."""
    if not uuid or not _NAME_CHARACTERS.issuperset(uuid) or uuid.startswith("."):
        raise GpuLockError(f"'{uuid}' is not the UUID of a GPU")
    while True:
        try:
            fd = _open_lock(folder_fd, uuid)
        except PermissionError:  # its creator may be about to open it up
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.002)
            continue
        try:
            if _try_lock(fd, owner) and _is_current(folder_fd, uuid, fd):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        if time.monotonic() >= deadline:
            raise GpuLockError(f"GPU {uuid} is in use by another cluster")
        time.sleep(0.002)


def _open_lock(folder_fd: int, uuid: str) -> int:
    """The lock file, made if need be. Without O_CREAT first: fs.protected_regular forbids it on others' files."""
    try:
        fd = os.open(uuid, _OPEN_FLAGS, dir_fd=folder_fd)
    except FileNotFoundError:
        try:
            fd = os.open(uuid, _OPEN_FLAGS | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder_fd)
            os.fchmod(fd, 0o666)
        except FileExistsError:
            fd = os.open(uuid, _OPEN_FLAGS, dir_fd=folder_fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise GpuLockError(f"the lock of GPU {uuid} is not a plain file") from error
        raise
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(fd)
        raise GpuLockError(f"the lock of GPU {uuid} is not a plain file")
    return fd


def _try_lock(fd: int, owner: str) -> bool:
    """Hold the lock for `owner`, shared with its other attempts; False when somebody else has it.

    Who gets it alone writes his name and then opens it for sharing. Changing the kind of a lock is not atomic, so
    the name is read again under the shared lock.
    """
    name = _written(owner)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
    else:
        # In place, and only where it is another's: some file systems write a file that was emptied to the disk at once.
        if os.pread(fd, _OWNER_BYTES + 1, 0) != name:
            os.pwrite(fd, name, 0)
            os.ftruncate(fd, len(name))
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.pread(fd, _OWNER_BYTES + 1, 0) == name


def _written(owner: str) -> bytes:
    """The owner as it stands in the file: a name too long for it by its digest, or two could look alike."""
    name = owner.encode()
    if len(name) <= _OWNER_BYTES:
        return name
    from hashlib import sha256  # here, as it is hardly ever needed and the fork server starts without it

    return sha256(name).hexdigest().encode()


def _is_current(folder_fd: int, uuid: str, fd: int) -> bool:
    """Whether the locked file is still the one of that name: a cleaner of old files may have removed it meanwhile."""
    try:
        named = os.stat(uuid, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    mine = os.fstat(fd)
    return (named.st_dev, named.st_ino) == (mine.st_dev, mine.st_ino)
