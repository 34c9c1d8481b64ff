"""Locks that keep two clusters on one machine off the same GPU.

One file per GPU. The clusters' masters do not know each other, so the kernel's flock(2) decides: a lock lives as long
as the process that took it, a crash leaves nothing to clean up. Attempts of one cluster share the lock (its own ledger
decides who shares a GPU); attempts of different clusters exclude each other.

Private clusters meet in a folder that every user of the machine may use. Its files are open to anyone, so their
contents are never trusted for more than "is this lock mine?". A shared cluster whose agent is root's locks in a folder
that root alone can open. That it exists says that this machine's GPUs are the system's, which no user can undo, and
no private cluster takes one from then on. What one holds at that moment it keeps: a GPU becomes the system's when its
common lock is seen free for the first time, and that lock is not looked at again. Neither can miss the other: the one
looks for root's folder once it holds the common lock, the other at the common lock once it has made that folder.

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

from gsched.base.coded_text import AnyText, coded

_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:")
_OPEN_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_OWNER_BYTES = 255
ROOTS_FOLDER = "/run/gsched-gpu"
"""The locks of shared clusters of root's; its parent is root's on every system."""
SINCE_BOOT = "since-boot"
"""A file in there that is made as the machine boots, before any user's process: no user's cluster came first."""
CLAIMED = coded("lock.of_root")


class GpuLockError(OSError):
    """A GPU that cannot be locked; the text names the GPU and says why. `said` is what travels on."""

    def __init__(self, text: AnyText) -> None:
        super().__init__(str(text))
        self.said = text


class GpuLockFolders:
    """Where locks are: `common` is everybody's folder; `roots` is root's, empty where only the common one counts.
    `is_root`: the locks are for a shared cluster whose agent is root's.
    """

    __slots__ = ("common", "is_root", "roots")

    def __init__(self, common: str, roots: str, is_root: bool) -> None:
        self.common = common
        self.roots = roots
        self.is_root = is_root


def places(*, is_shared: bool) -> GpuLockFolders:
    """Folders of locks on this machine, for this process of a shared cluster or of a private one, whoever's that is."""
    # Root of a user namespace is not root: there the machine's folders are nobody's.
    is_root = is_shared and os.geteuid() == 0 and os.stat(os.path.dirname(ROOTS_FOLDER)).st_uid == 0
    return GpuLockFolders(default_folder(), ROOTS_FOLDER, is_root)


def default_folder() -> str:
    """The common folder: under /run/lock where everybody may create files there, else under /tmp."""
    try:
        mode = os.stat("/run/lock").st_mode
    except OSError:
        mode = 0
    parent = "/run/lock" if stat.S_ISDIR(mode) and mode & 0o1002 == 0o1002 else "/tmp"
    return parent + "/gsched-gpu"


def lock_gpus(uuids: Iterable[str], owner: str, where: GpuLockFolders, patience_s: float = 0.2) -> list[int]:
    """File descriptors that hold the locks of all GPUs for cluster `owner`; closing them lets go.

    All or nothing. Raises GpuLockError when a GPU is held by another owner, when this machine's GPUs are the system's
    and `where` is a private cluster's, or when one cannot be locked within `patience_s`.
    """
    held: list[int] = []
    names = sorted(set(uuids))
    if not names:
        return held
    folder = where.roots if where.is_root else where.common
    try:
        if where.is_root:
            _lock_roots(where, names, owner, patience_s, held)
        else:
            _lock_common(where, names, owner, patience_s, held)
    except GpuLockError:
        release(held)
        raise
    except OSError as error:
        release(held)
        raise GpuLockError(coded("lock.failed", names[len(held)], folder, str(error.strerror))) from error
    return held


def _lock_common(where: GpuLockFolders, names: list[str], owner: str, patience_s: float, held: list[int]) -> None:
    """As a user's cluster. Root may claim the GPUs at any moment: it is looked for when the locks are held."""
    _refuse_claimed(where)
    folder_fd = _open_folder(where.common)
    try:
        for uuid in names:
            held.append(_lock_one(folder_fd, uuid, owner, 0o666, time.monotonic() + patience_s))
    finally:
        os.close(folder_fd)
    _refuse_claimed(where)


def _refuse_claimed(where: GpuLockFolders) -> None:
    if where.roots and os.path.lexists(where.roots):
        raise GpuLockError(CLAIMED)


def _lock_roots(where: GpuLockFolders, names: list[str], owner: str, patience_s: float, held: list[int]) -> None:
    """As a cluster of the system's: in root's folder once the GPU is the system's, before that in the common one."""
    roots_fd = _open_roots(where.roots)
    try:
        for uuid in names:
            deadline = time.monotonic() + patience_s
            while not _is_roots(roots_fd, uuid):
                fd = _take_over(where.common, roots_fd, uuid, owner, deadline)
                if fd is not None:
                    held.append(fd)
                    break
            else:
                held.append(_lock_one(roots_fd, uuid, owner, 0o600, deadline))
    finally:
        os.close(roots_fd)


def _is_roots(roots_fd: int, uuid: str) -> bool:
    """Whether the GPU is the system's: the lock in root's folder is the one that counts."""
    _check_name(uuid)
    return _is_there(roots_fd, uuid) or _is_there(roots_fd, SINCE_BOOT)


def _is_there(folder_fd: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _take_over(common: str, roots_fd: int, uuid: str, owner: str, deadline: float) -> int | None:
    """Make the GPU the system's, and None, if nobody holds its common lock; that lock, if attempts of `owner` hold it.

    Raises GpuLockError when somebody else holds it, who had it before root's folder was there.
    """
    folder_fd = _open_folder(common)
    try:
        if _is_free(folder_fd, roots_fd, uuid):
            return None
        fd = _lock_one(folder_fd, uuid, owner, 0o666, deadline)
    except GpuLockError:
        if not _is_there(roots_fd, uuid):
            raise
        return None  # another cluster of the system's has been quicker
    finally:
        os.close(folder_fd)
    if not _is_there(roots_fd, uuid):
        return fd
    os.close(fd)
    return None


def _is_free(folder_fd: int, roots_fd: int, uuid: str) -> bool:
    """Whether nobody holds the common lock; then the GPU is the system's. It is made so while that lock is held alone,
    or another cluster of the system's could take it for the one that counts.
    """
    fd = _open_lock(folder_fd, uuid, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_current(folder_fd, uuid, fd):
            return False
        os.close(_open_lock(roots_fd, uuid, 0o600))
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)


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


def _open_roots(path: str) -> int:
    """Root's folder, made if need be. Raises GpuLockError for one that others can open."""
    if not os.path.isdir(path):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(fd)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        os.close(fd)
        raise GpuLockError(coded("lock.not_roots", path))
    return fd


def _check_name(uuid: str) -> None:
    if not uuid or not _NAME_CHARACTERS.issuperset(uuid) or uuid.startswith(".") or uuid == SINCE_BOOT:
        raise GpuLockError(coded("lock.no_uuid", uuid))


def _lock_one(folder_fd: int, uuid: str, owner: str, mode: int, deadline: float) -> int:
    """One attempt after the other until the lock is held, known to be another's, or time is up."""
    _check_name(uuid)
    while True:
        try:
            fd = _open_lock(folder_fd, uuid, mode)
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
            raise GpuLockError(coded("lock.other_cluster", uuid))
        time.sleep(0.002)


def _open_lock(folder_fd: int, uuid: str, mode: int) -> int:
    """The lock file, made if need be. Without O_CREAT first: fs.protected_regular forbids it on others' files."""
    try:
        fd = os.open(uuid, _OPEN_FLAGS, dir_fd=folder_fd)
    except FileNotFoundError:
        try:
            fd = os.open(uuid, _OPEN_FLAGS | os.O_CREAT | os.O_EXCL, mode, dir_fd=folder_fd)
            os.fchmod(fd, mode)
        except FileExistsError:
            fd = os.open(uuid, _OPEN_FLAGS, dir_fd=folder_fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise GpuLockError(coded("lock.no_file", uuid)) from error
        raise
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(fd)
        raise GpuLockError(coded("lock.no_file", uuid))
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
