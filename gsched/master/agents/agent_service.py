"""The AgentService: one stream each way per agent. What agents say becomes commands; instructions go back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import grpc
from msgspec.structs import replace

from gsched import __version__
from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import BadRequest, GschedError
from gsched.base.ids import attempt_name
from gsched.core.command import (
    AttemptEnded,
    AttemptMoved,
    AttemptStarted,
    AttemptUnkillable,
    AttemptWarned,
    HeldAttempt,
    HostDisconnected,
    HostHello,
    HostReported,
    NoticeSettled,
    OutputsRemoved,
    ServiceAnswers,
    SignalsSent,
)
from gsched.master.agents.agent_sessions import AgentSessions
from gsched.master.agents.connected_agents import ConnectedAgent, Refusals
from gsched.master.agents.mended_ends import mend_end
from gsched.master.agents.message_checks import check, checked_gpus
from gsched.master.agents.report_gathering import ReportGathering
from gsched.master.engine_thread import EngineLoop, InboxItem
from gsched.master.rpc.engine_calls import ask
from gsched.master.store_lineage import StoreLineage
from gsched.model.gpus.gpu_idle import AttemptIdleness
from gsched.model.gpus.gpu_move import GpuMove
from gsched.model.hosts.host import LoadReport
from gsched.model.hosts.kept_output import RemovedOutput
from gsched.model.hosts.topology import Topology, checked
from gsched.model.jobs.job import AttemptResult, Usage
from gsched.model.jobs.notice import NoticeEnd
from gsched.model.ledgers.allocation import HostAllocation
from gsched.wire.address import address_of
from gsched.wire.identity.caller_identity import Proven, ProvenCaller
from gsched.wire.messages.batch_codec import GpuReports
from gsched.wire.messages.convert import from_proto
from gsched.wire.messages.protocol import PROTOCOL
from gsched.wire.messages.stream_batches import next_batch
from gsched.wire.v1 import agent_pb2, agent_pb2_grpc, model_pb2

log = logging.getLogger(__name__)
SILENT_REPORTS = 3
"""So many reports an agent may leave out before its session is given up."""
MOST_LATE_S = 1.0
MOST_UNTAKEN = 1_000
"""So many messages of one agent at most wait for the engine."""
REFUSAL_TIMEOUT_S = 5.0
TOPOLOGIES_KEPT = 64


class _Heard:
    """When the agent last said something, on the monotonic clock."""

    def __init__(self) -> None:
        self.at = time.monotonic()
        self.untaken = 0
        """Messages since the engine was last known to have taken in all of them."""
        self.is_held_up = False
        """The agent is not listened to for now."""
        self.gpus = GpuReports()


class AgentServicer(agent_pb2_grpc.AgentServiceServicer):
    """The service that agents call. Runs in the gRPC loop."""

    def __init__(self, loop: EngineLoop, sessions: AgentSessions, auth: Proven) -> None:
        self._loop = loop
        self._reports = ReportGathering(self._put)
        self._sessions = sessions
        self._auth = auth
        self._refusals = Refusals()

    async def Session(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        opening = await context.read()
        if opening is grpc.aio.EOF:
            return
        first = opening.messages[0] if opening.messages else agent_pb2.AgentMessage()
        agent = _agent_of(first.hello, context.peer())
        refusal = self._refuse(first, self._auth.caller(context)) or self._rival(first.hello, agent)
        if not refusal and self._sessions.lineage is not None:
            refusal = self._sessions.lineage.contradicts(first.hello.host, first.hello.store)
        if refusal:
            refusal = str(refusal)
            if self._refusals.is_news(context.peer(), refusal, time.monotonic()):
                log.warning("an agent connected from %s is refused: %s", agent.address or "this machine", refusal)
            message = agent_pb2.MasterMessage(refusal=agent_pb2.Refusal(text=refusal))
            await context.write(agent_pb2.MasterBatch(messages=[message]))
            return
        host = first.hello.host
        session, outgoing = self._sessions.open(host, agent)
        self._sessions.roster.came(first.hello, session)
        ways = [asyncio.create_task(self._write(context, outgoing))]
        try:
            await ask(self._loop, _hello(first.hello, session, self._sessions.lineage))
            if self._sessions.lineage is not None:
                self._sessions.lineage.first_number.came(host)
            log.info("agent of %s said hello (session %d)", host, session)
            heard = _Heard()
            await self._take_all(host, session, opening.messages[1:], heard)
            ways.append(asyncio.create_task(self._read(context, host, session, heard)))
            ways.append(asyncio.create_task(self._notice_silence(host, heard)))
            # Whichever way is closed first: half a connection is none, and the agent comes back with a hello.
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except (GschedError, ValueError) as error:
            log.warning("agent of %s is refused: %s", host, error)
            outgoing.put_nowait(agent_pb2.MasterMessage(refusal=agent_pb2.Refusal(text=str(error))))
            outgoing.put_nowait(None)
            await asyncio.wait(ways, timeout=REFUSAL_TIMEOUT_S)
        finally:
            for way in ways:
                way.cancel()
                way.add_done_callback(_note_failure)
            self._sessions.close(host, session)
            self._loop.put(InboxItem(HostDisconnected(host, session)))
            log.info("agent of %s is gone (session %d)", host, session)

    async def Serve(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        """A connection to a service that the agent was told to open."""
        proven = self._auth.caller(context)
        await self._sessions.services.serve(context, proven.host if proven.way == "agent" else "")

    def _refuse(self, first: agent_pb2.AgentMessage, proven: ProvenCaller) -> AnyText:
        if first.WhichOneof("kind") != "hello":
            return "an agent speaks first with a hello"
        if proven.way != "owner" and (proven.way != "agent" or proven.host != first.hello.host):
            return f"the certificate is that of host {proven.host}: it may not speak for {first.hello.host[:64]!r}"
        if first.hello.protocol != PROTOCOL:
            theirs, ours = (first.hello.protocol, first.hello.version), (PROTOCOL, __version__)
            problem = coded("agent.other_protocol", first.hello.host, *theirs, *ours)
            self._sessions.roster.refused(first.hello, problem)
            return problem
        try:
            for ended in first.hello.ended:
                self._mend(first.hello.host, ended)
            check(first.hello.host, first)
        except BadRequest as error:
            return f"the hello of {first.hello.host[:64]!r} makes no sense: {error.text}"
        return ""

    def _rival(self, hello: agent_pb2.Hello, agent: ConnectedAgent) -> AnyText:
        """Why another machine than the host's own is sent away, as people are shown it while it asks; else empty."""
        problem = self._sessions.rival(hello.host, agent)
        if problem:
            place = agent.address or coded("agent.same_machine")
            self._sessions.roster.rivalled(hello, coded("agent.second_from", problem, place))
        return problem

    async def _write(self, context: Any, outgoing: asyncio.Queue[agent_pb2.MasterMessage | None]) -> None:
        """Returns when a None says that the session is over: the host's agent has opened another one."""
        while True:
            batch = await next_batch(outgoing)
            messages = [message for message in batch if message is not None]
            if messages:
                await context.write(agent_pb2.MasterBatch(messages=messages))
            if len(messages) < len(batch):
                return

    async def _read(self, context: Any, host: str, session: int, heard: _Heard) -> None:
        while (batch := await context.read()) is not grpc.aio.EOF:
            heard.at = time.monotonic()
            try:
                await self._auth.again(context)
            except GschedError as error:
                log.warning("the session of host %s ends: %s", host, error.text)
                return
            if not self._sessions.serves(host):
                log.warning("host %s is no longer in lsf.cluster: and holds no jobs: its session ends", host)
                return
            await self._take_all(host, session, batch.messages, heard)

    async def _take_all(
        self, host: str, session: int, messages: Iterable[agent_pb2.AgentMessage], heard: _Heard
    ) -> None:
        for message in messages:
            self._take(host, session, message, heard)
            heard.untaken += 1
            if heard.untaken >= MOST_UNTAKEN:
                await self._caught_up(host, session, heard)

    async def _caught_up(self, host: str, session: int, heard: _Heard) -> None:
        """Wait until the engine has taken in all that this agent has said: what it says more stays in the network."""
        heard.untaken, heard.is_held_up = 0, True
        self._reports.hand_over()
        try:
            await ask(self._loop, HostReported(host, session))
        finally:
            heard.at, heard.is_held_up = time.monotonic(), False

    async def _notice_silence(self, host: str, heard: _Heard) -> None:
        """Returns when an agent that is connected has said nothing for too long: it hangs, though its host answers."""
        while True:
            config = self._sessions.config
            patience_s = max(SILENT_REPORTS * config.timing.exchange_s, config.params.host_lost_after_s)
            due = heard.at + patience_s
            await asyncio.sleep(due - time.monotonic())
            now = time.monotonic()
            if now - due > MOST_LATE_S or heard.is_held_up:
                heard.at = now  # it was this process that slept: what the agent said meanwhile is still unread
            elif now - heard.at >= patience_s:
                log.warning("agent of %s has been silent for %.0f s", host, patience_s)
                return

    def _take(self, host: str, session: int, message: agent_pb2.AgentMessage, heard: _Heard) -> None:
        """One message of an agent. What cannot be understood is logged and dropped; the stream goes on."""
        kind = message.WhichOneof("kind")
        try:
            if kind == "ended":
                self._mend(host, message.ended)
            check(host, message)
            if kind == "output":
                self._sessions.answered(host, message.output)
                return
            if kind == "task_ask":
                self._sessions.tasks.asked(host, message.task_ask)
                return
            if kind == "task_reply":
                self._sessions.tasks.answered(host, message.task_reply)
                return
            if kind == "service_found":
                self._sessions.services.found(host, message.service_found)
                return
            command = _command(host, session, kind or "", message, heard.gpus)
        except (GschedError, ValueError, TypeError) as error:
            if self._refusals.is_news(host, f"a {kind} message", time.monotonic()):
                log.warning("a %s message of %s is dropped (and others like it): %s", kind, host, error)
            return
        if command is None:
            return
        if message.can_wait and isinstance(command, HostReported):
            self._reports.add(InboxItem(command))
        else:
            self._reports.hand_over()
            self._put(InboxItem(command))

    def _mend(self, host: str, ended: agent_pb2.Ended) -> None:
        """Say what is wrong with it and leave that out. Raises BadRequest where it names no attempt."""
        name = attempt_name(ended.job_id, ended.attempt)
        for field, fault in mend_end(host, ended).items():
            if self._refusals.is_news(host, f"an end's {field}", time.monotonic()):
                text = "host %s tells of the end of attempt %s (and perhaps of others) what cannot be, in %s: %s"
                log.warning(text, host, name, field, fault)

    def _put(self, item: InboxItem) -> None:
        self._loop.put(item)


def _agent_of(hello: agent_pb2.Hello, peer: str) -> ConnectedAgent:
    return ConnectedAgent(hello.journal, hello.boot_id, address_of(peer), time.time())


def _note_failure(way: asyncio.Task[None]) -> None:
    """A way that broke because the agent went away is nothing special; anything else is said."""
    error = None if way.cancelled() else way.exception()
    if error is not None and not isinstance(error, grpc.aio.BaseError | asyncio.InvalidStateError | grpc.RpcError):
        log.error("a session with an agent broke", exc_info=error)


def _command(host: str, session: int, kind: str, message: agent_pb2.AgentMessage, gpus: GpuReports) -> Any:
    match kind:
        case "started":
            return _started(host, message.started)
        case "ended":
            return _ended(host, message.ended)
        case "unkillable":
            return _unkillable(host, message.unkillable)
        case "service_answers" | "warned" | "signalled" | "moved":
            return _done(host, kind, message)
        case "notice_end":
            return NoticeSettled(host, from_proto(message.notice_end, NoticeEnd))
        case "outputs_removed":
            outputs = tuple(from_proto(each, RemovedOutput) for each in message.outputs_removed.outputs)
            return OutputsRemoved(host, outputs)
        case "load":
            return HostReported(host, session, load=from_proto(message.load, LoadReport))
        case "gpus":
            return HostReported(host, session, gpus=checked_gpus(gpus.read(message.gpus)))
        case "usage":
            usage = {(item.job_id, item.attempt): from_proto(item.usage, Usage) for item in message.usage.attempts}
            idle = {
                (item.job_id, item.attempt): from_proto(item.idle, AttemptIdleness)
                for item in message.usage.attempts
                if item.HasField("idle")
            }
            unused = {
                (item.job_id, item.attempt): item.service_idle_s
                for item in message.usage.attempts
                if item.HasField("service_idle_s")
            }
            return HostReported(host, session, usage=usage, idle=idle, service_idle=unused)
        case "heartbeat":
            return HostReported(host, session)
    raise ValueError(f"unexpected kind '{kind}'")


def _done(host: str, kind: str, message: agent_pb2.AgentMessage) -> Any:
    """What was done to an attempt, or came of it, on the host."""
    told = getattr(message, kind)
    match kind:
        case "service_answers":
            return ServiceAnswers(told.job_id, told.attempt, host, told.port, told.at)
        case "warned":
            ends_by = told.ends_by if told.HasField("ends_by") else None
            return AttemptWarned(told.job_id, told.attempt, host, ends_by)
        case "signalled":
            return SignalsSent(told.job_id, told.attempt, host, told.number)
    return AttemptMoved(told.job_id, told.attempt, host, from_proto(told.outcome, GpuMove).why)


def _started(host: str, message: agent_pb2.Started) -> AttemptStarted:
    return AttemptStarted(
        message.job_id, message.attempt, host, message.pid, message.at, message.home, message.cwd, message.boot_id
    )


def _ended(host: str, message: agent_pb2.Ended) -> AttemptEnded:
    result = from_proto(message.result, AttemptResult)
    return AttemptEnded(
        message.job_id,
        message.attempt,
        host,
        result,
        message.is_part,
        message.given_up,
        gpu_curves=message.gpu_curves,
    )


def _unkillable(host: str, message: agent_pb2.Unkillable) -> AttemptUnkillable:
    processes = tuple((each.pid, each.name) for each in message.processes)
    return AttemptUnkillable(message.job_id, message.attempt, host, processes)


@lru_cache(maxsize=TOPOLOGIES_KEPT)
def _topology(message: bytes) -> Topology:
    """The hosts of a cluster are of few kinds: each is read once, and kept once. Raises BadRequest."""
    return checked(from_proto(model_pb2.Topology.FromString(message), Topology))


def _hello(message: agent_pb2.Hello, session: int, lineage: StoreLineage | None = None) -> HostHello:
    host = message.host

    def is_foreign(item: agent_pb2.HeldAttempt | agent_pb2.Ended) -> bool:
        return lineage is not None and lineage.is_foreign(item.store)

    def held(item: agent_pb2.HeldAttempt) -> HeldAttempt:
        part = from_proto(item.part, HostAllocation)
        return HeldAttempt(item.job_id, item.attempt, part, is_foreign(item), item.store.generation, item.signalled)

    return HostHello(
        host=host,
        session=session,
        boot_id=message.boot_id,
        version=message.version,
        held=tuple(held(item) for item in message.held),
        started=tuple(_started(host, item) for item in message.started),
        ended=tuple(
            replace(_ended(host, item), foreign=is_foreign(item), generation=item.store.generation)
            for item in message.ended
        ),
        topology=_topology(message.topology.SerializeToString()) if message.HasField("topology") else None,
        only_user=message.only_user,
        notices=tuple(message.notices),
        notice_ends=tuple(from_proto(item, NoticeEnd) for item in message.notice_ends),
        numbers_from=lineage.numbers_from(host, message.store) if lineage is not None else 1,
        confirms_signals=message.confirms_signals,
    )
