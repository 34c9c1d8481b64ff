"""Files of an archive: lines, compressed by gzip, written whole or not at all, and read with a look at their check sum.

A file gets its name when it is on disk. It knows nothing of what a line says.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from gsched.base.errors import BadRequest, DamagedData
from gsched.master.archive.archive_manifest import ArchivedFile

MOST_LINE = 1 << 30
"""Bytes of one line: more than any event, script or environment that a store holds."""
_LEVEL = 6
_GROUP, _OWNER = 0o640, 0o600
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""What a file system says that has no second names of files."""
T = TypeVar("T")


class _Counted:
    """A file of which the bytes are counted and summed up as they pass."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sum = hashlib.sha256()
        self.bytes = 0

    def write(self, data: bytes) -> int:
        self._note(data)
        return self._file.write(data)

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._note(data)
        return data

    def flush(self) -> None:
        self._file.flush()

    def digest(self) -> str:
        return self._sum.hexdigest()

    def _note(self, data: bytes) -> None:
        self.bytes += len(data)
        self._sum.update(data)


class LineWriter:
    """A new file. Until `publish` it has another name; who gives up before calls `discard`. Raises OSError."""

    def __init__(self, folder: Path, name: str, *, for_owner: bool = False) -> None:
        """`for_owner`: nobody else may read it; else its group may."""
        self.name = name
        self._folder, self._half = folder, half_of(folder, name)
        self._half.unlink(missing_ok=True)
        mode = _OWNER if for_owner else _GROUP
        handle = os.open(self._half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        self._file = os.fdopen(handle, "wb")
        self._counted = _Counted(self._file)
        # No name and no time within: the same lines make the same file.
        self._packer = gzip.GzipFile("", "wb", _LEVEL, self._counted, mtime=0)
        self.lines = 0

    def write(self, line: bytes) -> None:
        """A line, without its end."""
        self._packer.write(line)
        self._packer.write(b"\n")
        self.lines += 1

    def finish(self) -> ArchivedFile:
        """All of it is on disk, still under the other name."""
        self._packer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return ArchivedFile(name=self.name, lines=self.lines, bytes=self._counted.bytes, sha256=self._counted.digest())

    def publish(self) -> None:
        """It gets its name, which is on disk as soon as the folder is. A file that has the name stays: OSError."""
        publish(self._folder, self.name)

    def discard(self) -> None:
        """Nothing of it stays that has no name yet."""
        self._packer.fileobj = None  # type: ignore[assignment]  # else its end would be written once more
        with contextlib.suppress(OSError):  # what was not written yet does not matter
            self._file.close()
        with contextlib.suppress(OSError):  # who comes next makes it anew, or says why that cannot be
            self._half.unlink(missing_ok=True)


def half_of(folder: Path, name: str) -> Path:
    """Where a file lies before it gets its name."""
    return folder / f".{name}.half"


def publish(folder: Path, name: str) -> None:
    """Give a file its name. None is ever replaced: what has it may be all that is left of jobs. Raises OSError."""
    rename_new(half_of(folder, name), folder / name)


def rename_new(old: Path, new: Path) -> None:
    """As a rename, but of what has the new name already nothing is lost. Raises OSError, with the new name."""
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError as problem:
        if problem.errno not in _NO_LINKS:
            raise OSError(problem.errno, problem.strerror, str(new)) from None
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new)) from None
        os.rename(old, new)
    else:
        os.unlink(old)


def read_lines(folder: Path, file: ArchivedFile) -> Iterator[tuple[int, bytes]]:
    """Number (from 1 on) and text of each line. Raises BadRequest for a file that is not there or may not be read,
    DamagedData for one that is not what was written: only when all is read that is known.
    """
    path = folder / file.name
    try:
        raw = open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as problem:
        raise BadRequest(f"{path}: {problem.strerror}") from None
    number = 0
    with raw:
        counted = _Counted(raw)
        try:
            with gzip.GzipFile(fileobj=counted, mode="rb") as unpacked:
                while line := unpacked.readline(MOST_LINE):
                    number += 1
                    if not line.endswith(b"\n"):
                        raise damaged(path, number, "the line is cut off")
                    yield number, line[:-1]
            while counted.read(1 << 20):
                pass
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise damaged(path, number + 1, f"what follows cannot be unpacked ({problem})") from None
        except OSError as problem:
            raise BadRequest(f"{path}: {problem.strerror or problem}") from None
    if number != file.lines:
        raise damaged(path, number, f"the file ends here, {file.lines} lines were written")
    if counted.digest() != file.sha256:
        raise DamagedData(f"{path}: its SHA-256 is {counted.digest()}, not {file.sha256} as in the manifest")


def damaged(path: Path, line: int, why: object) -> DamagedData:
    """The error for a line that is not what was written."""
    return DamagedData(f"{path}:{line}: {why}")
