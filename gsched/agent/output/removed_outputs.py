"""Output of finished jobs that a host has removed, as there was too much: what is shown in its place, and told of it.

Each leaves a small file, by which the master is told until it has said that the history has it; afterwards the file
goes on saying so to who wants to read the output. It must never look as if the job had printed nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gsched.base.errors import GschedError
from gsched.base.machine.atomic_write import replace_file
from gsched.model.hosts.kept_output import RemovedOutput, shown_size

UNTOLD = ".untold"
TOLD = ".removed"
_NEW = ".new"
"""Of a file that is being written; left where an agent was killed, or the disk was full."""


class OutputRemoved(GschedError):
    """The output was removed while somebody read it."""


class RemovedOutputs:
    """Files `JOB.ATTEMPT.untold` and `JOB.ATTEMPT.removed` beside what is kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, name: str, gone: RemovedOutput) -> None:
        """It is about to be removed. Raises OSError."""
        replace_file(f"{self._folder}/{name}{UNTOLD}", msgspec.json.encode(gone))

    def read(self, name: str, stream: str, offset: int, limit: int) -> bytes:
        """The line in place of its standard output; empty where nothing was removed. Raises OutputRemoved for somebody
        who has read more than this line: what he has is not the whole.
        """
        gone = self._read(name + UNTOLD) or self._read(name + TOLD)
        if gone is None:
            return b""
        line = removed_line(gone).encode()
        if offset > len(line) or (offset and stream != "stdout"):
            raise OutputRemoved(removed_text(gone))
        return line[offset : offset + limit] if stream == "stdout" else b""

    def names(self) -> set[str]:
        """Of which attempts something went. Raises OSError."""
        return {entry.name.rpartition(".")[0] for entry in self._entries(UNTOLD, TOLD)}

    def untold(self) -> dict[str, RemovedOutput]:
        """What the master is to be told of. Raises OSError."""
        found = {entry.name.removesuffix(UNTOLD): self._read(entry.name) for entry in self._entries(UNTOLD)}
        return {name: gone for name, gone in found.items() if gone is not None}

    def is_told(self, name: str) -> None:
        """The history has it."""
        with contextlib.suppress(OSError):
            os.rename(self._folder / f"{name}{UNTOLD}", self._folder / f"{name}{TOLD}")

    def prune(self, before: float) -> None:
        """Nobody asks any more for what went before this time, UTC seconds. Raises OSError."""
        for entry in self._entries(UNTOLD, TOLD, _NEW):
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < before:
                    os.unlink(entry.path)

    def _entries(self, *suffixes: str) -> Iterator[os.DirEntry[str]]:
        with os.scandir(self._folder) as entries:
            yield from (entry for entry in entries if entry.name.endswith(suffixes))

    def _read(self, file: str) -> RemovedOutput | None:
        try:
            return msgspec.json.decode((self._folder / file).read_bytes(), type=RemovedOutput)
        except (OSError, msgspec.MsgspecError):
            return None


def removed_line(gone: RemovedOutput) -> str:
    """What is shown in place of the output."""
    return f"[gsched: {removed_text(gone)}]\n"


def removed_text(gone: RemovedOutput) -> str:
    """What became of it, a sentence without its full stop."""
    when = time.strftime("%b %e %H:%M", time.localtime(gone.at))
    whose, setting = ("its user's", "USER") if gone.of_user else ("the host's", "HOST")
    return (
        f"the output of this job ({shown_size(gone.size)}) was removed on {when}: {whose} jobs without -o had "
        f"printed more than {gone.limit_mib} MiB (GSCHED_KEPT_OUTPUT_{setting}_MIB)"
    )
