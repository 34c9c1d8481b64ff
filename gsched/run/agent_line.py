"""What a supervisor and its agent tell each other beside the files of the attempt: which has news, and what is next.

Nothing here is needed to know how an attempt stands: both ends may be gone at any moment, and then the files say it.
Never waits for an answer while a job runs.

Runs in the fork server's bare interpreter: standard library only.
"""

from __future__ import annotations

import os

OVER = "over"
"""Behind the name of an attempt: its end is written, nothing of it is left, and the supervisor waits for another."""
IN_A_ROW = "row"
"""Behind the name of the next attempt: this host has begun another one just before."""
MOST_NAME_BYTES = 512


def tell(fd: int, name: str, word: str = "") -> None:
    """One line to the agent; it may be gone, then its successor reads the files."""
    try:
        os.write(fd, f"{name} {word}\n".encode() if word else f"{name}\n".encode())
    except OSError:
        pass


def next_line(name: str, *, is_in_a_row: bool) -> bytes:
    """What tells a supervisor its next attempt."""
    return (f"{name} {IN_A_ROW}" if is_in_a_row else name).encode()


def next_name(fd: int) -> tuple[str, bool]:
    """(the attempt that this supervisor is to run next, whether it is one of many in a row); waits for it.

    No name: the agent wants none, or is gone.
    """
    try:
        name, _, word = os.read(fd, MOST_NAME_BYTES).decode().partition(" ")
    except OSError:
        return "", False
    return name, word == IN_A_ROW
