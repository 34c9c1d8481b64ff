"""One master per store: an exclusive lock that ends with its process. It never waits and never breaks a lock."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from gsched.base.errors import BadRequest
from gsched.store.safeguards.failure import StoreInUse

LOCK_NAME = "STORE.lock"


class StoreLock:
    """flock(2) on STORE.lock in the store's folder; the file holds the owner's process id for people to read.

    The file stays when the lock is released: removing it would let two processes lock two files of that name.
    Raises StoreInUse when another process (or another StoreLock of this one) has it, BadRequest when it cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK_NAME
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BadRequest(f"cannot lock the store: {self.path}: {error.strerror}") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            whom = f"process {holder}" if holder.isdigit() else "another process"
            raise StoreInUse(f"the store in {folder} is in use by {whom}") from None
        except OSError as error:
            os.close(self._fd)
            raise BadRequest(f"cannot lock the store: {self.path}: {error.strerror}") from None
        # Only a note for people: a disk too full to take it is found out when there is something to store.
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            pass

    def release(self) -> None:
        """Let others have the store. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
