"""The AgentService: one stream each way per agent. What agents say becomes commands; instructions go back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import grpc

from gsched import __version__
from gsched.base.errors import GschedError
from gsched.core.command import AttemptEnded, AttemptStarted, HeldAttempt, HostDisconnected, HostHello, HostReported
from gsched.master.loop import EngineLoop, Item
from gsched.master.servicer import ask
from gsched.master.sessions import Sessions
from gsched.model.allocation import HostAllocation
from gsched.model.host import GpuReport, LoadReport
from gsched.model.job import AttemptResult, Usage
from gsched.wire.convert import from_proto
from gsched.wire.v1 import agent_pb2, agent_pb2_grpc

log = logging.getLogger(__name__)
PROTOCOL = 1
"""Version of the contract with agents; both sides must have the same."""


class AgentServicer(agent_pb2_grpc.AgentServiceServicer):
    """Runs in the gRPC loop."""

    def __init__(self, loop: EngineLoop, sessions: Sessions) -> None:
        self._loop = loop
        self._sessions = sessions

    async def Session(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        first = await context.read()
        if first is grpc.aio.EOF:
            return
        refusal = self._refuse(first)
        if refusal:
            log.warning("%s", refusal)
            await context.write(agent_pb2.MasterMessage(refusal=agent_pb2.Refusal(text=refusal)))
            return
        host = first.hello.host
        session, outgoing = self._sessions.open(host)
        writer = asyncio.create_task(self._write(context, outgoing))
        try:
            await ask(self._loop, _hello(first.hello, session))
            log.info("agent of %s said hello (session %d)", host, session)
            while (message := await context.read()) is not grpc.aio.EOF:
                self._take(host, session, message)
        except GschedError as error:
            log.warning("agent of %s is refused: %s", host, error.text)
            await context.write(agent_pb2.MasterMessage(refusal=agent_pb2.Refusal(text=error.text)))
        finally:
            writer.cancel()
            self._sessions.close(host, session)
            self._loop.put(Item(HostDisconnected(host, session)))
            log.info("agent of %s is gone (session %d)", host, session)

    def _refuse(self, first: agent_pb2.AgentMessage) -> str:
        if first.WhichOneof("kind") != "hello":
            return "an agent speaks first with a hello"
        if first.hello.protocol != PROTOCOL:
            return (
                f"the agent of {first.hello.host} speaks protocol {first.hello.protocol} "
                f"(gsched {first.hello.version}), "
                f"the master protocol {PROTOCOL} (gsched {__version__}): install the same version on both"
            )
        return ""

    async def _write(self, context: Any, outgoing: asyncio.Queue[agent_pb2.MasterMessage]) -> None:
        with contextlib.suppress(asyncio.CancelledError, grpc.aio.UsageError, asyncio.InvalidStateError):
            while True:
                await context.write(await outgoing.get())

    def _take(self, host: str, session: int, message: agent_pb2.AgentMessage) -> None:
        """One message of an agent. What cannot be understood is logged and dropped; the stream goes on."""
        try:
            kind = message.WhichOneof("kind")
            if kind == "output":
                self._sessions.answered(message.output)
                return
            command = _command(host, session, kind or "", message)
        except (GschedError, ValueError) as error:
            log.warning("a %s message of %s is dropped: %s", message.WhichOneof("kind"), host, error)
            return
        if command is not None:
            self._loop.put(Item(command))


def _command(host: str, session: int, kind: str, message: agent_pb2.AgentMessage) -> Any:
    match kind:
        case "started":
            return _started(host, message.started)
        case "ended":
            return _ended(host, message.ended)
        case "load":
            return HostReported(host, session, load=from_proto(message.load, LoadReport))
        case "gpus":
            return HostReported(host, session, gpus=from_proto(message.gpus, GpuReport))
        case "usage":
            usage = {(item.job_id, item.attempt): from_proto(item.usage, Usage) for item in message.usage.attempts}
            return HostReported(host, session, usage=usage)
        case "heartbeat":
            return HostReported(host, session)
    raise ValueError(f"unexpected kind '{kind}'")


def _started(host: str, message: agent_pb2.Started) -> AttemptStarted:
    return AttemptStarted(
        message.job_id, message.attempt, host, message.pid, message.at, message.home, message.cwd, message.boot_id
    )


def _ended(host: str, message: agent_pb2.Ended) -> AttemptEnded:
    return AttemptEnded(message.job_id, message.attempt, host, from_proto(message.result, AttemptResult))


def _hello(message: agent_pb2.Hello, session: int) -> HostHello:
    host = message.host
    return HostHello(
        host=host,
        session=session,
        boot_id=message.boot_id,
        version=message.version,
        held=tuple(
            HeldAttempt(item.job_id, item.attempt, from_proto(item.part, HostAllocation)) for item in message.held
        ),
        started=tuple(_started(host, item) for item in message.started),
        ended=tuple(_ended(host, item) for item in message.ended),
    )
