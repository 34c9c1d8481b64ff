"""The lines that were typed at a prompt, in a file that only their user can read.

Nothing depends on it: where it cannot be kept, a prompt begins without what was typed before. It must never write
through a folder of somebody else: root may have the HOME of the user who called sudo.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from gsched.base.machine.atomic_write import replace_file

MOST_LINES = 1000
"""A prompt begins with so many at most; the file is shortened to them when it holds twice as many."""
MOST_BYTES = 1 << 20
"""Of a larger file the end is read."""


def history_path(program: str) -> str:
    """Where the lines of this program are kept, in a folder that is there afterwards; empty where there is no place."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = state if os.path.isabs(state) else os.path.expanduser("~")
    try:
        if os.stat(base).st_uid != os.geteuid():
            return ""
        folder = Path(base) / ("" if base == state else ".local/state") / "gsched"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return ""
    return str(folder / f"{program}_history")


class PromptHistory:
    """`path`: of the file; empty: nothing is kept."""

    def __init__(self, path: str) -> None:
        self._path = path

    def lines(self) -> list[str]:
        """The latest, the newest last."""
        try:
            found = self._read()
            if len(found) > 2 * MOST_LINES:
                kept = "".join(f"{line}\n" for line in found[-MOST_LINES:])
                replace_file(self._path, kept.encode("utf-8", "surrogateescape"))
        except OSError:
            return []
        return found[-MOST_LINES:]

    def add(self, line: str) -> None:
        """Keep it, at once: the terminal may be closed. Prompts that are open at the same time do not disturb it."""
        with suppress(OSError):
            descriptor = self._open(os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                os.fchmod(descriptor, 0o600)
                os.write(descriptor, f"{line}\n".encode("utf-8", "surrogateescape"))
            finally:
                os.close(descriptor)

    def _read(self) -> list[str]:
        with open(self._open(os.O_RDONLY), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - MOST_BYTES))
            text = file.read(MOST_BYTES).decode("utf-8", "surrogateescape")
        lines = text.split("\n")[1 if size > MOST_BYTES else 0 :]
        return [line for line in lines if line and "\0" not in line]

    def _open(self, flags: int) -> int:
        """Raises OSError: also for a link, and for a FIFO that nobody writes to."""
        return os.open(self._path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
