"""How a call asks the engine: it puts a command into the inbox and awaits the answer, whole or in parts.

Lives in the gRPC loop; the engine's thread hands over what it has to say. It decides nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple

from gsched.base.errors import GschedError
from gsched.core.command import Command
from gsched.master.engine_thread import EngineLoop, InboxItem, Reply
from gsched.model.views.archive_question import ArchivedJobs, RemovedArchived

PART_JOBS = 1_000
"""Answers that go together."""
PART_S = 1.0
"""How long answers, or the sign that the command is under way, may wait for more: seconds."""

AnswerPart = tuple[int, Any]
"""(place among all of them, answer for a job)."""


async def ask(loop: EngineLoop, command: Command, blobs: Mapping[str, bytes] | None = None) -> Any:
    """Put a command into the engine's inbox and await its answer. Raises GschedError when it is refused."""
    return await _answered(lambda reply: loop.put(InboxItem(command, reply, blobs or {})))


async def remove_archived(loop: EngineLoop, wanted: ArchivedJobs, by: str) -> RemovedArchived:
    """Have jobs that an archive has taken out of the store, by that administrator. Raises GschedError; some may be gone
    then.
    """
    removed: RemovedArchived = await _answered(lambda reply: loop.remove_archived(wanted, by, reply))
    return removed


async def _answered(put: Callable[[Reply], None]) -> Any:
    running = asyncio.get_running_loop()
    future: asyncio.Future[Any] = running.create_future()

    def settle(answer: Any, error: GschedError | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(answer)

    def reply(answer: Any, error: GschedError | None) -> None:
        running.call_soon_threadsafe(settle, answer, error)

    put(reply)
    return await future


class EngineAnswer(NamedTuple):
    """What the engine has to say of a command: some answers, or none yet, or `answer`, which is all of it."""

    parts: list[AnswerPart]
    answer: Any = None


async def ask_in_parts(
    loop: EngineLoop, command: Command, blobs: Mapping[str, bytes] | None = None
) -> AsyncIterator[EngineAnswer]:
    """The same for a command over many jobs: what is done is told in parts, and an empty part each second that the
    engine goes on and has nothing to tell; the whole comes last. Whoever stops listening does not stop the command.
    """
    running = asyncio.get_running_loop()
    waiting = _Waiting()

    def progress(parts: list[AnswerPart]) -> None:
        running.call_soon_threadsafe(waiting.add, parts)

    def reply(answer: Any, error: GschedError | None) -> None:
        running.call_soon_threadsafe(waiting.end, answer, error)

    loop.put(InboxItem(command, reply, blobs or {}, progress))
    told_at = running.time()
    while not waiting.is_over:
        await waiting.news.wait()
        waiting.news.clear()
        if running.time() - told_at >= PART_S or len(waiting.parts) >= PART_JOBS:
            yield EngineAnswer(waiting.take())
            told_at = running.time()
    if waiting.parts:
        yield EngineAnswer(waiting.take())
    if waiting.error is not None:
        raise waiting.error
    yield EngineAnswer([], waiting.answer)


class _Waiting:
    """What the engine has said and is not told yet."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.parts: list[AnswerPart] = []
        self.answer: Any = None
        self.error: GschedError | None = None
        self.is_over = False

    def take(self) -> list[AnswerPart]:
        """What has come since it was asked last."""
        parts, self.parts = self.parts, []
        return parts

    def add(self, parts: list[AnswerPart]) -> None:
        self.parts += parts
        self.news.set()

    def end(self, answer: Any, error: GschedError | None) -> None:
        self.answer, self.error, self.is_over = answer, error, True
        self.news.set()
