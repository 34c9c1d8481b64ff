"""What jobs have printed, told piece by piece to who looks at it; with a time to wait for more.

A file says nothing when it grows, wherever it lies, so it is looked at while somebody waits for it: here, where it
lies, and never over the network. Only what was asked for is read, so a reader that is slow keeps nothing in memory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from gsched.agent.output.removed_outputs import OutputRemoved
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.wire.v1 import agent_pb2

LOOK_EVERY_S = 0.2
PIECE = 32 * 1024
"""Bytes in a message: over a slow link several readers' pieces must not keep the host's signs of life waiting."""
STREAMS = ("stdout", "stderr")


class AttemptEndWaiters:
    """Wakes who waits for attempts to be over."""

    def __init__(self) -> None:
        self._waiting: dict[AttemptKey, set[asyncio.Event]] = {}

    def tell(self, key: AttemptKey) -> None:
        """The attempt is over."""
        for event in self._waiting.get(key, ()):
            event.set()

    async def wait(self, key: AttemptKey, seconds: float) -> None:
        """So long, or until it is over."""
        event = asyncio.Event()
        waiting = self._waiting.setdefault(key, set())
        waiting.add(event)
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            waiting.discard(event)
            if not waiting:
                self._waiting.pop(key, None)


Read = Callable[[AttemptKey, str, int, int], Awaitable[bytes]]
"""Bytes of an attempt's stream, from an offset on, so many at most. Raises TimeoutError when that takes too long,
OutputRemoved where it has gone meanwhile."""


async def answer(
    request: agent_pb2.ReadOutput,
    *,
    read: Read,
    is_over: Callable[[AttemptKey], bool],
    endings: AttemptEndWaiters,
    send: Callable[[agent_pb2.OutputReply], Awaitable[bool]],
) -> None:
    """Send what was printed from the offsets on, `most` bytes of each stream; where there is nothing yet, wait `wait_s`
    seconds for it. The last reply says so, and whether there will never be more. `send` tells whether anybody listens.
    """
    key = (request.job_id, request.attempt)
    until = time.monotonic() + request.wait_s
    while True:
        # Asked before reading: what is printed before the end is then read after it.
        over = is_over(key)
        has_some = False
        try:
            async for stream, data in _pieces(request, key, read):
                has_some = True
                if not await send(agent_pb2.OutputReply(request=request.request, stream=stream, data=data)):
                    return
        except OutputRemoved as error:
            await send(agent_pb2.OutputReply(request=request.request, last=True, error=error.text, gone=True))
            return
        except TimeoutError:
            told = "the file system with the job's output does not answer"
            await send(agent_pb2.OutputReply(request=request.request, last=True, error=told))
            return
        left = until - time.monotonic()
        if has_some or over or left <= 0:
            break
        await endings.wait(key, min(LOOK_EVERY_S, left))
    await send(agent_pb2.OutputReply(request=request.request, last=True, over=over))


async def _pieces(request: agent_pb2.ReadOutput, key: AttemptKey, read: Read) -> AsyncIterator[tuple[str, bytes]]:
    for stream, start in zip(STREAMS, (request.stdout_from, request.stderr_from), strict=True):
        offset = max(0, start)
        end = offset + request.most
        while offset < end and (data := await read(key, stream, offset, min(PIECE, end - offset))):
            offset += len(data)
            yield stream, data
