"""The code of a refusal and its parameters, beside the gRPC status: the sentence is made by who shows it.

Where a refusal has no code, or one that is too large for a trailer, its text alone travels, as before.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable

import msgspec

from gsched.base.coded_text import AnyText, CodedText
from gsched.base.errors import GschedError

SAID = "gsched-said"
"""Trailer of a call that was refused: the text's code and parameters."""

MOST_BYTES = 3000
"""Of text and trailer together: gRPC drops a whole answer whose metadata come to more than 8 KiB."""


def said_trailer(error: GschedError) -> tuple[tuple[str, str], ...]:
    """The trailer that tells what the error says by its code; none where it has no code, or there is no room."""
    if isinstance(error.said, str):
        return ()
    packed = base64.b64encode(msgspec.msgpack.encode(error.said)).decode("ascii")
    return ((SAID, packed),) if len(packed) + len(error.text.encode()) <= MOST_BYTES else ()


def said_in(trailers: Iterable[str], text: str) -> AnyText:
    """What these values of SAID tell; `text`, which came with the status, where none can be read."""
    for packed in trailers:
        try:
            return msgspec.msgpack.decode(base64.b64decode(packed, validate=True), type=CodedText)
        except (ValueError, msgspec.DecodeError):
            continue
    return text
