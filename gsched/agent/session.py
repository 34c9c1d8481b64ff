"""An agent's sessions with the master: one after another, each begun by a hello that tells all that is known.

What is heard is handed on to the message handler; what is told comes from the outbox. A session that ends takes nothing
with it but the answers that it was asked for: jobs do not depend on it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc
import grpc.aio

from gsched import __version__
from gsched.agent.attempts.host_attempts import Attempts
from gsched.agent.background_tasks import BackgroundTasks
from gsched.agent.master_link import MasterLink
from gsched.agent.notices.notice_delivery import NoticeDelivery
from gsched.agent.outbox import Outbox
from gsched.agent.store_memory import StoreMemory
from gsched.agent.tasks.task_questions import TaskQuestions
from gsched.base.errors import GschedError
from gsched.model.config import ClusterConfig
from gsched.probe.topology import read_topology
from gsched.run.processes.process_tree import boot_id
from gsched.wire.address import read_address
from gsched.wire.channel import CHANNEL_OPTIONS, SMALL_MESSAGES
from gsched.wire.identity.certificates import revoked_stamp
from gsched.wire.identity.identity_assertion import agent_channel, until_revoked_changes
from gsched.wire.messages.convert import fill
from gsched.wire.messages.protocol import PROTOCOL
from gsched.wire.v1 import agent_pb2, agent_pb2_grpc

log = logging.getLogger(__name__)

_TRANSPORT = (grpc.aio.BaseError, grpc.RpcError, asyncio.InvalidStateError)
"""What a stream raises when its other end has gone."""


class MasterSessions:
    """The sessions of one agent with the master, one after the other. `mark` tells its spool folder from all others;
    `handle` carries one message out.
    """

    def __init__(  # noqa: PLR0913 - all that it works with
        self,
        config: ClusterConfig,
        host: str,
        mark: str,
        memory: StoreMemory,
        *,
        link: MasterLink,
        outbox: Outbox,
        background: BackgroundTasks,
        attempts: Attempts,
        notices: NoticeDelivery,
        relay: TaskQuestions,
        handle: Callable[[agent_pb2.MasterMessage], Awaitable[None]],
    ) -> None:
        self._config = config
        self._host = host
        self._mark = mark
        self._memory = memory
        self._link = link
        self._outbox = outbox
        self._background = background
        self._attempts = attempts
        self._notices = notices
        self._relay = relay
        self._handle = handle

    async def keep(self) -> None:
        """One session after another, until this is cancelled."""
        while True:
            self._link.begin()
            try:
                seen = revoked_stamp(self._config.network.tls_dir)
                async with await self._connection() as channel:
                    await self._session(channel, seen)
            except GschedError as error:
                self._link.failed(grpc.StatusCode.UNAVAILABLE, error.text)
            except Exception:
                log.exception("the session broke")
            await asyncio.sleep(self._link.pause_s())

    async def _connection(self) -> grpc.aio.Channel:
        """A new connection to the master. Raises GschedError when nobody says where it is, or who we are."""
        if self._config.is_shared:
            return await agent_channel(self._config, self._host)
        address = read_address(self._config.locations.conf_dir)
        return grpc.aio.insecure_channel(address, options=(*CHANNEL_OPTIONS, *SMALL_MESSAGES))

    async def _session(self, channel: grpc.aio.Channel, revoked: tuple[int, ...]) -> None:
        """One session. `revoked`: what list of revoked certificates the connection was opened by."""
        stub = cast("agent_pb2_grpc.AgentServiceAsyncStub", agent_pb2_grpc.AgentServiceStub(channel))
        call = stub.Session()
        self._attempts.services.begin(stub)
        outgoing = self._outbox.open(await self._hello())
        self._attempts.unkillable.tell()
        self._attempts.end_warnings.tell()
        self._attempts.gpu_moves.tell()
        works = [self._read(call), self._outbox.write(call, outgoing), self._outbox.beat()]
        if self._config.is_shared:
            works.append(until_revoked_changes(self._config.network.tls_dir, revoked))
        ways = [asyncio.create_task(way) for way in works]
        try:
            # Whichever way is closed first: half a connection is none.
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._outbox.close()
            self._relay.end()
            self._link.ended()
            if call.done():
                self._link.failed(await call.code(), await call.details() or "")
            call.cancel()
            for task in [*ways, *self._background.answers]:
                task.cancel()
            ends = await asyncio.gather(*ways, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, _TRANSPORT):
                log.error("the session broke", exc_info=end)

    async def _hello(self) -> agent_pb2.Hello:
        """All that is known, when what is being written is written: no news may come between it and the stream."""
        hello = agent_pb2.Hello(
            host=self._host, protocol=PROTOCOL, version=__version__, boot_id=boot_id(), pid=os.getpid()
        )
        hello.journal = self._mark
        hello.store.CopyFrom(self._memory.message())
        topology = read_topology()
        if topology is not None:
            fill(hello.topology, topology)
            hello.topology.SetInParent()
        await self._attempts.settle()
        self._attempts.fill_hello(hello)
        self._notices.fill_hello(hello)
        return hello

    async def _read(self, call: Any) -> None:
        while isinstance(batch := await call.read(), agent_pb2.MasterBatch):
            for message in batch.messages:
                if self._is_of_former_master(message):
                    self._link.refused("it was replaced by another master, which this agent has heard since")
                    return
                await self._hear(message)

    def _is_of_former_master(self, message: agent_pb2.MasterMessage) -> bool:
        """Whether the other end does not know yet that it leads no more: nothing that it says counts."""
        kind = message.WhichOneof("kind")
        if kind not in ("settings", "start", "store"):
            return False
        told = message.store if kind == "store" else getattr(message, kind).store
        return self._memory.is_of_former_master(told)

    async def _hear(self, message: agent_pb2.MasterMessage) -> None:
        if message.WhichOneof("kind") != "refusal":
            self._link.heard()
            self._relay.begin()
        try:
            await self._handle(message)
        except Exception:  # one bad order must not keep the others from being carried out
            log.exception("an order failed: %s", message.WhichOneof("kind"))
