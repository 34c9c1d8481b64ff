"""Files for their owner's eyes alone, written whole or not at all.

Also for the fork server's bare interpreter: standard library only, and no more than os.
"""

from __future__ import annotations

import os


def write_file(path: str, data: bytes, *, durable: bool = False) -> None:
    """All of `data` or OSError; readable by the owner alone. `durable`: it is on disk when this returns."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        if os.write(fd, data) != len(data):
            raise OSError("the disk is full")
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def write_deadline(path: str, at: float) -> None:
    """`at` (UTC seconds) as whole seconds, into a file that is there and keeps its owner and mode. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.write(fd, b"%d\n" % at)
    finally:
        os.close(fd)


def clear_deadline(path: str) -> None:
    """Such a file tells of none from now on. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_TRUNC)
    os.close(fd)


def replace_file(path: str, data: bytes, *, durable: bool = False) -> None:
    """The same in place of what the file held: nobody ever reads half of it. Raises OSError, and all is as it was."""
    write_file(f"{path}.new", data, durable=durable)
    os.rename(f"{path}.new", path)
    if durable:
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
