"""One request of a browser, carried to a service and answered: head and body, neither of which is kept.

It takes no answer that it cannot understand (httpcore and h11 read them, with limits), and looks into no body.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpcore
from starlette.types import Receive, Scope, Send

from gsched.base.errors import BadRequest, Unavailable
from gsched.model.jobs.job_service import HOST
from gsched.web.services.service_headers import RawHeader, from_service, to_service
from gsched.web.services.service_pool import MOST_OF_ONE, ServicePool
from gsched.wire.calls.client import Client
from gsched.wire.calls.service_calls import FoundService

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_TIMEOUTS = {"write": 60.0, "pool": 10.0}
_FAILURES = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
)


class _Gone(Exception):
    """The browser is."""


class RequestBody:
    """What the browser sends, as it comes; and when it goes away."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._whole = asyncio.Event()
        self.is_begun = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.is_begun = True
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise _Gone
            if data := message.get("body", b""):
                yield data
            if not message.get("more_body", False):
                self._whole.set()
                return

    async def until_gone(self, *, has_any: bool) -> None:
        """Return when nobody waits for the answer any more."""
        if has_any:
            await self._whole.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


class ServiceRequest:
    """`origin`: the name by which the browser knows the service, as an origin."""

    def __init__(self, pool: ServicePool, client: Client, job_id: int, origin: bytes) -> None:
        self._pool = pool
        self._client = client
        self._job_id = job_id
        self._origin = origin

    async def answer(self, scope: Scope, receive: Receive, send: Send, until_over: Callable[[], Any]) -> None:
        """Carry it out; broken off when `until_over` returns. Raises GschedError where nothing was sent yet."""
        if scope["method"] not in METHODS:
            raise BadRequest(f"{scope['method'][:20]} is not carried to services")
        headers: list[RawHeader] = list(scope["headers"])
        has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in headers)
        body = RequestBody(receive)
        relaying = asyncio.create_task(self._relay(scope, headers, body if has_body else None, send))
        ways = [relaying, asyncio.create_task(body.until_gone(has_any=has_body)), asyncio.create_task(until_over())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)
        with contextlib.suppress(asyncio.CancelledError, _Gone, OSError):
            relaying.result()

    async def _relay(self, scope: Scope, headers: list[RawHeader], body: RequestBody | None, send: Send) -> None:
        async with contextlib.AsyncExitStack() as under_way:
            port, response = await self._answered(scope, headers, body, under_way)
            under_way.push_async_callback(response.aclose)
            await _pass_on(response, port, send)

    async def _answered(
        self, scope: Scope, headers: list[RawHeader], body: RequestBody | None, under_way: contextlib.AsyncExitStack
    ) -> tuple[int, httpcore.Response]:
        """The service's port, and the answer. Asks a second time where the first connection has failed: it may have
        been an old one. Raises GschedError.
        """
        for is_last in (False, True):
            way = await self._pool.way(self._client, self._job_id)
            pool = await under_way.enter_async_context(way.used())
            try:
                return way.found.port, await pool.handle_async_request(self._request(scope, headers, body, way.found))
            except httpcore.PoolTimeout:
                raise Unavailable(f"{MOST_OF_ONE} requests to the service are under way: it takes no more") from None
            except _FAILURES as failure:
                await self._pool.forget(self._client, self._job_id, way)
                if is_last or (body is not None and body.is_begun):
                    raise Unavailable(_what(failure)) from None
        raise AssertionError("unreachable")

    def _request(
        self, scope: Scope, headers: list[RawHeader], body: RequestBody | None, found: FoundService
    ) -> httpcore.Request:
        sent = to_service(headers, self._origin, found.port, found.secret)
        if any(name == b"transfer-encoding" for name, _ in headers):
            sent.append((b"transfer-encoding", b"chunked"))
        return httpcore.Request(
            scope["method"].encode("ascii"),
            httpcore.URL(scheme=b"http", host=HOST.encode(), port=found.port, target=target_of(scope)),
            headers=sent,
            content=body,
            extensions={"timeout": _TIMEOUTS},
        )


def target_of(scope: Scope) -> bytes:
    """Path and query, as the browser has written them. Raises BadRequest."""
    path: bytes = scope["raw_path"]
    if not path.startswith(b"/"):
        raise BadRequest("a request names a path")
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path


async def _pass_on(response: httpcore.Response, port: int, send: Send) -> None:
    headers = from_service(response.headers, port)
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    try:
        async for piece in response.aiter_stream():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    except _FAILURES as failure:  # half an answer is to be known for that
        raise OSError(str(failure)) from None
    await send({"type": "http.response.body", "body": b""})


def _what(failure: Exception) -> str:
    if isinstance(failure, httpcore.ConnectError):  # by the way through the master, which says why
        return str(failure)
    return f"the service does not answer as a web server would: {str(failure)[:200] or type(failure).__name__}"
