"""An agent that has nothing to say shows that it lives; one that speaks anyway need not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gsched.agent import outbox as module
from gsched.agent.outbox import Outbox
from gsched.wire.v1 import agent_pb2, model_pb2


def test_a_heartbeat_is_sent_after_a_silence_only(monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = Outbox(7.0)
    stream = outbox.open(agent_pb2.Hello(host="h1"))

    def speak() -> None:
        outbox.send(agent_pb2.AgentMessage(load=model_pb2.LoadReport(ncpus=4)))

    turns: list[Callable[[], None]] = [speak, lambda: None, speak, lambda: None, lambda: None]

    async def sleep(seconds: float) -> None:
        assert seconds == 7.0
        if not turns:
            raise asyncio.CancelledError
        turns.pop(0)()

    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(outbox.beat())
    kinds = [stream.get_nowait().WhichOneof("kind") for _ in range(stream.qsize())]
    assert kinds == ["hello", "load", "heartbeat", "load", "heartbeat", "heartbeat"]


def test_what_is_said_between_two_sessions_is_not_kept() -> None:
    async def story() -> None:
        outbox = Outbox(7.0)
        outbox.open(agent_pb2.Hello(host="h1"))
        outbox.close()
        outbox.send(agent_pb2.AgentMessage(load=model_pb2.LoadReport(ncpus=4)))
        assert not await outbox.deliver(agent_pb2.AgentMessage(output=agent_pb2.OutputReply()))
        stream = outbox.open(agent_pb2.Hello(host="h1"))
        assert [stream.get_nowait().WhichOneof("kind")] == ["hello"] and stream.empty()

    asyncio.run(story())
