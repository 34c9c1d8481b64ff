"""What orders to agents hold beside what the master knows: scripts, environments, inputs, targets of notices.

They are read from the store beside the gRPC loop, a few at a time; those used last stay in memory. It must never make
the loop wait for a disk or a server, and never take a store that does not answer for one that has lost something.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from gsched.base.errors import GschedError, Internal, NotFound

READS = 4
"""At a time. Where the store hangs so many threads do, and no more are made."""
KEPT = 256
KEPT_BYTES = 1 << 20
"""Of one that is kept: a larger one is read for each order."""
RETRY_S = 0.5
"""As often a commit is tried that the store does not take."""

log = logging.getLogger(__name__)


async def _pause() -> None:
    await asyncio.sleep(RETRY_S)  # that a store can be read again is no event that could be awaited


class OrderContents:
    """Name of a blob -> its content. `read` is EventLog.get_blob, and is called in threads; `pause` passes between two
    tries.
    """

    def __init__(self, read: Callable[[str], bytes], pause: Callable[[], Awaitable[None]] = _pause) -> None:
        self._read = read
        self._pause = pause
        self._threads = ThreadPoolExecutor(READS, thread_name_prefix="contents of orders")
        self._kept: dict[str, bytes] = {}
        self._under_way: dict[str, asyncio.Task[bytes]] = {}
        self._is_away = False
        """The store has not answered the last time."""

    def at_hand(self, names: Sequence[str]) -> Mapping[str, bytes] | None:
        """All of them; None when one must be read first."""
        found = {name: self._kept[name] for name in names if name in self._kept}
        return found if all(name in found for name in names) else None

    async def get(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """All of them, as soon as the store answers. Raises NotFound, Internal (damaged), or what a fault raises."""
        found: dict[str, bytes] = {}
        for name in names:
            found[name] = self._kept[name] if name in self._kept else await self._shared(name)
        return found

    def close(self) -> None:
        """Begin nothing more. What is under way is not waited for."""
        for task in self._under_way.values():
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _shared(self, name: str) -> bytes:
        """Whoever wants the same one waits for the same reading."""
        task = self._under_way.get(name)
        if task is None:
            task = self._under_way[name] = asyncio.create_task(self._until_answered(name))
            task.add_done_callback(lambda _: self._under_way.pop(name, None))
        return await asyncio.shield(task)

    async def _until_answered(self, name: str) -> bytes:
        while True:
            try:
                data = await asyncio.get_running_loop().run_in_executor(self._threads, self._read, name)
            except (NotFound, Internal):
                raise
            except GschedError as error:
                if not self._is_away:
                    log.warning("orders to agents wait for the store: %s", error.text)
                self._is_away = True
                await self._pause()
                continue
            if self._is_away:
                log.warning("the store can be read again")
            self._is_away = False
            self._keep(name, data)
            return data

    def _keep(self, name: str, data: bytes) -> None:
        if len(data) > KEPT_BYTES:
            return
        if len(self._kept) >= KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[name] = data
