"""A wait that is cancelled when what it waits for comes is cancelled: else a loop goes on after its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gsched.agent.attempts.attempt_fences import AttemptFences
from gsched.agent.output.output_tail import AttemptEndWaiters
from gsched.master.agents.agent_sessions import AgentSessions
from gsched.wire.v1 import agent_pb2

Wait = tuple[Awaitable[Any], Callable[[], object]]
"""What waits, and what brings that which it waits for."""


def attempts_end() -> Wait:
    endings = AttemptEndWaiters()
    return endings.wait((1, 1), 60), lambda: endings.tell((1, 1))


def gpus_are_seen() -> Wait:
    seen = asyncio.Event()
    fencing = AttemptFences.__new__(AttemptFences)
    fencing._watch = SimpleNamespace(first_gpus=seen.wait)  # type: ignore[assignment]
    return fencing._first_report(), seen.set


def output_comes() -> Wait:
    board: Any = SimpleNamespace()
    sessions = AgentSessions(board)
    speaker: Any = SimpleNamespace()
    sessions.open("h", speaker)
    answers = sessions._ask("h", agent_pb2.MasterMessage(read_output=agent_pb2.ReadOutput()))
    reply = agent_pb2.OutputReply(request=1, last=True)
    return anext(answers), lambda: sessions.answered("h", reply)


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("make", [attempts_end, gpus_are_seen, output_comes])
def test_a_cancelled_wait_ends(make: Callable[[], Wait], turns: int) -> None:
    async def run() -> None:
        waiting, bring = make()
        task = asyncio.ensure_future(waiting)
        for _ in range(5):
            await asyncio.sleep(0)
        bring()
        for _ in range(turns):
            await asyncio.sleep(0)
        is_in_time = task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() is is_in_time

    asyncio.run(run())
