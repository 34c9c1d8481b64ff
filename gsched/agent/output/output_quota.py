"""How much of what a job prints without -o is kept on its host: what lies beyond is cut off, and a line says so.

The job writes into its files itself, with nobody in between who could hold it up or take it along when he is killed. So
they are looked at, every second, and once more when the job has ended; in between they may be longer. Touches nothing
but plain files in the attempts' own folders, and waits for nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from gsched.model.hosts.kept_output import MIB
from gsched.run.attempt_files import STDERR, STDOUT

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""Between two looks."""
FLOOD_S = 0.1
"""The same while a job prints more than is kept."""
BLOCK = 512
"""Bytes that st_blocks counts in, on every file system."""


class OutputQuota:
    """`mib`: what a run of a job may have kept, on each of its hosts."""

    def __init__(self, mib: int) -> None:
        self._bytes = mib * MIB
        self._uncut: set[Path] = set()
        """Folders with something that could not be cut, which is told once."""

    async def watch(self, folders: Callable[[], Iterable[Path]]) -> None:
        """For ever, of the attempts in these folders."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._uncut.intersection_update(folders())
            while [folder for folder in folders() if self.cut(folder)]:
                await asyncio.sleep(FLOOD_S)

    def cut(self, folder: Path) -> bool:
        """Cut what the attempt has printed; whether that was done. Where both standard output and standard error are
        kept each may have half. Never raises.
        """
        found = {}
        for stream in (STDOUT, STDERR):
            with contextlib.suppress(OSError):
                found[stream] = os.stat(f"{folder}/{stream}", follow_symlinks=False)
        if not found:
            self._uncut.discard(folder)
            return False
        share = self._bytes // max(1, len(found))
        line = cut_line(share)
        most = share + len(line)
        too_long = [stream for stream, status in found.items() if max(status.st_size, _room_beyond(status)) > most]
        problems = [problem for stream in too_long if (problem := _cut_or_why(folder / stream, share, line))]
        if not problems:
            self._uncut.discard(folder)
        elif folder not in self._uncut:
            self._uncut.add(folder)
            log.warning("what an attempt has printed is too long and cannot be cut: %s", "; ".join(problems))
        return bool(too_long) and not problems


def cut_line(kept: int) -> bytes:
    """What stands behind the bytes that are kept of a stream."""
    return (
        f"\n[gsched: the output is cut off here; of a job without -o no more than {kept / MIB:g} MiB "
        "of it are kept (GSCHED_KEPT_OUTPUT_MIB)]\n"
    ).encode()


def _room_beyond(status: os.stat_result) -> int:
    """Bytes that the file takes beyond its end (fallocate(2)). Some file systems take some by themselves, but no more
    than the file is long: as long as it is not too long, this is not too much.
    """
    return status.st_blocks * BLOCK - status.st_size


def _cut_or_why(path: Path, kept: int, line: bytes) -> str:
    """What is wrong; empty when it was cut."""
    try:
        _cut(path, kept, line)
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    return ""


def _cut(path: Path, kept: int, line: bytes) -> None:
    """Raises OSError."""
    # The job's user may have taken a lease on it (fcntl(2)): nobody waits for that here, the kernel ends it soon.
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no plain file")
        if status.st_size <= kept + len(line):
            os.ftruncate(fd, status.st_size)  # gives back what lies beyond
            return
        try:
            os.pwrite(fd, line, kept)  # over what the job has printed there, so that it comes behind nothing else
        finally:
            os.ftruncate(fd, kept + len(line))
    finally:
        os.close(fd)
