"""Websockets to services: what a browser sends with one goes on, or is refused in one line."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

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
