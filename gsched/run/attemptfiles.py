"""The files in an attempt's folder: their names, and how they are written.

Who reads and writes them are the supervisor in the fork server's bare interpreter, and the agent's spool. Standard
library only.
"""

from __future__ import annotations

import os

ORDER, CLAIM, STARTED, STATUS, SCRIPT, SUSPENDED = "order", "claim", "started", "status", "script", "suspended"
LIMITS = "limits"
STDOUT, STDERR, HOSTFILE, AFFINITY = "stdout", "stderr", "hostfile", "affinity"
INPUT, FAILED, LAST, UNKILLABLE, WARNED = "input", "failed", "last", "unkillable", "warned"
"""Names of the files in an attempt's folder."""


def write_file(path: str, data: bytes) -> None:
    """All of `data` or OSError; readable by the owner alone."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        if os.write(fd, data) != len(data):
            raise OSError("the disk is full")
    finally:
        os.close(fd)
