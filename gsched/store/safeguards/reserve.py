"""A file that holds room beside the database, given up at a start on a full disk: SQLite needs some to open its log.

A store that is running has these files already; one that was closed has not, and could not even be read.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gsched.store.safeguards import filesystem

RESERVE_NAME = "STORE.reserve"
RESERVED_BYTES = 1 << 20
"""SQLite's shared index takes 32 KiB for each 4,096 pages of the log; the rest is for the daemons' small files."""
LEAST_ROOM = 8 << 20
"""With less than this nothing is kept back."""


class DiskReserve:
    """Room on disk that is kept for the store in this folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / RESERVE_NAME

    def keep(self) -> None:
        """Have the room kept, where there is enough; never fails."""
        with contextlib.suppress(OSError):
            if self.path.exists() or filesystem.room_left(self.path.parent) < LEAST_ROOM:
                return
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, RESERVED_BYTES)
            except OSError:
                self.path.unlink()
            finally:
                os.close(descriptor)

    def is_needed(self) -> bool:
        """Whether so little room is left that opening the store may fail."""
        try:
            return filesystem.room_left(self.path.parent) < RESERVED_BYTES
        except OSError:
            return False

    def release(self) -> bool:
        """Give the room up; whether there was any."""
        try:
            self.path.unlink()
        except OSError:
            return False
        return True
