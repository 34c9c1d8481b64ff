"""Processes that tests start, as others see them."""

from __future__ import annotations

import time
from pathlib import Path


def await_environment(pid: int) -> None:
    """Wait until the process's environment can be read: it is empty for a moment after execve. Fails after a minute."""
    deadline = time.monotonic() + 60
    while not Path(f"/proc/{pid}/environ").read_bytes():
        assert time.monotonic() < deadline
