"""Whether the loop of the RPC services goes round, for a thread that must not wait for it.

A loop that hangs answers nobody, while the connections below it look alive: gRPC answers pings by itself. It says
nothing about the engine, and ends nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time


class LoopPulse:
    """Of a running loop. For one thread that is not the loop's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asked_at: float | None = None
        """When the loop was asked what it has not answered yet, by the monotonic clock."""

    def is_beating(self, within_s: float) -> bool:
        """Whether the loop has answered within so many seconds what earlier calls have asked. Asks again. Never blocks;
        to be called more often than that.
        """
        asked_at = self._asked_at
        if asked_at is not None:
            return time.monotonic() - asked_at < within_s
        self._asked_at = time.monotonic()
        with contextlib.suppress(RuntimeError):  # it is closed: it answers no more, and this process is to end
            self._loop.call_soon_threadsafe(self._answer)
        return True

    def _answer(self) -> None:
        self._asked_at = None
