"""The spool folder of one agent: who holds it, and what tells it from all others.

No two agents may ever hold one. What lies in it belongs to those who write it; nothing here looks at it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from gsched.base.errors import Conflict
from gsched.base.wholefile import replace_file


@contextlib.contextmanager
def only_one(spool: Path, host: str) -> Iterator[None]:
    """Hold the folder, for two agents on one spool would both adopt its jobs. Raises Conflict when it is held."""
    descriptor = os.open(spool / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Conflict(f"an agent of {host} already runs on {spool}") from None
    try:
        yield
    finally:
        os.close(descriptor)


def mark_of(spool: Path) -> str:
    """What tells this spool folder, and the agent that holds its lock, from all others; made at the first call."""
    path = spool / "mark"
    with contextlib.suppress(FileNotFoundError):
        if mark := path.read_text("ascii", "replace").strip():
            return mark
    mark = secrets.token_hex(16)
    replace_file(str(path), f"{mark}\n".encode(), durable=True)
    return mark
