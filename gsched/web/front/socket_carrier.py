"""Hands a websocket of a job's service on to the process of its user, and back: bytes, which the front does not read.

Uvicorn gives a connection away when its request asks for a websocket; what follows is between the browser and the
user's process. Neither side is held in memory: who reads slowly is written to slowly.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, cast

import h11
from starlette.types import Scope
from uvicorn.protocols.utils import get_remote_addr

from gsched.base.errors import Unavailable
from gsched.web.front.request_carrier import PIECE, passed_on

if TYPE_CHECKING:
    from gsched.web.front.front_application import FrontApplication

_REASONS = {403: b"Forbidden", 503: b"Service Unavailable"}


class SocketProtocol(asyncio.StreamReaderProtocol):
    """A connection that was given away; its first bytes are the head of the request, as uvicorn has read it."""

    def __init__(self, application: FrontApplication, **_: Any) -> None:
        """`_`: what else uvicorn tells a protocol of websockets."""
        super().__init__(asyncio.StreamReader(limit=PIECE), self._carry)
        self._application = application

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            scope = _scope_of(await reader.readuntil(b"\r\n\r\n"), writer)
            await self._application.carry_socket(scope, reader, writer)
        except (OSError, EOFError, h11.ProtocolError, asyncio.LimitOverrunError):
            pass  # one of the two is gone
        finally:
            writer.close()


def _address_of(writer: asyncio.StreamWriter) -> tuple[str, int] | None:
    return get_remote_addr(cast("asyncio.Transport", writer.transport))


def _scope_of(head: bytes, writer: asyncio.StreamWriter) -> Scope:
    """What applications are told of a request. Raises h11.ProtocolError."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(head)
    request = connection.next_event()
    if not isinstance(request, h11.Request):
        raise EOFError
    path, _, query = request.target.partition(b"?")
    headers = [(name.lower(), value) for name, value in request.headers]
    return {
        "type": "websocket",
        "client": _address_of(writer),
        "scheme": "https" if writer.get_extra_info("sslcontext") is not None else "http",
        "path": path.decode("ascii"),
        "target": request.target,
        "query_string": query,
        "headers": headers,
    }


def socket_head(scope: Scope, cookie: str) -> bytes:
    """The request as the user's process gets it. `cookie`: the front's own."""
    headers = [*passed_on(scope["headers"], cookie), (b"connection", b"upgrade"), (b"upgrade", b"websocket")]
    request = h11.Request(method=b"GET", target=scope["target"], headers=headers)
    return h11.Connection(h11.CLIENT).send(request) or b""


def refused_socket(status: int) -> bytes:
    """An answer for a websocket that cannot be."""
    return b"HTTP/1.1 %d %s\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % (status, _REASONS[status])


async def carry_bytes(
    path: str, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, over: asyncio.Event
) -> None:
    """Until one of the two has ended, or `over` is set. Raises Unavailable when the process does not answer."""
    try:
        from_process, to_process = await asyncio.open_unix_connection(path, limit=PIECE)
    except OSError:
        raise Unavailable("the pages are not there now") from None
    to_process.write(head)
    parts = [
        asyncio.create_task(_pump(reader, to_process)),
        asyncio.create_task(_pump(from_process, writer)),
        asyncio.create_task(over.wait()),
    ]
    try:
        await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        to_process.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
