"""A connection to a service as asyncio has it: read, write, close; no faster either way than the other end takes it.

The client of the master is synchronous: one thread per connection iterates its answers, one of gRPC sends.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from gsched.base.errors import GschedError
from gsched.wire.calls.service_calls import ServiceConnection

PIECE = 64 * 1024
UNTAKEN = 8
"""Pieces, each way, that wait at most."""


class ServiceStream:
    """One connection. To be made and used in one event loop."""

    def __init__(self, connection: ServiceConnection, on_closed: Callable[[ServiceStream], object]) -> None:
        self._connection = connection
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[bytes | GschedError] = asyncio.Queue(UNTAKEN)
        self._room = asyncio.Semaphore(UNTAKEN)
        self._rest = b""
        self._is_over = False

    async def begin(self) -> None:
        """Returns when it is there. Raises GschedError."""
        threading.Thread(target=self._receive, name="gsched-service", daemon=True).start()
        try:
            first = await self._pieces.get()
        except BaseException:
            self.close()
            raise
        if isinstance(first, GschedError):
            self.close()
            raise first

    async def read(self, most: int = PIECE) -> bytes:
        """Up to so many bytes; none at the end."""
        if not self._rest and not self._is_over:
            piece = await self._pieces.get()
            self._is_over = not piece or isinstance(piece, GschedError)
            self._rest = b"" if isinstance(piece, GschedError) else piece
        found, self._rest = self._rest[:most], self._rest[most:]
        return found

    async def write(self, data: bytes, *, unasked: bool = False) -> None:
        """Returns when it may be sent. `unasked`: it keeps the connection open, nobody has asked for anything."""
        for start in range(0, len(data), PIECE):
            await self._room.acquire()
            self._connection.send(data[start : start + PIECE], self._taken, unasked=unasked)

    @property
    def has_something(self) -> bool:
        """Whether there is something to be read, or it has ended."""
        return bool(self._rest) or self._is_over or not self._pieces.empty()

    def close(self) -> None:
        """End it."""
        self._is_over = True
        self._on_closed(self)
        self._connection.close()
        while not self._pieces.empty():  # the thread that waits for room ends
            self._pieces.get_nowait()

    def _taken(self) -> None:
        self._call_soon(self._room.release)

    def _receive(self) -> None:
        try:
            for piece in self._connection:
                if not self._put(piece):
                    self._connection.close()
                    return
            self._put(b"")
        except GschedError as error:
            self._put(error)

    def _put(self, piece: bytes | GschedError) -> bool:
        """Waits for room. False when nobody wants it any more."""
        if self._loop.is_closed():
            return False
        try:
            asyncio.run_coroutine_threadsafe(self._pieces.put(piece), self._loop).result()
        except (RuntimeError, asyncio.CancelledError, TimeoutError):  # the loop has ended
            return False
        return True

    def _call_soon(self, call: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call)  # type: ignore[arg-type]
        except RuntimeError:  # the loop has ended
            pass
