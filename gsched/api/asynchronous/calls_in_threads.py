"""Calls of a Cluster that coroutines wait for, in threads. A coroutine that is cancelled breaks its call off.

It knows no call: a function of the Cluster goes in. It must never leave a thread behind that still waits for a master.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

from gsched.api.cluster import Cluster
from gsched.base.errors import Unavailable
from gsched.wire.breakable_channel import BreakableChannel

MOST_CALLS = 16
"""That are under way at once; more wait for one of them."""
MOST_AHEAD = 1_000
"""Items of a stream that have come and that its coroutine has not taken; the stream waits then."""
_Answer = TypeVar("_Answer")


class GivenUp(Unavailable):
    """Nobody waits any more for what a thread has asked for."""

    def __init__(self) -> None:
        super().__init__("this call was given up, or its AsyncCluster was closed")


class _UnderWay:
    """One call, or one stream, with a view of the Cluster of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cancelled = threading.Event()
        self._channel = BreakableChannel(cluster.channel(), self._cancelled, GivenUp)
        self.cluster = cluster.by(self._channel)

    @property
    def is_broken_off(self) -> bool:
        return self._cancelled.is_set()

    def break_off(self) -> None:
        """Its thread goes on at once, and asks for nothing any more."""
        self._cancelled.set()
        self._channel.break_off()


class CallsInThreads:
    """See the module. Of one event loop at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pool = ThreadPoolExecutor(MOST_CALLS, "gsched-async")
        self._under_way: set[_UnderWay] = set()

    def close(self) -> None:
        """Break off all that is under way."""
        for each in list(self._under_way):
            each.break_off()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def call(self, work: Callable[[Cluster], _Answer]) -> _Answer:
        """What the function returns, in a thread. Raises what it raises."""
        under_way = self._begin()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, under_way.cluster)
        except asyncio.CancelledError:
            under_way.break_off()
            raise
        finally:
            self._under_way.discard(under_way)

    async def stream(self, work: Callable[[Cluster], Iterator[_Answer]]) -> AsyncGenerator[_Answer, None]:
        """What the iterator that the function returns yields. Who breaks its `async for` off ends it."""
        under_way = self._begin()
        flow = _Flow[_Answer](under_way)
        flow.start(work)
        try:
            while (taken := await flow.take()) is not None:
                yield taken[0]
        finally:
            flow.end()
            self._under_way.discard(under_way)

    def _begin(self) -> _UnderWay:
        under_way = _UnderWay(self._cluster)
        self._under_way.add(under_way)
        return under_way


class _Flow(Generic[_Answer]):
    """Items on their way from a thread, which makes them, to the coroutine that takes them."""

    def __init__(self, under_way: _UnderWay) -> None:
        self._under_way = under_way
        self._loop = asyncio.get_running_loop()
        self._made: asyncio.Queue[tuple[_Answer] | BaseException | None] = asyncio.Queue()
        self._room = threading.Semaphore(MOST_AHEAD)

    def start(self, work: Callable[[Cluster], Iterator[_Answer]]) -> None:
        """Have the items made."""
        # Not one of the pool: streams may last for ever, and be many.
        threading.Thread(target=self._make, args=(work,), name="gsched-async-stream", daemon=True).start()

    async def take(self) -> tuple[_Answer] | None:
        """The next item; None at the end. Raises what the iterator raises."""
        made = await self._made.get()
        if isinstance(made, BaseException):
            raise made
        self._room.release()
        return made

    def end(self) -> None:
        """Nobody takes any more: the thread ends."""
        self._under_way.break_off()
        self._room.release()

    def _make(self, work: Callable[[Cluster], Iterator[_Answer]]) -> None:
        last: BaseException | None = None
        try:
            for item in work(self._under_way.cluster):
                self._room.acquire()
                if self._under_way.is_broken_off:
                    break
                self._put((item,))
        except BaseException as error:  # whatever it is, who waits must hear of it
            last = error
        with suppress(RuntimeError):  # the loop is closed
            self._put(last)

    def _put(self, made: tuple[_Answer] | BaseException | None) -> None:
        self._loop.call_soon_threadsafe(self._made.put_nowait, made)
