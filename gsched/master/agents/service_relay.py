"""Connections to the services of jobs: between who may use one and the agent of the job's host, which opens it.

Each is a call of its own on both sides, so that a slow reader holds up nobody else. The agent is known by a ticket that
it was given and nobody else knows. Lives in the gRPC loop's thread; it keeps nothing but what is under way, and never
looks at what it carries.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from gsched.base.errors import Unavailable
from gsched.master.agents.task_relay import Post
from gsched.model.views.view import JobView
from gsched.wire.v1 import agent_pb2

ANSWER_S = 15.0
"""How long an agent may take to look at the job, and to connect."""
MOST_LINKS = 2_000
"""Connections of all users at a time."""
LONGEST_PIECE = 1 << 20
GONE = (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError)
"""What an end of a connection raises that is not there any more."""


class AgentEnd:
    """The agent's end of a connection."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._closed = asyncio.Event()

    async def read(self) -> bytes:
        """The next bytes that the service says; none at its end."""
        try:
            piece = await self._context.read()
        except GONE:
            return b""
        return piece.data if isinstance(piece, agent_pb2.ServicePiece) and len(piece.data) <= LONGEST_PIECE else b""

    async def write(self, data: bytes, *, unasked: bool) -> None:
        """Bytes for the service; returns when the agent takes more."""
        await self._context.write(agent_pb2.ServicePiece(data=data, unasked=unasked))

    def close(self) -> None:
        """Nobody is at the other end any more."""
        self._closed.set()

    async def closed(self) -> None:
        """Wait for that."""
        await self._closed.wait()


class ServiceRelay:
    """`post(host, message)` puts a message into the stream of a host's agent; False when it is not connected."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._last = 0
        self._asked: dict[int, tuple[str, asyncio.Future[agent_pb2.ServiceFound]]] = {}
        self._tickets: dict[str, tuple[str, asyncio.Future[AgentEnd]]] = {}
        self._links = 0

    async def find(self, job: JobView) -> agent_pb2.ServiceFound:
        """Where the service of a started job is. Raises Unavailable when it cannot be reached, and says why."""
        assert job.allocation is not None
        host = job.allocation.first_host
        self._last += 1
        number = self._last
        waiting: asyncio.Future[agent_pb2.ServiceFound] = asyncio.get_running_loop().create_future()
        self._asked[number] = host, waiting
        asked = agent_pb2.FindService(request=number, job_id=job.job_id, attempt=job.attempt)
        try:
            found: agent_pb2.ServiceFound = await self._answer(
                host, agent_pb2.MasterMessage(find_service=asked), waiting
            )
        finally:
            del self._asked[number]
        if found.error:
            raise Unavailable(found.error)
        return found

    @asynccontextmanager
    async def opened(self, job: JobView, *, steps: bool = False) -> AsyncIterator[AgentEnd]:
        """A connection to it, or to where steps of the job are asked for, closed in the end. Raises Unavailable."""
        assert job.allocation is not None
        host = job.allocation.first_host
        if self._links >= MOST_LINKS:
            raise Unavailable(f"{MOST_LINKS} connections to services are open: no more are made")
        ticket = secrets.token_urlsafe(32)
        waiting: asyncio.Future[AgentEnd] = asyncio.get_running_loop().create_future()
        self._tickets[ticket] = host, waiting
        order = agent_pb2.OpenService(ticket=ticket, job_id=job.job_id, attempt=job.attempt, steps=steps)
        self._links += 1
        try:
            end = await self._answer(host, agent_pb2.MasterMessage(open_service=order), waiting)
            try:
                yield end
            finally:
                end.close()
        finally:
            self._links -= 1
            self._tickets.pop(ticket, None)

    async def serve(self, context: Any, host: str) -> None:
        """An agent comes with a ticket: it is the other end for who waits for that. `host`: whose agent it is, where
        that is proven.
        """
        first = await context.read()
        if not isinstance(first, agent_pb2.ServicePiece):
            return
        expected, waiting = self._tickets.pop(first.ticket, ("", None))
        if waiting is None or waiting.done() or (host and host != expected):
            await context.abort(grpc.StatusCode.NOT_FOUND, "nobody waits for this connection")
            return
        if first.error:
            waiting.set_exception(Unavailable(first.error))
            return
        end = AgentEnd(context)
        waiting.set_result(end)
        await end.closed()

    def found(self, host: str, reply: agent_pb2.ServiceFound) -> None:
        """The agent of `host` answers."""
        asked, waiting = self._asked.get(reply.request, ("", None))
        if waiting is not None and asked == host and not waiting.done():
            waiting.set_result(reply)

    def gone(self, host: str) -> None:
        """The agent of `host` is not connected any more; what was open breaks by itself."""
        awaited: list[tuple[str, asyncio.Future[Any]]] = [*self._asked.values(), *self._tickets.values()]
        for asked, waiting in awaited:
            if asked == host and not waiting.done():
                waiting.set_exception(Unavailable(f"the agent of {host} went away"))

    async def _answer(self, host: str, message: agent_pb2.MasterMessage, waiting: asyncio.Future[Any]) -> Any:
        if not self._post(host, message):
            raise Unavailable(f"it runs on {host}, whose agent is not connected")
        try:
            async with asyncio.timeout(ANSWER_S):
                return await waiting
        except TimeoutError:
            raise Unavailable(f"the agent of {host} did not answer in time") from None
