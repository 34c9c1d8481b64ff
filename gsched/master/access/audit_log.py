"""The audit log: one line for each thing that somebody did or was refused. LSF_LOGDIR/audit.log, mode 0640.

A line is written by a thread of its own, so that a slow disk holds nobody up, and says nothing that could be taken for
another line: values are JSON strings wherever they hold more than plain words. The file may be moved away or removed at
any time (logrotate): the next line begins a new one. Where it cannot be written, the lines go to the master's own log.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import re
import threading
from collections.abc import Mapping
from datetime import UTC, datetime

log = logging.getLogger(__name__)

FILE = "audit.log"
MODE = 0o640
MOST_WAITING = 10_000
"""Lines that may wait for the disk; what comes on top is counted and lost."""
GATHER_S = 0.05
"""Lines that come within so many seconds of each other are written together."""
_PLAIN = re.compile(r"[A-Za-z0-9_.,:/@%+\[\]-]+", re.ASCII)


def line_of(at: float, facts: Mapping[str, str]) -> str:
    """The line of these facts, at that UTC time: `TIME name=value ...`, ASCII alone, whatever the values hold."""
    time = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return " ".join([time, *(f"{name}={_quoted(value)}" for name, value in facts.items())])


def _quoted(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else json.dumps(value)


class AuditLog:
    """Lines on their way to the file at `path`. `write` may be called by any thread."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lines: queue.SimpleQueue[tuple[float, Mapping[str, str]] | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._lost = 0
        self._said = ""
        self._file = -1
        self._thread = threading.Thread(target=self._work, name="audit", daemon=True)
        self._thread.start()

    def write(self, at: float, facts: Mapping[str, str]) -> None:
        """Never waits, never raises."""
        if self._lines.qsize() >= MOST_WAITING:
            self._lost += 1
            return
        self._lines.put((at, facts))

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what is left."""
        self._closing.set()
        self._lines.put(None)
        self._thread.join(timeout_s)

    def _work(self) -> None:
        last = False
        while not last:
            lines = [self._lines.get()]
            self._closing.wait(GATHER_S)
            while not self._lines.empty():
                lines.append(self._lines.get())
            last = None in lines
            texts = [line_of(*line) for line in lines if line is not None]
            if self._lost:
                lost, self._lost = self._lost, 0
                texts.append(f"# {lost} lines are lost: they came faster than the disk took them")
            if texts:
                self._store(texts)
        if self._file >= 0:
            os.close(self._file)

    def _store(self, texts: list[str]) -> None:
        data = "".join(f"{text}\n" for text in texts).encode("ascii")
        whole = -1
        try:
            self._reopen()
            whole = os.fstat(self._file).st_size
            while data:
                data = data[os.write(self._file, data) :]
            self._said = ""
        except OSError as error:
            if whole >= 0:
                with contextlib.suppress(OSError):  # no half line, to which the next one would be joined
                    os.ftruncate(self._file, whole)
            problem = f"{self.path} cannot be written: {error.strerror}"
            if problem != self._said:
                log.error("%s; what belongs there follows here", problem)
            self._said = problem
            for text in texts:
                log.warning("audit: %s", text)

    def _reopen(self) -> None:
        """Have the file open that is called so now. Never through a link: the folder may not be ours alone."""
        try:
            now = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            now = None
        if self._file >= 0:
            is_open = os.fstat(self._file)
            if now is not None and (now.st_dev, now.st_ino) == (is_open.st_dev, is_open.st_ino):
                return
            os.close(self._file)
            self._file = -1
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(self.path, flags, MODE)
        if now is None:
            os.fchmod(self._file, MODE)  # whatever the umask
