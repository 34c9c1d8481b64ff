"""What is carried out beside the stream, so that no order waits for one that takes long.

Orders about the same attempt keep their order. Answers belong to the session in which they were asked for; orders to
none, and nothing here ends one. What fails is logged and holds up nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

from gsched.model.ledgers.host_ledger import AttemptKey

log = logging.getLogger(__name__)


class BackgroundTasks:
    """The asyncio tasks that an agent has started and not awaited."""

    def __init__(self) -> None:
        self._background: set[asyncio.Task[None]] = set()
        self._answers: set[asyncio.Task[None]] = set()
        self._last_order: dict[AttemptKey, asyncio.Task[None]] = {}

    @property
    def answers(self) -> Iterable[asyncio.Task[None]]:
        """Tasks that answer the master in this session: nobody waits for their answers after it."""
        return self._answers

    def answer(self, work: Coroutine[Any, Any, None]) -> None:
        """Carry out what the master waits for, in no order."""
        answering = asyncio.create_task(work)
        self._answers.add(answering)
        answering.add_done_callback(self._answers.discard)
        answering.add_done_callback(_note_failure)

    def beside(self, work: Coroutine[Any, Any, None], key: AttemptKey | None = None) -> None:
        """Carry something out beside the stream. Orders about the same attempt keep their order."""
        before = self._last_order.get(key) if key is not None else None
        task = asyncio.create_task(_after(before, work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(_note_failure)
        if key is not None:
            self._last_order[key] = task
            task.add_done_callback(lambda done: self._drop_order(key, done))

    def _drop_order(self, key: AttemptKey, task: asyncio.Task[None]) -> None:
        if self._last_order.get(key) is task:
            del self._last_order[key]


async def _after(before: asyncio.Task[None] | None, work: Coroutine[Any, Any, None]) -> None:
    if before is not None:
        await asyncio.wait([before])
    await work


def _note_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("an order failed", exc_info=task.exception())
