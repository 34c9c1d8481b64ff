"""Websockets to services: what a browser sends with one goes on, or is refused in one line."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from websockets.frames import Frame, Opcode
from websockets.utils import accept_key

from gsched.base.errors import BadRequest
from gsched.web.services.service_sockets import ServiceSocket
from gsched.wire.calls.service_calls import FoundService

ORIGIN = b"http://job-7.localhost:8080"


class Stream:
    """Takes what is written."""

    def __init__(self) -> None:
        self.sent = b""

    async def write(self, data: bytes, *, unasked: bool) -> None:
        self.sent += data

    async def read(self) -> bytes:
        raise EOFError


def asked(*headers: tuple[bytes, bytes], subprotocols: tuple[str, ...] = ()) -> bytes:
    """What the service is asked."""
    stream: Any = Stream()
    scope = {"raw_path": b"/ws", "query_string": b"", "headers": headers, "subprotocols": subprotocols}
    with pytest.raises(EOFError):
        asyncio.run(ServiceSocket(stream, scope, ORIGIN, FoundService(1, "gpu1", 20_001, "secret")).begin())
    told: bytes = stream.sent
    return told


class Eager(Stream):
    """A service that says something with its answer, in one piece, and goes."""

    async def read(self) -> bytes:
        if self.is_read:
            return b""
        self.is_read = True
        key = self.sent.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0].decode()
        head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        accepted = f"{head}Sec-WebSocket-Accept: {accept_key(key)}\r\n\r\n".encode()
        return accepted + Frame(Opcode.TEXT, b"hello").serialize(mask=False)

    is_read = False


def test_what_comes_with_the_answer_is_not_lost() -> None:
    async def heard() -> list[Any]:
        stream: Any = Eager()
        scope = {"raw_path": b"/ws", "query_string": b"", "headers": (), "subprotocols": ()}
        socket = ServiceSocket(stream, scope, ORIGIN, FoundService(1, "gpu1", 20_001, "secret"))
        await socket.begin()
        return [message async for message in socket.messages()]

    assert asyncio.run(heard()) == [{"type": "websocket.send", "text": "hello"}]


def test_cookies_that_are_not_ascii_go_on() -> None:
    told = asked((b"cookie", "own=\u00e9; x=1".encode()), (b"user-agent", b"caf\xe9"))
    assert b"\r\ncookie: own=%C3%A9; x=1\r\n" in told and b"\r\nuser-agent: caf%E9\r\n" in told
    assert told.startswith(b"GET /ws HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "words",
    [{"subprotocols": ("a\udce9",)}, {"subprotocols": ("a\nb: c",)}, {"headers": ((b"cookie", b"own=1\x00"),)}],
)
def test_what_cannot_be_asked_for_is_refused(words: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="the websocket cannot be asked for"):
        asked(*words.pop("headers", ()), **words)
