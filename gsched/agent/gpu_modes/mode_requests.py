"""What attempts ask for at their beginnings and ends, served together: who asks meanwhile is served afterwards.

To look at the GPUs, to set modes and to note it on disk takes as long for one attempt as for all. Nothing is decided
here, and no request is served twice or beside another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gsched.base.ids import attempt_name
from gsched.model.ledgers.allocation import HeldGpu
from gsched.model.ledgers.devices import MODE_BY_OPTION
from gsched.model.ledgers.host_ledger import AttemptKey

log = logging.getLogger(__name__)


def _new_future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@dataclass(eq=False)
class ModeRequest:
    """An attempt that gets its GPUs, or has ended (`is_end`). `done` is cancelled where it does not wait any more."""

    key: AttemptKey
    gpus: Sequence[HeldGpu]
    is_end: bool = False
    done: asyncio.Future[None] = field(default_factory=_new_future)

    @property
    def name(self) -> str:
        return attempt_name(*self.key)

    @property
    def wanted(self) -> list[HeldGpu]:
        """GPUs that must be in a mode of the attempt's choice."""
        return [held for held in self.gpus if held.claim in MODE_BY_OPTION]

    @property
    def is_open(self) -> bool:
        """Whether it waits for an answer."""
        return not self.done.done()

    def fail(self, error: Exception) -> None:
        """Raised at whoever waits."""
        if self.is_open:
            self.done.set_exception(error)

    def succeed(self) -> None:
        """Whoever waits goes on."""
        if self.is_open:
            self.done.set_result(None)


class ModeRequests:
    """A queue. `serve(requests)` answers all of them; with none it does what is due without anybody's asking."""

    def __init__(self, serve: Callable[[Sequence[ModeRequest]], Awaitable[None]]) -> None:
        self._serve = serve
        self._waiting: list[ModeRequest] = []
        self._is_due = False
        self._serving: asyncio.Task[None] | None = None
        self.lock = asyncio.Lock()
        """Held while requests are served."""

    @property
    def is_busy(self) -> bool:
        return self._serving is not None

    def ask(self, *requests: ModeRequest) -> None:
        """Never blocks. Without requests: what is due is to be done."""
        self._waiting.extend(requests)
        self._is_due = True
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve_all())

    async def settled(self) -> None:
        """Until nothing is left to be done."""
        while self._serving is not None:
            await asyncio.wait([self._serving])

    def close(self) -> None:
        """Serve nobody any more."""
        if self._serving is not None:
            self._serving.cancel()

    async def _serve_all(self) -> None:
        try:
            while self._is_due:
                async with self.lock:
                    requests = [each for each in self._waiting if each.is_open]
                    self._waiting, self._is_due = [], False
                    await self._serve_safely(requests)
        finally:
            self._serving = None

    async def _serve_safely(self, requests: Sequence[ModeRequest]) -> None:
        try:
            await self._serve(requests)
        except Exception as error:
            log.exception("compute modes are not seen to")
            fail_all(requests, error)


def fail_all(requests: Iterable[ModeRequest], error: Exception) -> None:
    """None of them that still waits can be served."""
    for each in requests:
        each.fail(error)
