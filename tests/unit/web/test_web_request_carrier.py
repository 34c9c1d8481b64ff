"""What a browser sees of an answer that a user's process does not end: that it is not whole."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from gsched.web.front.careful_protocol import CarefulProtocol
from gsched.web.front.request_carrier import Carried
from tests.support.folders import new_folder

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n"
WITH_LENGTH = b"HTTP/1.1 200 OK\r\ncontent-length: 111\r\n\r\nfirst"
LAST = b"0\r\n\r\n"


class Place:
    """A user's process that says `answer` and hangs up, or says no more until the session ends; a front before it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.answer = b""
        self.hangs_up = True
        self.over = asyncio.Event()
        self.ended = threading.Event()

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        async def noted(message: Any) -> None:
            await send(message)
            if message.get("body") and not self.hangs_up:
                self.over.set()

        async with await asyncio.start_unix_server(self.process, self.path):
            await Carried(scope, receive, noted, "cookie").carry(self.path, [], self.over)
        self.ended.set()

    async def process(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self.answer)
        await writer.drain()
        if not self.hangs_up:
            await reader.read()
        writer.close()


@pytest.fixture
def place() -> Iterator[Place]:
    folder = new_folder()
    yield Place(f"{folder}/user.sock")
    shutil.rmtree(folder)


def said_to_browser(place: Place) -> bytes:
    """All that comes until the connection ends; of a server that keeps connections open."""
    config = uvicorn.Config(
        place.application, interface="asgi3", http=CarefulProtocol, loop="asyncio", log_config=None, lifespan="off"
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        with socket.create_connection(listening.getsockname(), timeout=30) as browser:
            browser.sendall(b"GET / HTTP/1.1\r\nHost: h1\r\n\r\n")
            said = b""
            try:
                while piece := browser.recv(1000):
                    said += piece
                    if said.endswith(LAST):
                        break
            except ConnectionResetError:
                pass
        server.should_exit = True
        thread.join(30)
    assert place.ended.wait(30)
    return said


@pytest.mark.parametrize("answer", [CHUNKED, WITH_LENGTH], ids=["chunked", "with length"])
@pytest.mark.parametrize("hangs_up", [True, False])
def test_half_an_answer_does_not_look_whole(
    place: Place, answer: bytes, hangs_up: bool, caplog: pytest.LogCaptureFixture
) -> None:
    place.answer, place.hangs_up = answer, hangs_up
    with caplog.at_level(logging.WARNING):
        said = said_to_browser(place)
    assert not said.endswith(LAST)
    assert not caplog.records, "anybody can have it happen"


def test_a_whole_answer_has_its_end(place: Place) -> None:
    place.answer = CHUNKED + LAST
    assert said_to_browser(place).endswith(b"first\r\n" + LAST)
