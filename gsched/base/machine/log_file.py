"""The log file of a daemon: what its standard error is redirected to. Renamed by logrotate, it is opened anew.

A daemon is told by a signal; the processes that it starts look for themselves. It never touches a stream that is no
file: the journal, a pipe, a terminal.
"""

from __future__ import annotations

import logging
import os
import signal
import stat
import sys
import time

REOPEN = signal.SIGUSR1
"""What tells a daemon to open its log file anew. No daemon uses it for anything else."""


class LogFile:
    """The file behind standard error, by the path that it was opened under."""

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def of_stderr(cls) -> LogFile | None:
        """None where standard error is no file, or one that has no name any more."""
        try:
            path = os.readlink("/proc/self/fd/2")
            status, named = os.fstat(2), os.stat(path)
        except OSError:
            return None
        is_it = stat.S_ISREG(status.st_mode) and os.path.samestat(status, named)
        return cls(path) if is_it else None

    def is_moved(self) -> bool:
        """Whether another file, or none, has the path now."""
        try:
            return not os.path.samestat(os.fstat(2), os.stat(self.path, follow_symlinks=False))
        except OSError:
            return True

    def reopen(self) -> None:
        """Have standard error, and standard output where it went there too, write to the file of this path: one that is
        there, or a new one with the mode of the old. Raises OSError; everything is as before then.
        """
        old = os.fstat(2)
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
        try:
            new = os.open(self.path, flags)
        except FileNotFoundError:
            new = os.open(self.path, flags | os.O_CREAT, 0o600)
            os.fchmod(new, stat.S_IMODE(old.st_mode))
        try:
            for descriptor in (1, 2):
                if os.path.samestat(os.fstat(descriptor), old):
                    os.dup2(new, descriptor)
        finally:
            os.close(new)


def reopen_when_told() -> None:
    """From now on REOPEN opens the log file anew; call it in the main thread. Without a log file it does nothing: it is
    sent to all daemons of a host alike.
    """
    file = LogFile.of_stderr()

    def reopen(*_: object) -> None:
        if file is not None:
            _reopen(file)

    signal.signal(REOPEN, reopen)  # never ignored: what a daemon starts would ignore it too


def _reopen(file: LogFile) -> None:
    """Writes by the descriptor: the handler may have interrupted whoever writes to sys.stderr."""
    try:
        file.reopen()
        said = "INFO gsched: the log file has been opened anew"
    except OSError as error:
        said = f"ERROR gsched: {file.path} cannot be opened anew: {error.strerror}"
    try:
        os.write(2, f"{time.strftime('%Y-%m-%d %H:%M:%S')} {said}\n".encode())
    except OSError:
        pass  # a full disk: the next line that is logged fails as well


class FollowingHandler(logging.StreamHandler):  # type: ignore[type-arg] # of any text stream
    """Logs to standard error, and opens the file anew where it was renamed: for processes that daemons start."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._file = LogFile.of_stderr()

    def emit(self, record: logging.LogRecord) -> None:
        if self._file is not None and self._file.is_moved():
            try:
                self._file.reopen()
            except OSError:
                pass  # it is logged where it was until then
        super().emit(record)
