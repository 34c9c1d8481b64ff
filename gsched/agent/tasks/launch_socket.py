"""Where an agent's socket for its jobs lies. Jobs are told by GSCHED_AGENT_SOCKET.

In a private cluster its folder is the owner's alone; in a shared one everybody may connect, for who asks is proven by
the kernel. Two agents never have the same path: each has its host's.
"""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

MAX_PATH = 107
"""Bytes of a unix socket's path (unix(7))."""


def socket_path(folder: str, host: str) -> Path:
    """The socket of the host's agent; by another name where its path would be too long."""
    plain = Path(folder, f"{host}.sock")
    if len(os.fsencode(plain)) <= MAX_PATH:
        return plain
    return plain.with_name(f"{hashlib.sha256(host.encode()).hexdigest()[:8]}.sock")


def listen(path: Path, *, others: bool) -> socket.socket:
    """A listening socket there, also in the place of one that a dead agent has left. `others`: every user may connect.

    Raises OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if others:
        path.parent.chmod(0o755)
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(path))
        path.chmod(0o666 if others else 0o600)
        listening.listen(128)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening
