"""Looks in a file, a line of JSON each: written while one looks, and shown again.

A file that is there is never written over. Both ways are bounded: MOST_LOOKS and MOST_BYTES of a file that is written;
of one that is read a look at a time is held, and where the lines begin.
"""

from __future__ import annotations

import os

import msgspec

from gsched.base.errors import BadRequest, Conflict
from gsched.top.watching.look import ClusterLook

MOST_LOOKS = 3_600
MOST_BYTES = 512 * 1024 * 1024
LONGEST_LINE = 64 * 1024 * 1024
SHORTEST_S = 1.0
"""Between two looks that are written."""


class Recorder:
    """Writes looks to a new file that its owner alone may read. Raises Conflict when it cannot be made."""

    def __init__(self, path: str) -> None:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise Conflict(f"--record {path}: it is there already, and is not written over") from None
        except (OSError, ValueError) as error:
            raise Conflict(f"--record {path}: {getattr(error, 'strerror', None) or error}") from None
        self._file = os.fdopen(descriptor, "wb")
        self._looks, self._bytes, self._last = 0, 0, float("-inf")
        self.ended_because = ""
        """Why nothing more is written; empty while something is."""

    def write(self, look: ClusterLook) -> None:
        """Add the look, unless one was written less than a second before. Never raises."""
        if self.ended_because or 0 <= look.at - self._last < SHORTEST_S:
            return
        line = msgspec.json.encode(look) + b"\n"
        if self._looks >= MOST_LOOKS or self._bytes + len(line) > MOST_BYTES:
            self.ended_because = "the recording is full"
            return
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            self.ended_because = f"nothing more is recorded: {error.strerror}"
            return
        self._looks, self._bytes, self._last = self._looks + 1, self._bytes + len(line), look.at

    def close(self) -> None:
        """Nothing more comes."""
        try:
            self._file.close()
        except OSError:
            return


class Recording:
    """The looks of a file. Raises BadRequest for one that cannot be read, with the first bad line."""

    def __init__(self, path: str) -> None:
        self._decoder = msgspec.json.Decoder(ClusterLook)
        self._path = path
        self._starts: list[int] = []
        try:
            self._file = open(path, "rb")  # noqa: SIM115 - for as long as it is shown
            self._check()
        except (OSError, ValueError) as error:
            raise BadRequest(f"--replay {path}: {getattr(error, 'strerror', None) or error}") from None
        if not self._starts:
            raise BadRequest(f"--replay {path}: nothing is recorded there")

    def __len__(self) -> int:
        return len(self._starts)

    def look(self, number: int) -> ClusterLook:
        """The look with that number, from 0 on. Raises BadRequest when the file is not any more what it was."""
        self._file.seek(self._starts[number])
        return self._decoded(self._file.readline(LONGEST_LINE), number + 1)

    def close(self) -> None:
        """Nothing more is asked."""
        self._file.close()

    def _check(self) -> None:
        start, before, number = 0, float("-inf"), 0
        while line := self._file.readline(LONGEST_LINE):
            number += 1
            if number > MOST_LOOKS:
                raise BadRequest(f"{self._path}:{number}: a recording has {MOST_LOOKS} looks at most")
            look = self._decoded(line, number)
            if look.at < before:
                raise BadRequest(f"{self._path}:{number}: this look is earlier than the one before")
            self._starts.append(start)
            start, before = start + len(line), look.at

    def _decoded(self, line: bytes, number: int) -> ClusterLook:
        try:
            return self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadRequest(f"{self._path}:{number}: this is no look of gsched top ({error})") from None
