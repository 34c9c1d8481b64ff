"""A program that the agent has run by the fork server: what it is, and what became of it.

For what runs as somebody else, or in a control group: Python forks for that, and a process that has gRPC must not. What
the program reads and prints lies in memory, in files without a name, so that nobody waits for the end of a pipe that a
daemon of the program holds open.
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import Protocol

import msgspec

from gsched.run.account import UnixAccount
from gsched.run.order import Fence

MOST_PRINTED = 256 * 1024
"""Bytes that it may print; from there on its writes fail."""
_LAST_LINE = 200


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be executed, and with which rights."""

    words: tuple[str, ...]
    """The first is a path, or a name to be looked for in the PATH of `environment`."""
    environment: dict[str, str] = {}
    """All of it."""
    stdin: bytes = b""
    keeps_output: bool = True
    """Whether what it prints is to be told; else it goes nowhere, and there may be any amount of it."""
    output: str = ""
    """Path of a file, opened as the agent, that what it prints is added to. The program has its lock (flock(2)) for as
    long as it can write there, so that also a later agent can wait for that. Empty: memory, or nowhere."""
    cwd: str = "/"
    """Entered with the rights of `account`."""
    umask: int = 0o022
    account: UnixAccount | None = None
    """Whom it runs as; None: as the agent."""
    granted: tuple[tuple[int, int, int], ...] = ()
    """(kind, soft, hard) of setrlimit(2)."""
    fence: Fence | None = None
    """The control group that it is in from its first instruction on; made by whoever asks, with its rules."""


class ProgramEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended."""

    status: int
    """As wait(2) tells it."""
    printed: bytes = b""

    @property
    def exit_code(self) -> int:
        """As a shell tells it."""
        code = os.waitstatus_to_exitcode(self.status)
        return 128 - code if code < 0 else code

    @property
    def last_line(self) -> str:
        """The last line that it has printed, cut to a length that a log bears; empty when there is none."""
        lines = (line.strip() for line in reversed(self.printed.decode("utf8", "replace").splitlines()))
        return next((line[:_LAST_LINE] for line in lines if line), "")


class RunsPrograms(Protocol):
    """Whoever runs programs: ForkServer.run."""

    async def __call__(self, program: Program, limit_s: float | None = None) -> ProgramEnd:
        """To its end. Raises OSError when it cannot be executed, TimeoutError when it was killed after `limit_s`."""
        ...


class ProgramFiles:
    """The files without a name that go to the fork server with a program, in its order. Raises OSError."""

    def __init__(self, program: Program) -> None:
        described = msgspec.structs.replace(program, stdin=b"")
        text = json.dumps(msgspec.to_builtins(described, enc_hook=UnixAccount.fields)).encode()
        self._fds: list[int] = []
        try:
            self._add("described", text)
            self._add("input", program.stdin)
            if program.output:
                self._printed = self._added_to(program.output)
            else:
                self._printed = self._room("printed") if program.keeps_output else self._nowhere()
            self._trouble = self._room("trouble")
        except BaseException:
            self.close()
            raise

    @property
    def fds(self) -> list[int]:
        """Description, standard input, standard output and error, and what keeps it from being executed."""
        return self._fds

    def _add(self, name: str, data: bytes) -> None:
        fd = self._made(name)
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(data)
        os.lseek(fd, 0, os.SEEK_SET)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)

    def _room(self, name: str) -> int:
        """For so many bytes; what was not written is zeros."""
        fd = self._made(name)
        os.ftruncate(fd, MOST_PRINTED)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
        return fd

    def _added_to(self, path: str) -> int:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._fds.append(fd)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd

    def _nowhere(self) -> int:
        fd = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._fds.append(fd)
        return fd

    def _made(self, name: str) -> int:
        fd = os.memfd_create(f"gsched-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self._fds.append(fd)
        return fd

    def ended(self, status: int) -> ProgramEnd:
        """What is to be told of it. Raises OSError when it was never executed."""
        if trouble := _text(self._trouble):
            raise OSError(trouble.decode("utf8", "replace"))
        return ProgramEnd(status=status, printed=_text(self._printed))

    def close(self) -> None:
        """What it still prints goes nowhere."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()


def _text(fd: int) -> bytes:
    """What was written; nothing of the null device."""
    return os.pread(fd, MOST_PRINTED, 0).rstrip(b"\0")
