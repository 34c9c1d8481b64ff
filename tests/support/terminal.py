"""A terminal of 80 x 24 for tests, with a program in it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 120.0
"""Catches a hang only."""
HAS_TERMINAL = ("setsid", "--ctty")
"""In front of a command: its standard input is the terminal of its session. A function between fork and exec could do
the same, but the threads of gRPC that this process has begin again in a forked child, and end it now and then."""


class Terminal:
    """`start` starts the program with this descriptor as its terminal. `text`: all that came from it."""

    def __init__(self, start: Callable[[int], subprocess.Popen[Any]]) -> None:
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        self.text = b""
        self.process = start(self.theirs)

    def until(self, wanted: bytes, *, is_new: bool = False, patience_s: float = PATIENCE_S) -> None:
        """Wait until it has come, since what was waited for last; `is_new`: what is there already does not count."""
        deadline = time.monotonic() + patience_s
        begin = len(self.text) if is_new else max(0, len(self.text) - 4096)
        while not re.search(wanted, self.text[begin:]):
            assert time.monotonic() < deadline, self.text[-4000:]
            assert self._read() or self.process.poll() is None, self.text[-4000:]

    def ends(self) -> int:
        """Its exit code, when it has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.text[-4000:]
            self._read()
        return self.process.returncode

    def _read(self) -> bool:
        """Whether something came, waited for a moment."""
        if not select.select([self.ours], [], [], 0.2)[0]:
            return False
        self.text += os.read(self.ours, 65536)
        return True

    def type(self, text: bytes) -> None:
        """As by keys."""
        os.write(self.ours, text)

    def close(self) -> None:
        """End it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        os.close(self.ours)
        os.close(self.theirs)
