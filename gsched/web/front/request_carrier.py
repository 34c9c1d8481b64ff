"""Hands a request on to the process of its user, and the answer back: as HTTP on that process's socket (h11).

Neither side is held in memory: who reads slowly is written to slowly, a piece at a time. What belongs to one connection
alone is not passed on, nor are headers that speak of gsched's own matters, nor the front's own cookie.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import h11
from starlette.types import Message, Receive, Scope, Send

from gsched.base.errors import Unavailable
from gsched.web.front.careful_protocol import HANG_UP
from gsched.web.front.keeper_messages import OWN_HEADERS

PIECE = 64 * 1024
BODY_S = 60.0
"""In which all of a request must have come."""
ANSWER_S = 120.0
"""In which an answer must begin."""
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade expect".split()
)
Header = tuple[bytes, bytes]


def passed_on(headers: Iterable[Header], cookie: str) -> list[Header]:
    """What the user's process is told of a browser's headers. `cookie`: the name of the front's own."""
    headers = list(headers)
    is_coded = any(_plain(name) == b"transfer-encoding" for name, _ in headers)
    found = []
    for name, value in headers:
        plain = _plain(name)
        if plain in _HOP_BY_HOP or plain.startswith(OWN_HEADERS):
            continue
        if plain == b"content-length" and is_coded:
            continue  # RFC 9112, 6.3: the coding counts, and no length is forwarded beside it
        told = _without(value, cookie) if plain == b"cookie" else value
        if told or plain != b"cookie":
            found.append((name, told))
    if is_coded:
        found.append((b"transfer-encoding", b"chunked"))
    return found


def _plain(name: bytes) -> bytes:
    return name.lower().replace(b"_", b"-")


def _without(line: bytes, cookie: str) -> bytes:
    """A Cookie header without the cookie of that name."""
    parts = [part.strip() for part in line.split(b";")]
    return b"; ".join(part for part in parts if part.partition(b"=")[0].strip() != cookie.encode())


def brought_back(headers: Iterable[Header], cookie: str) -> list[Header]:
    """What a browser is told of the answer's headers: no page sets the front's cookie, or the date."""
    headers = list(headers)
    left_out = {*_HOP_BY_HOP, b"date"}
    if any(name.lower() == b"transfer-encoding" for name, _ in headers):
        left_out.add(b"content-length")
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in left_out and not (name.lower() == b"set-cookie" and _sets(value, cookie))
    ]


def _sets(value: bytes, cookie: str) -> bool:
    """Whether a Set-Cookie header does: as browsers read it, who take one without a name for what it begins with."""
    return value.lstrip(b" \t=").partition(b";")[0].partition(b"=")[0].strip() == cookie.encode()


class Carried:
    """One request. `headers` are those that are sent, `over` is set when its session has ended."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, cookie: str, *, takes_time: bool = False) -> None:
        """`takes_time`: it is for a job's service, which has limits of its own."""
        self._scope, self._receive, self._send = scope, receive, send
        self._body_s = None if takes_time else BODY_S
        self._answer_s = None if takes_time else ANSWER_S
        self._cookie = cookie
        self._connection = h11.Connection(h11.CLIENT)
        self._has_begun = False
        self._is_complete = False

    async def carry(self, path: str, own: Sequence[Header], over: asyncio.Event) -> None:
        """Until the answer is complete, the browser is gone or the session over. `own`: headers of the front's.

        Raises Unavailable when the process does not answer, and nothing has been sent yet.
        """
        try:
            reader, writer = await asyncio.open_unix_connection(path, limit=PIECE)
        except OSError:
            raise Unavailable("the pages are not there now") from None
        parts = [
            asyncio.create_task(self._send_up(writer, own)),
            asyncio.create_task(self._bring_down(reader)),
            asyncio.create_task(over.wait()),
        ]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            writer.close()
        await self._finish([part.exception() for part in done if not part.cancelled()])

    async def _finish(self, errors: Sequence[BaseException | None]) -> None:
        if self._is_complete:
            return
        failed = next((error for error in errors if error is not None), None)
        if not self._has_begun:
            if failed is not None and not isinstance(failed, (OSError, h11.ProtocolError, TimeoutError, EOFError)):
                raise failed
            raise Unavailable("the pages do not answer")
        # A browser is told by the end of the connection that this was not all; a proper end would say that it was.
        self._scope["state"][HANG_UP]()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _send_up(self, writer: asyncio.StreamWriter, own: Sequence[Header]) -> None:
        scope, connection = self._scope, self._connection
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        headers = [*passed_on(scope["headers"], self._cookie), *own, (b"connection", b"close")]
        request = h11.Request(method=scope["method"].encode(), target=target, headers=headers)
        writer.write(connection.send(request) or b"")
        async with asyncio.timeout(self._body_s):
            more = True
            while more:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    return
                if message.get("body"):
                    writer.write(connection.send(h11.Data(data=message["body"])) or b"")
                    await writer.drain()
                more = bool(message.get("more_body"))
            writer.write(connection.send(h11.EndOfMessage()) or b"")
            await writer.drain()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _bring_down(self, reader: asyncio.StreamReader) -> None:
        async with asyncio.timeout(self._answer_s) as patience:
            while True:
                event = self._connection.next_event()
                if event is h11.NEED_DATA:
                    self._connection.receive_data(await reader.read(PIECE))
                    continue
                if isinstance(event, h11.Response):
                    patience.reschedule(None)
                    await self._begin(event)
                elif isinstance(event, h11.Data):
                    await self._tell({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
                elif isinstance(event, h11.EndOfMessage):
                    await self._tell({"type": "http.response.body", "body": b"", "more_body": False})
                    self._is_complete = True
                    return
                elif isinstance(event, h11.ConnectionClosed):
                    raise EOFError

    async def _begin(self, response: h11.Response) -> None:
        self._has_begun = True
        headers = brought_back(response.headers, self._cookie)
        await self._tell({"type": "http.response.start", "status": response.status_code, "headers": headers})

    async def _tell(self, message: Message) -> None:
        await self._send(message)
