"""One connection of somebody who uses a job's service: bytes between the job's socket and a call to the master.

Neither side is read faster than the other takes it. It ends when either does, and knows nothing of what it carries.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from gsched.wire.v1 import agent_pb2, agent_pb2_grpc

PIECE = 64 * 1024
"""Bytes of one message: other connections and signs of life go in between."""
END_S = 10.0
"""How long the master may take to take what the job said last."""
_GONE = (OSError, grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError)


class ServiceLink:
    """One call to the master, for one connection."""

    def __init__(self, stub: agent_pb2_grpc.AgentServiceAsyncStub) -> None:
        self._call: Any = stub.Serve()

    async def refuse(self, ticket: str, why: str) -> None:
        """There is no connection."""
        with contextlib.suppress(*_GONE):
            await self._call.write(agent_pb2.ServicePiece(ticket=ticket, error=why))
            await self._call.done_writing()
            await self._call.read()
        self._call.cancel()

    async def carry(
        self, ticket: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, use: Callable[[], None]
    ) -> None:
        """Carry bytes until either side ends. `use` is called whenever somebody asks for something."""
        ways: list[asyncio.Task[None]] = []
        try:
            with contextlib.suppress(*_GONE):
                await self._call.write(agent_pb2.ServicePiece(ticket=ticket))
                ways = [asyncio.create_task(self._up(reader)), asyncio.create_task(self._down(writer, use))]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                if ways[0].done():  # the job has closed it: what it said last is still on its way
                    await asyncio.wait(ways[1:], timeout=END_S)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._call.cancel()
            writer.transport.abort()

    async def _up(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(*_GONE):
            while data := await reader.read(PIECE):
                await self._call.write(agent_pb2.ServicePiece(data=data))
            await self._call.done_writing()

    async def _down(self, writer: asyncio.StreamWriter, use: Callable[[], None]) -> None:
        with contextlib.suppress(*_GONE):
            while isinstance(piece := await self._call.read(), agent_pb2.ServicePiece):
                if not piece.unasked:
                    use()
                writer.write(piece.data)
                await writer.drain()
