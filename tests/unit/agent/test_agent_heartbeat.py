"""An agent that has nothing to say shows that it lives; one that speaks anyway need not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from gsched.agent import daemon
from gsched.agent.daemon import Agent
from gsched.base.service import NOBODY
from gsched.model.config import ClusterConfig, Locations, Params
from gsched.wire.v1 import agent_pb2, model_pb2

HERE = Locations(conf_dir="/c", state_dir="/s", log_dir="/l", server_dir="/e", run_dir="/r", spool_dir="/p")
CONFIG = ClusterConfig(cluster="c1", master_host="h1", hosts={}, queues={}, params=Params(), locations=HERE)


def test_a_heartbeat_is_sent_after_a_silence_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(CONFIG, "h1", tmp_path, "no fence", NOBODY)
    agent._outgoing = asyncio.Queue()

    def speak() -> None:
        agent._send(agent_pb2.AgentMessage(load=model_pb2.LoadReport(ncpus=4)))

    turns: list[Callable[[], None]] = [speak, lambda: None, speak, lambda: None, lambda: None]

    async def sleep(seconds: float) -> None:
        assert seconds == CONFIG.timing.exchange_s
        if not turns:
            raise asyncio.CancelledError
        turns.pop(0)()

    monkeypatch.setattr(daemon.asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(agent._beat())
    kinds = [agent._outgoing.get_nowait().WhichOneof("kind") for _ in range(agent._outgoing.qsize())]
    assert kinds == ["load", "heartbeat", "load", "heartbeat", "heartbeat"]
