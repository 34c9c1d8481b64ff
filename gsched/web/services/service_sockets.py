"""Websockets between a browser and a service: messages, subprotocol and end are carried over, each way as it can take.

Pings are between neighbours: those of the service are answered here, which is no use of it by anybody.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.types import Message, Receive, Scope, Send
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidURI
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from gsched.base.errors import BadRequest, GschedError, Unavailable
from gsched.model.jobs.job_service import HOST
from gsched.web.services.service_headers import to_service
from gsched.web.services.service_pool import ServicePool
from gsched.web.services.service_requests import target_of
from gsched.web.services.service_stream import ServiceStream
from gsched.wire.calls.client import Client
from gsched.wire.calls.service_calls import FoundService

MOST_MESSAGE = 64 << 20
"""Bytes of a message of a service: notebooks with pictures in them are large."""


class ServiceSocket:
    """One websocket to a service."""

    def __init__(self, stream: ServiceStream, scope: Scope, origin: bytes, found: FoundService) -> None:
        self._stream = stream
        try:
            self._protocol, self._request = _shaking(scope, origin, found)
        except InvalidURI:
            raise BadRequest("the address of the websocket cannot be read") from None
        except InvalidHandshake as problem:
            raise BadRequest(f"the websocket cannot be asked for: {_what(problem)}") from None
        self._parts: list[bytes] = []
        self._is_text = False

    @property
    def subprotocol(self) -> str | None:
        """What the service has chosen."""
        return self._protocol.subprotocol

    @property
    def end(self) -> tuple[int, str]:
        """With which code and words the service has closed it."""
        told = self._protocol.close_rcvd
        if told is None:  # it has gone without a word
            return CloseCode.INTERNAL_ERROR, ""
        return (CloseCode.NORMAL_CLOSURE if told.code == CloseCode.NO_STATUS_RCVD else told.code), told.reason

    async def begin(self) -> None:
        """Shake hands. Raises Unavailable when the service does not want to."""
        self._protocol.send_request(self._request)
        await self._flush(unasked=False)
        while self._protocol.state is State.CONNECTING:
            await self._receive()  # what may come with the answer is for `messages`
            if self._protocol.handshake_exc is not None:
                raise Unavailable(f"the service refuses the websocket: {_what(self._protocol.handshake_exc)}")

    async def messages(self) -> AsyncIterator[Message]:
        """What the service says, as ASGI has it, until it closes."""
        while True:
            for event in self._protocol.events_received():
                if isinstance(event, Frame) and (message := self._read(event)) is not None:
                    yield message
            await self._flush(unasked=True)  # answers to pings, and to its end
            if self._protocol.state is not State.OPEN:
                return
            await self._receive()

    async def send(self, message: Message) -> None:
        """What the browser says."""
        if message.get("text") is not None:
            self._protocol.send_text(message["text"].encode())
        else:
            self._protocol.send_binary(message.get("bytes") or b"")
        await self._flush(unasked=False)

    async def leave(self, code: int, reason: str) -> None:
        """The browser has closed it."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(code if code not in (1005, 1006) else 1001, reason[:100])
            await self._flush(unasked=True)

    def _read(self, frame: Frame) -> Message | None:
        """A whole message, when this was the last of it."""
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._is_text, self._parts = frame.opcode is Opcode.TEXT, []
        elif frame.opcode is not Opcode.CONT:
            return None
        self._parts.append(bytes(frame.data))
        if not frame.fin:
            return None
        data, self._parts = b"".join(self._parts), []
        if self._is_text:
            return {"type": "websocket.send", "text": data.decode("utf8", "replace")}
        return {"type": "websocket.send", "bytes": data}

    async def _receive(self) -> None:
        data = await self._stream.read()
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()

    async def _flush(self, *, unasked: bool) -> None:
        for data in self._protocol.data_to_send():
            if data:  # otherwise it is the end, which closing the stream says
                await self._stream.write(data, unasked=unasked)


async def carry_socket(
    pool: ServicePool,
    client: Client,
    job_id: int,
    origin: bytes,
    connection: tuple[Scope, Receive, Send],
    until_over: Callable[[], Any],
) -> None:
    """Connect, then carry messages until either side closes, or `until_over` returns. Raises GschedError where the
    browser was not answered yet.
    """
    scope, receive, send = connection
    way = await pool.way(client, job_id)
    try:
        stream = await pool.stream(client, job_id, way.found)
    except GschedError:
        await pool.forget(client, job_id, way)
        raise
    try:
        socket = ServiceSocket(stream, scope, origin, way.found)
        await socket.begin()
        await send({"type": "websocket.accept", "subprotocol": socket.subprotocol})
        ways = [
            asyncio.create_task(_to_browser(socket, send)),
            asyncio.create_task(_from_browser(socket, receive)),
            asyncio.create_task(until_over()),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ways:
                each.cancel()
            await asyncio.wait(ways)
        code, reason = (1001, "") if ways[2].done() and not ways[2].cancelled() else socket.end
        with contextlib.suppress(RuntimeError, OSError):  # it is closed already
            await send({"type": "websocket.close", "code": code, "reason": reason[:100]})
    finally:
        stream.close()


async def _to_browser(socket: ServiceSocket, send: Send) -> None:
    async for message in socket.messages():
        await send(message)


async def _from_browser(socket: ServiceSocket, receive: Receive) -> None:
    while (message := await receive())["type"] == "websocket.receive":
        await socket.send(message)
    await socket.leave(message.get("code") or 1001, message.get("reason") or "")


def _shaking(scope: Scope, origin: bytes, found: FoundService) -> tuple[ClientProtocol, Request]:
    """What shakes hands, and what it is to ask for. Raises InvalidURI, InvalidHandshake."""
    target = target_of(scope).decode("ascii", "replace")
    uri = parse_uri(f"ws://{HOST}:{found.port}{target}")
    protocols = [Subprotocol(each) for each in scope["subprotocols"]]
    protocol = ClientProtocol(uri, subprotocols=protocols or None, max_size=MOST_MESSAGE)
    request = protocol.connect()
    for name, value in to_service(scope["headers"], origin, found.port, found.secret):
        if name != b"host":
            request.headers[name.decode("ascii")] = _ascii(value)
    return protocol, request


def _ascii(value: bytes) -> str:
    """A header's value as the library takes it, which takes nothing else: other bytes as %XX."""
    return "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in value)


def _what(problem: Exception) -> str:
    return str(problem)[:200] if isinstance(problem, InvalidHandshake) else "its answer makes no sense"
