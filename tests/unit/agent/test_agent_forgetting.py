"""What the master has stored is removed by the agent after what begins in its place."""

from __future__ import annotations

import asyncio
from typing import Any

from gsched.agent.background_tasks import BackgroundTasks
from gsched.agent.message_handler import MessageHandler
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.wire.v1 import agent_pb2


class Recorder:
    """Stands in for the attempts of a host, and for what nobody asks here."""

    def __init__(self, count: int) -> None:
        self.done: list[tuple[str, AttemptKey]] = []
        self.count = count
        self.is_over = asyncio.Event()

    async def start(self, order: agent_pb2.StartAttempt) -> None:
        await asyncio.sleep(0)  # as one that looks at its GPUs first
        self._note("start", (order.job_id, order.attempt))

    def forget(self, key: AttemptKey) -> None:
        self._note("forget", key)

    def take(self, store: object) -> None:
        """The memory of the store."""

    def _note(self, what: str, key: AttemptKey) -> None:
        self.done.append((what, key))
        if len(self.done) == self.count:
            self.is_over.set()


def test_a_start_that_comes_with_the_news_that_an_end_is_stored_goes_first() -> None:
    async def scenario() -> None:
        attempts: Any = Recorder(4)
        unused: Any = None
        handler = MessageHandler(
            attempts,
            unused,
            link=unused,
            outbox=unused,
            background=BackgroundTasks(),
            memory=attempts,
            configure=unused,
            end=unused,
            open_gpu=unused,
            notices=unused,
        )
        forget = agent_pb2.MasterMessage()
        for number in (1, 2):
            forget.forget.attempts.add(job_id=number, attempt=1)
        await handler.handle(forget)
        for number in (3, 4):
            start = agent_pb2.MasterMessage()
            start.start.job_id, start.start.attempt = number, 1
            await handler.handle(start)
        await asyncio.wait([asyncio.create_task(attempts.is_over.wait())], timeout=60)
        assert attempts.done == [("start", (3, 1)), ("start", (4, 1)), ("forget", (1, 1)), ("forget", (2, 1))]

    asyncio.run(scenario())
