"""Blobs as they stand in their rows, and how they are read: as they are, deflated, or as what differs from others.

What several have in common is kept in the table `dictionary`, by a number. A packed blob names its dictionary in its
first bytes; a row of before has none of that, and is what it is. Blobs keep the name of their content, by which whoever
reads one sees whether it is whole; nothing is checked here.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from sqlalchemy import Engine, select

from gsched.store.tables.schema import dictionary

_MARK = b"\0gz\0"
"""How a packed one begins. A content that begins like that is always packed: none is taken for what it is not."""
_NUMBER_BYTES = 2
_BEFORE = len(_MARK) + _NUMBER_BYTES
HEAD_BYTES = _BEFORE
"""By so many of a row's first bytes `dictionary_of` tells."""
MOST_NUMBER = (1 << 8 * _NUMBER_BYTES) - 1
_NONE = 0
"""In place of a dictionary's number: it was deflated without one."""
_WINDOW = -15
"""Of contents up to 32 KiB all is seen, and of dictionaries."""
_MEMORY = 8
_MOST_KNOWN = 64
"""Dictionaries in memory."""
GOOD, QUICK = 6, 1
"""Levels: of what is small and kept for ever, and of the rest."""


def pack(content: bytes, dictionary_number: int = _NONE, words: bytes = b"", level: int = GOOD) -> bytes:
    """The row of a blob, deflated; where that makes it no smaller, as it is. `words`: the dictionary of the number."""
    packer = zlib.compressobj(level, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, words)
    body = packer.compress(content) + packer.flush()
    if _BEFORE + len(body) >= len(content) and not content.startswith(_MARK):
        return content
    return _MARK + dictionary_number.to_bytes(_NUMBER_BYTES, "big") + body


def is_packed_blob(data: bytes) -> bool:
    """Whether a row is packed: no content is written as it is that looks like that."""
    return data.startswith(_MARK)


def dictionary_of(head: bytes) -> int:
    """The number of the dictionary of a row that begins like that; 0: it has none."""
    return int.from_bytes(head[len(_MARK) : _BEFORE], "big") if is_packed_blob(head) else _NONE


def unpack(data: bytes, words_of: Callable[[int], bytes]) -> bytes:
    """The content of a row; what is damaged comes as it is, which has not the name that its content had. `words_of` a
    dictionary's number: see Dictionaries.
    """
    if not is_packed_blob(data):
        return data
    number = dictionary_of(data)
    unpacker = zlib.decompressobj(_WINDOW, words_of(number)) if number else zlib.decompressobj(_WINDOW)
    try:
        content = unpacker.decompress(data[_BEFORE:])
    except zlib.error:
        return data
    return content if unpacker.eof else data


class Dictionaries:
    """Of one store, read when they are wanted; they never change. For any thread."""

    def __init__(self, readers: Engine) -> None:
        self._readers = readers
        self._known: dict[int, bytes] = {}

    def __call__(self, number: int) -> bytes:
        """The dictionary of a number; empty: there is none. Raises DBAPIError."""
        words = self._known.get(number)
        if words is None:
            query = select(dictionary.c.words).where(dictionary.c.number == number)
            with self._readers.connect() as connection:
                found = connection.scalar(query)
            words = bytes(found) if isinstance(found, bytes) else b""
            if words:  # of one that is missing a writer may be ahead
                self._known = {number: words, **(self._known if len(self._known) < _MOST_KNOWN else {})}
        return words
