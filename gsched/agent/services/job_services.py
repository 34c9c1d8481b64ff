"""The services of this host's running jobs: whether they answer, how long nobody has used them, and the way to them.

A connection is made to 127.0.0.1 alone, and only where the socket that listens there is open in a process of the job:
nobody else's port can be reached, and nobody who has taken the job's port is taken for the job.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

from gsched.agent.services.service_link import ServiceLink
from gsched.base.clock import Clock
from gsched.base.errors import GschedError, NotFound, Unavailable
from gsched.model.jobs.job_service import PORT, TOKEN
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.executor import ProcessExecutor
from gsched.run.processes import listening_sockets
from gsched.wire.v1 import agent_pb2, agent_pb2_grpc

log = logging.getLogger(__name__)

LOOK_S = 0.5
LOOK_MOST_S = 10.0
"""Until a job that has just begun is looked at again whether it listens by now: ever more rarely."""
BELIEVED_S = 5.0
"""For so long a socket that was the job's counts as that, while it goes on listening."""
CONNECT_S = 5.0
MOST_LINKS = 256
"""Connections to one service at a time."""


class _Service:
    """The service of one attempt, from its start on."""

    def __init__(self, port: int, secret: str, now: float) -> None:
        self.port = port
        self.secret = secret
        self.answers_at: float | None = None
        """UTC seconds."""
        self.used_at = now
        """On the monotonic clock."""
        self.links = 0
        self.look_at = now
        self.pause_s = LOOK_S
        self.known: tuple[frozenset[int], float] = (frozenset(), 0.0)
        """Sockets that were found to be its own, and until when that is believed."""


class JobServices:
    """Of one agent. `running` gives the attempts that have begun and are not over; `send` puts a message to the master
    into the stream.
    """

    def __init__(
        self,
        host: str,
        executor: ProcessExecutor,
        clock: Clock,
        *,
        running: Callable[[], Collection[AttemptKey]],
        send: Callable[[agent_pb2.AgentMessage], None],
    ) -> None:
        self._host = host
        self._executor = executor
        self._clock = clock
        self._running = running
        self._send = send
        self._services: dict[AttemptKey, _Service] = {}
        self.serve_steps: Callable[[AttemptKey, socket.socket], Awaitable[None]] | None = None
        """Serves who asks for steps of an attempt on this end of a connection (tasks.launch_server)."""
        self._stub: agent_pb2_grpc.AgentServiceAsyncStub | None = None
        self._news = asyncio.Event()

    # -- what runs ------------------------------------------------------------------------------------------------

    def began(self, key: AttemptKey) -> None:
        """The attempt has begun, or is taken up. One without a service is nobody's business here."""
        order = self._executor.order(*key)
        found = _told(order.environment) if order is not None and not order.is_part else None
        if found is not None:
            self._services[key] = _Service(*found, time.monotonic())
            self._news.set()

    def ended(self, key: AttemptKey) -> None:
        """The attempt is over."""
        self._services.pop(key, None)

    def taken(self) -> set[int]:
        """The ports of those that run."""
        orders = (self._executor.order(*key) for key in self._executor.running())
        return {found[0] for order in orders if order is not None and (found := _told(order.environment)) is not None}

    def idle_s(self, key: AttemptKey) -> float | None:
        """For how many seconds nobody has used the service of the attempt; None where it has none."""
        service = self._services.get(key)
        if service is None:
            return None
        if self._executor.is_suspended(*key):  # nobody could
            service.used_at = time.monotonic()
        return time.monotonic() - service.used_at

    def tell_again(self) -> None:
        """A new session: the master may have missed which of them answer."""
        for key, service in self._services.items():
            self._tell(key, service)

    async def keep(self) -> None:
        """For ever: notice when a job begins to listen, which nothing tells."""
        while True:
            now = time.monotonic()
            waiting = [(key, each) for key, each in self._services.items() if each.answers_at is None]
            for key, service in waiting:
                if service.look_at <= now:
                    await self._look(key, service)
                    service.look_at = time.monotonic() + service.pause_s
                    service.pause_s = min(service.pause_s * 1.1, LOOK_MOST_S)
            due = min((each.look_at for _, each in waiting if each.answers_at is None), default=None)
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(0.0, due - time.monotonic())):
                    await self._news.wait()

    async def _look(self, key: AttemptKey, service: _Service) -> None:
        try:
            await self._check(key, service)
        except GschedError:
            return
        service.answers_at = self._clock.now()
        self._tell(key, service)

    def _tell(self, key: AttemptKey, service: _Service) -> None:
        if service.answers_at is not None:
            told = agent_pb2.ServiceAnswers(job_id=key[0], attempt=key[1], port=service.port, at=service.answers_at)
            self._send(agent_pb2.AgentMessage(service_answers=told))

    # -- who wants to use them ------------------------------------------------------------------------------------

    def begin(self, stub: agent_pb2_grpc.AgentServiceAsyncStub) -> None:
        """There is a session with the master, by which connections go."""
        self._stub = stub

    async def find(self, asked: agent_pb2.FindService) -> agent_pb2.ServiceFound:
        """Where it is, and its secret; or why it cannot be reached."""
        key, reply = (asked.job_id, asked.attempt), agent_pb2.ServiceFound(request=asked.request)
        try:
            service = self._service(key)
            await self._check(key, service)
        except GschedError as error:
            reply.error = error.text
            return reply
        reply.port, reply.secret = service.port, service.secret
        return reply

    async def open(self, order: agent_pb2.OpenService) -> None:
        """Connect somebody; returns when that is over."""
        if self._stub is None:
            return
        link = ServiceLink(self._stub)
        key = (order.job_id, order.attempt)
        if order.steps:
            await self._open_steps(key, order.ticket, link)
            return
        try:
            service = self._service(key)
            reader, writer = await self._connect(key, service)
        except GschedError as error:
            await link.refuse(order.ticket, error.text)
            return

        def use() -> None:
            service.used_at = time.monotonic()

        service.links += 1
        try:
            await link.carry(order.ticket, reader, writer, use)
        finally:
            service.links -= 1

    async def _open_steps(self, key: AttemptKey, ticket: str, link: ServiceLink) -> None:
        """Connect the job's owner with where steps of the job are asked for."""
        if self.serve_steps is None or key not in self._running():
            await link.refuse(ticket, f"the job does not run on {self._host}")
            return
        ours, theirs = socket.socketpair()
        serving = asyncio.ensure_future(self.serve_steps(key, theirs))
        try:
            reader, writer = await asyncio.open_connection(sock=ours)
            await link.carry(ticket, reader, writer, lambda: None)
        finally:
            await asyncio.gather(serving, return_exceptions=True)

    def _service(self, key: AttemptKey) -> _Service:
        service = self._services.get(key)
        if service is None or key not in self._running():
            raise NotFound("it does not run any more, or has no service")
        return service

    async def _connect(self, key: AttemptKey, service: _Service) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Raises Unavailable."""
        if service.links >= MOST_LINKS:
            raise Unavailable(f"{MOST_LINKS} connections to it are open: no more are made")
        before = await self._check(key, service)
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        except (OSError, TimeoutError) as error:
            reason = getattr(error, "strerror", None) or "nobody takes the connection"
            raise Unavailable(f"port {service.port} of {self._host}: {reason}") from None
        try:
            after = await asyncio.to_thread(listening_sockets.listeners, service.port)
        except BaseException:
            writer.transport.abort()
            raise
        if after != before:  # no telling to whom of them it goes
            writer.transport.abort()
            raise Unavailable(f"who listens on port {service.port} has changed: try again")
        return reader, writer

    async def _check(self, key: AttemptKey, service: _Service) -> frozenset[int]:
        """The sockets that listen on its port, all of them the job's own. Raises Unavailable."""
        found = await asyncio.to_thread(listening_sockets.listeners, service.port)
        where = f"port {service.port} of {self._host}"
        if not found:
            raise Unavailable(f"nothing listens on {where} yet")
        known, until = service.known
        if found <= known and time.monotonic() < until:
            return found
        if not await asyncio.to_thread(self._are_own, key, found):
            raise Unavailable(f"{where} is listened on by a process that is not the job's")
        service.known = found, time.monotonic() + BELIEVED_S
        return found

    def _are_own(self, key: AttemptKey, sockets: frozenset[int]) -> bool:
        pids = [process.pid for process in self._executor.processes(*key)]
        return listening_sockets.are_open_in(sockets, pids)


def _told(environment: Mapping[str, str]) -> tuple[int, str] | None:
    """Port and secret, as its environment has them; None where there are none."""
    port, secret = environment.get(PORT, ""), environment.get(TOKEN, "")
    return (int(port), secret) if port.isdigit() and secret else None
