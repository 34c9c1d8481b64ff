"""What `glaunch` and the agent of its host say to each other over the agent's socket.

Every piece is one frame (frames). The command (gsched.app.glaunch) knows the same values by heart, as it
imports nothing; a test holds the two together.

    agent:   HELLO                                    or REFUSED, and that was all
    command: REQUEST ... REQUEST GO
    agent:   COUNT                                    or REFUSED
    agent:   OUT | ERR | WANT | ENDED ...             in any order, until each task has ENDED
    command: DATA or END                              one for each WANT; SIGNAL at any time

An agent that goes away ends no task: the command comes again with the same key, and says what it has of each task. A
command that goes away before its tasks have ended ends them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gsched.wire.messages.frames import ProtocolError

GREETING = b"gsched-tasks 1"
"""Payload of HELLO: name and version of this protocol."""

# From the command
REQUEST = b"R"  # a part of the request, see LaunchRequest
GO = b"G"  # the request is complete
DATA = b"D"  # the next piece of standard input
END = b"Z"  # there is no more of it
SIGNAL = b"S"  # a signal for every task, its number in decimal digits

# From the agent
HELLO = b"H"
COUNT = b"n"  # how many tasks there are, in decimal digits
OUT = b"o"  # number of the task in 4 bytes, bytes for standard output
ERR = b"e"
WANT = b"i"  # how many bytes of standard input have been taken, in decimal digits: send what follows
ENDED = b"x"  # number of the task in 4 bytes; wait status in decimal digits, a blank, why it has not run (or nothing)
REFUSED = b"r"  # one line for a person: nothing was started

MAX_REQUEST = 2 << 20
"""Most bytes of a whole request."""
_MOST_HAD = (1 << 63) - 1
"""Most bytes that can have been had of a stream."""
MAX_PIECE = 1 << 16
"""Most bytes in a frame of standard input."""

SHELL, LOGIN_SHELL, NO_SHELL = "s", "l", "d"


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What is to be launched. Bytes that are no UTF-8 are kept as surrogates.

    On the wire: key (16 to 32 hexadecimal digits, new for each launch), what executes the command (s, l, d), 0 or 1
    for standard input being passed on, what has been had of each task (see `parse_progress`), cwd, umask (octal),
    number of hosts, the hosts, number of words, the words, the environment as NAME=VALUE; separated by NUL.
    """

    key: str
    shell: str
    reads: bool
    progress: tuple[tuple[int, int] | None, ...] | None
    """None: nothing has been launched yet. Else of each task how much of its output and errors has been had, None for
    one that has ended."""
    cwd: str
    umask: int
    hosts: tuple[str, ...]
    """Empty: the first word names one, or it is all."""
    words: tuple[str, ...]
    environment: tuple[str, ...]

    @classmethod
    def decode(cls, blob: bytes) -> LaunchRequest:
        """Raises ProtocolError when the bytes are not a request."""
        fields = iter(blob.decode("utf8", "surrogateescape").split("\0"))
        try:
            key, shell, reads, progress, cwd, umask = (next(fields) for _ in range(6))
            if not re.fullmatch("[0-9a-f]{16,32}", key):
                raise ValueError("key")
            if shell not in (SHELL, LOGIN_SHELL, NO_SHELL) or reads not in ("0", "1"):
                raise ValueError("flags")
            hosts = tuple(next(fields) for _ in range(_count(next(fields))))
            words = tuple(next(fields) for _ in range(_count(next(fields))))
            return cls(
                key=key,
                shell=shell,
                reads=reads == "1",
                progress=parse_progress(progress),
                cwd=cwd,
                umask=int(umask, 8) & 0o777,
                hosts=hosts,
                words=words,
                environment=tuple(fields),
            )
        except (ValueError, RuntimeError, StopIteration) as problem:
            raise ProtocolError(f"a request that cannot be read ({problem or 'it is cut off'})") from None

    def encode(self) -> bytes:
        """The bytes that `decode` reads."""
        fixed = [self.key, self.shell, "01"[self.reads], show_progress(self.progress), self.cwd, f"{self.umask:o}"]
        counted = [str(len(self.hosts)), *self.hosts, str(len(self.words)), *self.words]
        return "\0".join([*fixed, *counted, *self.environment]).encode("utf8", "surrogateescape")


def _count(text: str) -> int:
    count = int(text)
    if not 0 <= count <= MAX_REQUEST:
        raise ValueError("number of words")
    return count


def parse_progress(text: str) -> tuple[tuple[int, int] | None, ...] | None:
    """`100,20;x;0,0`: bytes of output and errors of each task, x for one that has ended; empty for a new launch.

    Raises ValueError.
    """
    if not text:
        return None
    return tuple(None if each == "x" else _pair(each) for each in text.split(";"))


def show_progress(progress: tuple[tuple[int, int] | None, ...] | None) -> str:
    """The text that `parse_progress` reads."""
    return ";".join("x" if each is None else f"{each[0]},{each[1]}" for each in progress or ())


def _pair(text: str) -> tuple[int, int]:
    out, err = (int(part) for part in text.split(","))
    if not 0 <= out <= _MOST_HAD or not 0 <= err <= _MOST_HAD:
        raise ValueError("progress")
    return out, err
