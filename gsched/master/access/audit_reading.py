"""The end of the audit log, for administrators who have no way to the master's host. It only reads."""

from __future__ import annotations

import os
import stat

from gsched.base.errors import Unavailable

MOST_BYTES = 4 << 20
"""Of the end of the file that are looked at."""
MOST_LINES = 500


def last_lines(path: str, text: str = "") -> list[str]:
    """The last lines that hold the text, the newest one last; none where nothing has been logged yet.

    It blocks while the disk is slow. Raises Unavailable.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Unavailable(f"{path}: cannot be read: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unavailable(f"{path}: not a regular file")
        start = max(0, status.st_size - MOST_BYTES)
        data = os.pread(descriptor, MOST_BYTES, start)
    finally:
        os.close(descriptor)
    lines = data.decode("ascii", "replace").splitlines()[1 if start else 0 :]
    return [line for line in lines if text in line][-MOST_LINES:]
