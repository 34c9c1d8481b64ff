"""The room above a job's output that its report is written into when the job has ended.

LSF puts the report above the output. Here the job writes into its file while it runs, so the supervisor leaves room
before the job begins and the agent fills it at the end: nothing that a job has printed is read, moved or copied, and
whoever dies in between leaves the output as it is. Never writes over anything but its own words.

Runs in the fork server's bare interpreter as well: standard library only.
"""

from __future__ import annotations

import os
import stat

RULE = "-" * 60
_LINE = 100
_WIDTH = 80
"""Of a terminal: more blanks would take two lines."""
_REPORT = b"Sender: LSF System <"
WAITING, FILLED, GONE = "waiting", "filled", "gone"
"""What is in the room: what `leave` wrote, a report, or something else: the job may have emptied its file."""


def leave(fd: int, job: str, size: int, *, ends_a_line: bool) -> tuple[int, int]:
    """Leave `size` bytes at the end of a plain file that `fd` appends to: where they begin, and how many they are.

    Below what the file holds already stands a line of dashes. (0, 0) where there is no plain file. Raises OSError.
    """
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode):
        return 0, 0
    above = f"{'' if ends_a_line else chr(10)}\n{RULE}\n".encode() if about.st_size else b""
    data = above + _padded(_waiting(job), size)
    written = os.write(fd, data)
    if written < len(data):
        return 0, 0
    # Where this write has put it, whoever else appends to the file.
    return os.lseek(fd, 0, os.SEEK_CUR) - size, size


def look(fd: int, at: int, size: int, job: str) -> str:
    """WAITING, FILLED or GONE. Raises OSError."""
    if size <= 0 or not stat.S_ISREG(os.fstat(fd).st_mode):
        return GONE
    found = os.pread(fd, size, at)
    if found == _padded(_waiting(job), size):
        return WAITING
    return FILLED if len(found) == size and found.startswith(_REPORT) else GONE


def fill(fd: int, at: int, size: int, text: str) -> bool:
    """Write `text`, which ends with an empty line, into the room; False where it is too long. `fd` no longer appends.

    Blanks on empty lines, some on each, make it as long as the room is: neither people nor programs take notice of them
    there. Raises OSError.
    """
    data = text.encode(errors="surrogateescape")
    if len(data) > size:
        return False
    _write(fd, _stretched(data, size - len(data)), at)
    return True


def say(fd: int, at: int, size: int, sentence: str) -> None:
    """Write a sentence in place of a report that does not come here. `fd` no longer appends. Raises OSError."""
    _write(fd, _padded(sentence.replace("\n", " ").encode(errors="surrogateescape"), size), at)


def _stretched(data: bytes, spare: int) -> bytes:
    """With so many blanks more, on the empty lines above the outcome; on the one above the output what is too much.

    Programs search the lines from the outcome on by patterns that have an empty line in them.
    """
    lines = data.removesuffix(b"\n").split(b"\n")
    rules = [number for number, line in enumerate(lines) if line == RULE.encode()] or [0]
    empty = [number for number, line in enumerate(lines[: rules[-1] + 2]) if not line]
    chosen = [number for number in empty if not rules[0] < number < rules[-1]]
    for left, number in zip(range(len(chosen), 0, -1), chosen, strict=True):
        lines[number] = b" " * min(spare // left, _WIDTH - 1)
        spare -= len(lines[number])
    rest = (b"\n" + b" " * (_WIDTH - 1)) * (spare // _WIDTH + 1)
    return b"\n".join(lines) + rest[1 : spare + 1] + b"\n"


def _waiting(job: str) -> bytes:
    return f"The report on job <{job}> stands here when the job has ended.".encode()


def _padded(words: bytes, size: int) -> bytes:
    """So many bytes: the words, then blanks in lines of a width that a terminal shows."""
    words = words[: max(size - 1, 0)]
    left = size - len(words) - 1
    blanks = (b"\n" + b" " * (_LINE - 1)) * (left // _LINE + 1)
    return words + blanks[:left] + b"\n"


def _write(fd: int, data: bytes, at: int) -> None:
    import fcntl  # only here: a supervisor does without

    # What appends writes at the end, wherever it is told to (pwrite(2)).
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_APPEND)
    while data:
        written = os.pwrite(fd, data, at)
        data, at = data[written:], at + written
