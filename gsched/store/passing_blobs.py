"""Blobs that may go before the history of their job does: what a job is given to read, and what its own boxes hold.

A blob's name is its content's, and whatever has the same content shares it. So these begin with a mark, by which they
never share a blob with a script, an environment or an attachment that stays; the store drops nothing without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from sqlalchemy import Delete, delete, func

from gsched.store.tables.schema import blob

_MARK = b"\0gsched passing\0"
_SALT_BYTES = 16
_BEFORE = len(_MARK) + _SALT_BYTES
_AT_ONCE = 500
"""SQLite may be built to take 999 values in a statement. Source: its limits.html, SQLITE_MAX_VARIABLE_NUMBER."""


def given_input(content: bytes) -> bytes:
    """The blob of what a job reads; jobs that read the same share it."""
    return _MARK + bytes(_SALT_BYTES) + content


def own_message(content: bytes) -> bytes:
    """The blob of what one job keeps in a message box of its own, and nobody shares; nothing needs none."""
    return _MARK + os.urandom(_SALT_BYTES) + content if content else content


def content_of(data: bytes) -> bytes:
    """What was put into the blob, of either kind or of none."""
    return data[_BEFORE:] if data.startswith(_MARK) else data


def is_passing(data: bytes) -> bool:
    """Whether it may be dropped: then it stays as it is, so that the store sees that."""
    return data.startswith(_MARK)


def dropping(names: list[str]) -> Iterator[Delete]:
    """The statements that drop those of them that are passing: a database takes so many names in one."""
    for start in range(0, len(names), _AT_ONCE):
        some = blob.c.id.in_(names[start : start + _AT_ONCE])
        yield delete(blob).where(some, func.substr(blob.c.data, 1, len(_MARK)) == _MARK)
