"""Short private folders for tests (sockets lie in them), below one of this process's that the next one removes.

Who makes tests run may be killed: then daemons run on, and what they write stays. So each process of tests holds a lock
in its folder; whoever makes one looks first for others that nobody holds, and ends and removes what is left of them.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

PREFIX = "gs-"
HELD = ".held"
_NUMBERS = itertools.count()
_ENDING_S = 10.0


def new_folder() -> Path:
    """A new empty folder; whoever asked for it removes it."""
    path = _own() / str(next(_NUMBERS))
    path.mkdir(mode=0o700)
    return path


@functools.cache
def _own() -> Path:
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    descriptor = os.open(folder / "new", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.rename(folder / "new", folder / HELD)  # locked when others see it
    folder.chmod(0o711)  # a test that needs root has users who must pass here
    atexit.register(_leave, folder, os.getpid())
    return folder


def _leave(folder: Path, maker: int) -> None:
    if os.getpid() == maker:  # and not a child that was forked
        shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """End and remove what processes of tests that were killed have left."""
    for held in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{HELD}"):
        with contextlib.suppress(OSError):  # another user's, or just removed
            descriptor = os.open(held, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _clear(held.parent)
            finally:
                os.close(descriptor)


def _clear(folder: Path) -> None:
    deadline = time.monotonic() + _ENDING_S
    while (left := _processes(folder)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if (place := line.split()[1]).startswith(f"{folder}/"):
            subprocess.run(["umount", "-l", place], capture_output=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)


def _processes(folder: Path) -> list[int]:
    """Processes that were started with the folder in their words or in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            told = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
            if os.fsencode(f"{folder}/") in told:
                found.append(int(entry.name))
    return found
