"""What the program of a process is called. Reads /proc; never tells its arguments, which are nobody else's business."""

from __future__ import annotations

MOST_CHARACTERS = 200
"""A name that is longer is cut."""


def program_name(pid: int) -> str:
    """The program as it was called; in a container its name there. Empty for a process that cannot be seen."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            called = file.read(MOST_CHARACTERS).partition(b"\0")[0]
        if not called:
            with open(f"/proc/{pid}/comm", "rb") as file:
                called = file.read(MOST_CHARACTERS).rstrip(b"\n")
    except OSError:
        return ""
    return "".join(each for each in called.decode("utf-8", "replace") if each.isprintable())
