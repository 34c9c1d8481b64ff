"""The end of a connection: all that was said is taken, or nobody takes it and it ends all the same."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

from gsched.wire.stream_end import end_stream

MUCH = b"x" * (4 << 20)
"""More than the buffers of a socket hold."""


def ended(most_s: float, other: Callable[[socket.socket], Awaitable[None]]) -> asyncio.StreamWriter:
    """A connection to which MUCH was written, once it has ended; `other` is the other side meanwhile."""

    async def connection() -> asyncio.StreamWriter:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        _, writer = await asyncio.open_unix_connection(sock=ours)
        writer.write(MUCH)
        assert writer.transport.get_write_buffer_size()  # type: ignore[attr-defined]
        async with asyncio.timeout(60):
            await asyncio.gather(end_stream(writer, most_s), other(theirs))
        theirs.close()
        return writer

    return asyncio.run(connection())


async def read_to_the_end(theirs: socket.socket) -> int:
    loop, count = asyncio.get_running_loop(), 0
    while data := await loop.sock_recv(theirs, 1 << 16):
        count += len(data)
    return count


def test_who_reads_late_gets_all_of_it() -> None:
    counts = []

    async def late(theirs: socket.socket) -> None:
        await asyncio.sleep(0)
        counts.append(await read_to_the_end(theirs))

    ended(60.0, late)
    assert counts == [len(MUCH)]


def test_who_reads_nothing_is_waited_for_so_long_and_no_longer() -> None:
    async def silent(theirs: socket.socket) -> None:
        pass

    assert not ended(0.01, silent).transport.get_write_buffer_size()  # type: ignore[attr-defined]


def test_who_has_gone_away_is_no_error() -> None:
    async def gone(theirs: socket.socket) -> None:
        theirs.close()

    ended(60.0, gone)
