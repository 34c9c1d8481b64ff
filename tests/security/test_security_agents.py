"""An agent that is not one: somebody with a host's key says what he likes on a real stream to the master."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from gsched.base.errors import Unavailable
from gsched.core.command import HostHello
from gsched.master.agents.agent_service import MOST_UNTAKEN, AgentServicer
from gsched.master.agents.agent_sessions import AgentSessions
from gsched.master.engine_thread import InboxItem
from gsched.master.views.board import Board
from gsched.model.config import ClusterConfig, Locations
from gsched.model.hosts.host import HostConfig
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.views.view import JobView
from gsched.wire.identity.caller_identity import ProvenCaller
from gsched.wire.messages.protocol import PROTOCOL
from gsched.wire.server import SERVER_OPTIONS, listen
from gsched.wire.v1 import agent_pb2, agent_pb2_grpc, model_pb2

PLACES = Locations(conf_dir="/c", state_dir="/s", log_dir="/l", server_dir="/e", run_dir="/r", spool_dir="/p")
Message = agent_pb2.AgentMessage


class Inbox:
    """What reaches the engine. It answers a hello at once; all else it is too busy for until `go`."""

    def __init__(self) -> None:
        self.items: list[InboxItem] = []
        self.is_busy = False

    def put(self, item: InboxItem) -> None:
        self.items.append(item)
        if item.reply is not None and (isinstance(item.command, HostHello) or not self.is_busy):
            item.reply(None, None)

    def go(self) -> None:
        self.is_busy = False
        for item in self.items:
            if item.reply is not None and not isinstance(item.command, HostHello):
                item.reply(None, None)


class ByName:
    """Whose key it is: the test says so in the call."""

    def caller(self, context: Any) -> ProvenCaller:
        return ProvenCaller("", False, dict(context.invocation_metadata())["host"], "agent")

    async def again(self, context: Any) -> None:
        """The keys of these tests stay good."""


class Liar:
    """An end of the agents' stream, in the hands of the test."""

    def __init__(self, channel: grpc.aio.Channel, host: str) -> None:
        self._call = agent_pb2_grpc.AgentServiceStub(channel).Session(metadata=(("host", host),))

    async def say(self, *messages: Message) -> None:
        await self._call.write(agent_pb2.AgentBatch(messages=messages))

    async def hello(self, host: str, **more: Any) -> None:
        fields = {"host": host, "protocol": PROTOCOL, "boot_id": "b", "journal": f"journal of {host}"} | more
        await self.say(Message(hello=agent_pb2.Hello(**fields)))

    async def hears(self) -> AsyncIterator[Any]:
        while (batch := await self._call.read()) is not grpc.aio.EOF:
            for message in batch.messages:
                yield message

    async def refusal(self) -> str:
        async for message in self.hears():
            if message.WhichOneof("kind") == "refusal":
                return str(message.refusal.text)
        return ""

    async def question(self) -> int:
        async for message in self.hears():
            if message.WhichOneof("kind") == "read_output":
                return int(message.read_output.request)
        raise AssertionError("no question came")


class Setting:
    def __init__(self) -> None:
        hosts = {name: HostConfig(name=name) for name in "ab"}
        config = ClusterConfig(cluster="c", master_host="a", hosts=hosts, locations=PLACES)
        self.inbox = Inbox()
        self.sessions = AgentSessions(Board(config))
        self.servicer = AgentServicer(self.inbox, self.sessions, ByName())  # type: ignore[arg-type]
        self.channel: grpc.aio.Channel

    async def connected(self, host: str) -> Liar:
        liar = Liar(self.channel, host)
        before = self.sessions.connected
        await liar.hello(host)
        await until(lambda: self.sessions.connected > before)
        return liar

    async def output(self) -> bytes:
        """The output of a job that runs on host a."""
        allocation = Allocation(hosts=(HostAllocation(host="a", slots=1),))
        spec = JobSpec(command="run", user="ann", queue="normal")
        job = JobView(job_id=7, spec=spec, state="RUN", submitted_at=0.0, attempt=1, allocation=allocation)
        return b"".join([chunk.data async for chunk in self.sessions.output(job)])


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.002)


Played = Callable[[Callable[[Setting], Awaitable[None]]], None]


@pytest.fixture
def played(tmp_path: Path) -> Played:
    def run(story: Callable[[Setting], Awaitable[None]]) -> None:
        async def main() -> None:
            setting = Setting()
            server = grpc.aio.server(options=SERVER_OPTIONS)
            agent_pb2_grpc.add_AgentServiceServicer_to_server(setting.servicer, server)
            address = listen(server, str(tmp_path / "s"))
            await server.start()
            limit = [("grpc.max_send_message_length", 64 << 20)]
            async with grpc.aio.insecure_channel(address, options=limit) as setting.channel:
                await asyncio.wait_for(story(setting), 60)
            await server.stop(0)

        asyncio.run(main())

    return run


def piece(request: int, data: bytes, *, last: bool = False, stream: str = "stdout") -> Message:
    return Message(output=agent_pb2.OutputReply(request=request, stream=stream, data=data, last=last))


def test_an_agent_speaks_for_no_other_host(played: Played) -> None:
    async def story(setting: Setting) -> None:
        liar = Liar(setting.channel, "b")
        await liar.hello("a")
        assert "may not speak for 'a'" in await liar.refusal()
        assert not setting.inbox.items and not setting.sessions.connected

    played(story)


def test_an_agent_answers_no_question_that_another_was_asked(played: Played) -> None:
    async def story(setting: Setting) -> None:
        honest, liar = await setting.connected("a"), await setting.connected("b")
        reading = asyncio.create_task(setting.output())
        number = await honest.question()
        await liar.say(*[piece(guess, b"forged", last=True) for guess in range(number + 50)])
        await liar.say(Message(heartbeat=agent_pb2.Heartbeat()))
        await until(lambda: len(setting.inbox.items) == 3)  # what was said before has been dropped
        await honest.say(piece(number, b"true"), piece(number, b"", last=True))
        assert await asyncio.wait_for(asyncio.shield(honest_next(honest, reading)), 60) == b"true"

    async def honest_next(honest: Liar, reading: asyncio.Task[bytes]) -> bytes:
        number = await honest.question()  # is there more?
        await honest.say(piece(number, b"", last=True))
        return await reading

    played(story)


def test_an_agent_that_never_stops_answering_fills_no_memory(played: Played) -> None:
    async def story(setting: Setting) -> None:
        liar = await setting.connected("a")
        reading = asyncio.create_task(setting.output())
        number = await liar.question()
        for _ in range(20):
            await liar.say(piece(number, b"x" * (1 << 20)))
        with pytest.raises(Unavailable, match="sends more than it was asked for"):
            await reading
        assert not setting.sessions._questions

    played(story)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"held": [agent_pb2.HeldAttempt(job_id=1, attempt=1)] * 1_000_000}, "makes no sense: "),
        ({"held": [agent_pb2.HeldAttempt(job_id=1, attempt=1)] * 30_000}, "attempts are too many"),
        ({"started": [agent_pb2.Started(job_id=1, attempt=1, at=float("nan"))]}, "time of a start nan"),
        ({"boot_id": "x" * 5_000}, "characters of a boot id"),
    ],
)
def test_a_hello_that_makes_no_sense_is_refused_whole(played: Played, fields: dict[str, Any], text: str) -> None:
    async def story(setting: Setting) -> None:
        liar = Liar(setting.channel, "a")
        await liar.hello("a", **fields)
        assert text in await liar.refusal()
        assert not setting.inbox.items

    played(story)


def test_an_agent_says_no_more_than_the_engine_can_take_in(played: Played) -> None:
    async def story(setting: Setting) -> None:
        liar = await setting.connected("a")
        setting.inbox.is_busy = True
        beats = [Message(heartbeat=agent_pb2.Heartbeat())] * 5_000
        for _ in range(4):
            await liar.say(*beats)
        await until(lambda: len(setting.inbox.items) >= MOST_UNTAKEN)
        await asyncio.sleep(0.1)
        assert len(setting.inbox.items) <= MOST_UNTAKEN + 2  # its hello, and what asks the engine how far it is
        setting.inbox.go()
        await until(lambda: len(setting.inbox.items) > 20_000)

    played(story)


def test_a_flood_of_nonsense_is_dropped_and_said_once(played: Played, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def story(setting: Setting) -> None:
        liar = await setting.connected("a")
        report = model_pb2.GpuReport(gpus=[model_pb2.Gpu(uuid="G", index=0)] * 2, known=True)
        for _ in range(10):
            await liar.say(*[Message(gpus=report)] * 100)
        await liar.say(Message(heartbeat=agent_pb2.Heartbeat()))
        await until(lambda: len(setting.inbox.items) >= 2)
        assert len(setting.inbox.items) <= 4

    played(story)
    assert sum("is dropped" in record.getMessage() for record in caplog.records) == 1
