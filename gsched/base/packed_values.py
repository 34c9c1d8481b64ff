"""Values made of plain ones, as few bytes for the store, and back: with a bound on what comes out of them.

It must never know what the values mean.
"""

from __future__ import annotations

import zlib
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def pack(value: Any) -> bytes:
    """Equal values make equal bytes."""
    return zlib.compress(msgspec.msgpack.encode(value), 9)


def unpack(data: bytes, kind: type[T], most_bytes: int) -> T:
    """The value, of that kind. Raises ValueError for bytes that `pack` has not made, or of more than `most_bytes`."""
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(data, most_bytes)
        if not unpacker.eof:
            raise ValueError("it is cut off, or too large")
        return msgspec.msgpack.decode(text, type=kind)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from None
