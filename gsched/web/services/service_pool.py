"""The way to a service, looked up once for a while, and connections to it that are used for one request after another.

It asks the master again when a connection fails: the job may have begun anew, or have ended.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpcore
from starlette.concurrency import run_in_threadpool

from gsched.base.errors import GschedError, ResourceExhausted
from gsched.web.services.service_stream import ServiceStream
from gsched.wire.calls.client import Client
from gsched.wire.calls.service_calls import FoundService

FOUND_S = 20.0
"""For so long it is not asked again where a service is, and whether this user may use it."""
MOST_SERVICES = 64
MOST_STREAMS = 90
"""Connections to services at a time; each has two threads. By munge the master takes 100 calls on a connection, and
further ones would wait for ever (server.SERVER_OPTIONS_FOR_ANYBODY).
"""
MOST_OF_ONE = 32
MOST_IDLE = 8
IDLE_S = 10.0


class ServiceWay:
    """Where a service is, and a pool of connections to it. `until`: when it is asked for anew (monotonic seconds)."""

    def __init__(self, found: FoundService, pool: httpcore.AsyncConnectionPool) -> None:
        self.found = found
        self.until = time.monotonic() + FOUND_S
        self._pool = pool
        self._uses = 0
        self._is_forgotten = False

    @asynccontextmanager
    async def used(self) -> AsyncIterator[httpcore.AsyncConnectionPool]:
        """The pool, which stays open meanwhile."""
        self._uses += 1
        try:
            yield self._pool
        finally:
            self._uses -= 1
            await self._close_unused()

    async def forget(self) -> None:
        """Nobody is led here any more: close the pool as soon as nothing is under way."""
        self._is_forgotten = True
        await self._close_unused()

    async def _close_unused(self) -> None:
        if self._is_forgotten and not self._uses:
            await self._pool.aclose()


class ServicePool:
    """All services that somebody looks at."""

    def __init__(self) -> None:
        self._ways: OrderedDict[tuple[int, int], ServiceWay] = OrderedDict()
        self._asking: dict[tuple[int, int], asyncio.Lock] = {}
        self._streams: set[ServiceStream] = set()

    async def way(self, client: Client, job_id: int) -> ServiceWay:
        """The way to the job's service, for the user for whom `client` asks. Raises GschedError."""
        key = id(client), job_id
        async with self._asking.setdefault(key, asyncio.Lock()):
            known = self._ways.get(key)
            if known is not None and time.monotonic() < known.until:
                return known
            try:
                found = await run_in_threadpool(client.services.find, job_id)
            except GschedError:
                await self.forget(client, job_id)
                raise
            if known is not None and known is self._ways.get(key) and known.found == found:
                known.until = time.monotonic() + FOUND_S
                return known
            await self.forget(client, job_id)
            way = self._ways[key] = ServiceWay(found, self._new_pool(client, job_id, found))
        while len(self._ways) > MOST_SERVICES:
            _, oldest = self._ways.popitem(last=False)
            await oldest.forget()
        return way

    async def forget(self, client: Client, job_id: int, way: ServiceWay | None = None) -> None:
        """It has failed: ask again the next time. `way`: only if it is still that one. What is under way goes on."""
        key = id(client), job_id
        known = self._ways.get(key)
        if known is not None and way in (None, known):
            del self._ways[key]
            await known.forget()

    async def stream(self, client: Client, job_id: int, found: FoundService) -> ServiceStream:
        """A connection of its own. Raises GschedError."""
        if len(self._streams) >= MOST_STREAMS:
            raise ResourceExhausted(f"{MOST_STREAMS} connections to services are open: close a page first")
        stream = ServiceStream(client.services.connect(job_id, found.attempt), self._streams.discard)
        self._streams.add(stream)
        await stream.begin()
        return stream

    def close(self) -> None:
        """End all connections."""
        for stream in list(self._streams):
            stream.close()

    def _new_pool(self, client: Client, job_id: int, found: FoundService) -> httpcore.AsyncConnectionPool:
        return httpcore.AsyncConnectionPool(
            max_connections=MOST_OF_ONE,
            max_keepalive_connections=MOST_IDLE,
            keepalive_expiry=IDLE_S,
            network_backend=_Backend(self, client, job_id, found),
        )


class _Backend(httpcore.AsyncNetworkBackend):
    """Connects by way of the master, whatever the address."""

    def __init__(self, pool: ServicePool, client: Client, job_id: int, found: FoundService) -> None:
        self._pool, self._client, self._job_id, self._found = pool, client, job_id, found

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        del host, port, timeout, local_address, socket_options
        try:
            return _Stream(await self._pool.stream(self._client, self._job_id, self._found))
        except GschedError as error:
            raise httpcore.ConnectError(error.text) from error


class _Stream(httpcore.AsyncNetworkStream):
    """A connection as httpcore wants it."""

    def __init__(self, stream: ServiceStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        del timeout  # an answer may take any time: who waits for it leaves when he has had enough
        return await self._stream.read(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._stream.write(buffer)
        except TimeoutError:
            raise httpcore.WriteTimeout from None

    async def aclose(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.has_something if info == "is_readable" else None
