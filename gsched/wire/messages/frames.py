"""Frames on a unix socket: a byte that says what it is, the length of the rest as 4 bytes (big-endian), the rest.

Nothing here reads or writes a socket, and nothing that comes in makes it hold more than the stated limit.
"""

from __future__ import annotations

MAX_FRAME = 1 << 20
"""Most bytes in a frame's payload."""
HEADER = 5


class ProtocolError(Exception):
    """The other side does not speak this protocol; the connection is of no more use."""


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    """One frame, ready to be sent."""
    return kind + len(payload).to_bytes(4, "big") + payload


class Decoder:
    """Cuts a stream of bytes into frames, wherever the stream was broken up on its way."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Frames (kind, payload) that are complete now. Raises ProtocolError for one longer than MAX_FRAME."""
        buffer = self._buffer
        buffer += data
        frames = []
        start = 0
        while len(buffer) - start >= HEADER:
            length = int.from_bytes(buffer[start + 1 : start + HEADER], "big")
            if length > MAX_FRAME:
                raise ProtocolError(f"a frame of {length} bytes")
            end = start + HEADER + length
            if len(buffer) < end:
                break
            frames.append((bytes(buffer[start : start + 1]), bytes(buffer[start + HEADER : end])))
            start = end
        del buffer[:start]
        return frames
