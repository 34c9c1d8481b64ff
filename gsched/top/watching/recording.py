"""Looks in a file, a line of JSON each: written while one looks, and shown again.

Each WHOLE_EVERY-th look stands there whole, the others as what has changed. A file that is there is never written
over. Both ways are bounded: MOST_LOOKS and MOST_BYTES of a file that is written; of one that is read a look at a time
is held, and where the lines begin.
"""

from __future__ import annotations

import os

import msgspec

from gsched.base.errors import BadRequest, Conflict
from gsched.top.watching.look import ClusterLook
from gsched.top.watching.look_changes import TAG, LookChanges, changed_look, changes_between

MOST_LOOKS = 3_600
MOST_BYTES = 512 * 1024 * 1024
LONGEST_LINE = 64 * 1024 * 1024
WHOLE_EVERY = 60
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
        self._looks, self._bytes = 0, 0
        self._last: ClusterLook | None = None
        self.ended_because = ""
        """Why nothing more is written; empty while something is."""

    def write(self, look: ClusterLook) -> None:
        """Add the look, unless one was written less than a second before. Never raises."""
        if self.ended_because or (self._last is not None and 0 <= look.at - self._last.at < SHORTEST_S):
            return
        changes = None
        if self._last is not None and self._looks % WHOLE_EVERY:
            changes = changes_between(self._last, look)
        line = msgspec.json.encode(changes if changes is not None else look) + b"\n"
        if self._looks >= MOST_LOOKS or self._bytes + len(line) > MOST_BYTES:
            self.ended_because = "the recording is full"
            return
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            self.ended_because = f"nothing more is recorded: {error.strerror}"
            return
        self._looks, self._bytes, self._last = self._looks + 1, self._bytes + len(line), look

    def close(self) -> None:
        """Nothing more comes."""
        try:
            self._file.close()
        except OSError:
            return


class Recording:
    """The looks of a file. Raises BadRequest for one that cannot be read, with the first bad line."""

    def __init__(self, path: str) -> None:
        self._looks = msgspec.json.Decoder(ClusterLook)
        self._changes = msgspec.json.Decoder(LookChanges)
        self._path = path
        self._starts: list[int] = []
        self._wholes: list[int] = []
        """Number of each whole look."""
        self._read: tuple[int, ClusterLook] | None = None
        """The look that was asked for last, and its number."""
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
        first, look = self._before(number)
        for each in range(first + 1, number + 1):
            look = self._following(look, self._line(each), each + 1)
        self._read = (number, look)
        return look

    def _before(self, number: int) -> tuple[int, ClusterLook]:
        """A look that is not behind it, from which on there are changes alone."""
        whole = next(each for each in reversed(self._wholes) if each <= number)
        if self._read is not None and whole <= self._read[0] <= number:
            return self._read
        return whole, self._following(None, self._line(whole), whole + 1)

    def _line(self, number: int) -> bytes:
        self._file.seek(self._starts[number])
        return self._file.readline(LONGEST_LINE)

    def close(self) -> None:
        """Nothing more is asked."""
        self._file.close()

    def _check(self) -> None:
        start, number = 0, 0
        look: ClusterLook | None = None
        while line := self._file.readline(LONGEST_LINE):
            number += 1
            if number > MOST_LOOKS:
                raise BadRequest(f"{self._path}:{number}: a recording has {MOST_LOOKS} looks at most")
            before, look = look, self._following(look, line, number)
            if before is not None and look.at < before.at:
                raise BadRequest(f"{self._path}:{number}: this look is earlier than the one before")
            if not line.startswith(TAG):
                self._wholes.append(number - 1)
            self._starts.append(start)
            start += len(line)

    def _following(self, look: ClusterLook | None, line: bytes, number: int) -> ClusterLook:
        """The look of that line (from 1 on), behind that look. Raises BadRequest."""
        try:
            if not line.startswith(TAG):
                return self._looks.decode(line)
            if look is None:
                raise BadRequest("it begins with changes")
            return changed_look(look, self._changes.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadRequest(f"{self._path}:{number}: this is no look of gsched top ({error})") from None
        except BadRequest as error:
            raise BadRequest(f"{self._path}:{number}: this is no look of gsched top ({error.text})") from None
