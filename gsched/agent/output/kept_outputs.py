"""Output of finished jobs that had no -o file: kept for a while, so that nobody loses what was printed.

Only non-empty output is kept, by attempt; old files are removed as new ones come. Never raises for a missing file.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

KEEP_S = 7 * 24 * 3600.0
STREAMS = ("stdout", "stderr")
PRUNE_EVERY = 200


class KeptOutputs:
    """A folder of `JOB.ATTEMPT.stdout` and `.stderr` files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._since_prune = PRUNE_EVERY
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def keep(self, name: str, attempt_folder: Path, now: float) -> None:
        """Move the attempt's own output files here before its folder goes."""
        for stream in STREAMS:
            source = f"{attempt_folder}/{stream}"
            with contextlib.suppress(OSError):
                if os.stat(source).st_size:
                    self._folder.mkdir(mode=0o700, exist_ok=True)  # somebody may have removed it
                    os.rename(source, self._folder / f"{name}.{stream}")
        self._since_prune += 1
        if self._since_prune >= PRUNE_EVERY:
            self._since_prune = 0
            self._prune(now)

    def read(self, name: str, stream: str, offset: int, limit: int) -> bytes:
        """Bytes of a kept stream; empty when there is none."""
        try:
            # The job's user may have taken a lease on it (fcntl(2)): nobody waits for that here.
            fd = os.open(self._folder / f"{name}.{stream}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                return os.pread(fd, limit, offset)
            finally:
                os.close(fd)
        except OSError:
            return b""

    def _prune(self, now: float) -> None:
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if now - entry.stat().st_mtime > KEEP_S:
                        os.unlink(entry.path)
