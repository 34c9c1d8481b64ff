"""The agent process: one session with the master after another, for as long as it lives. Jobs do not depend on it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from gsched import __version__
from gsched.agent import terminals
from gsched.agent.accounts import Accounts
from gsched.agent.attempts import Attempts
from gsched.agent.contact import Contact
from gsched.agent.fencing import Fencing, standing_note
from gsched.agent.gpukeeping import GpuKeeping
from gsched.agent.launching import LaunchDoor
from gsched.agent.launchsocket import listen, socket_path
from gsched.agent.mps import Mps
from gsched.agent.pamlimits import PROGRAM, PamLimits, find_program
from gsched.agent.peeking import answer
from gsched.agent.relay import Relay
from gsched.agent.report import HostReporter
from gsched.base.clock import SystemClock
from gsched.base.errors import Conflict, GschedError
from gsched.base.service import NOBODY, TOLD_TO_RESTART, TOLD_TO_STOP, ServiceManager, keep_fed
from gsched.base.wholefile import replace_file
from gsched.config.files import load
from gsched.model.config import ClusterConfig, GpuFence
from gsched.model.fleet import RESTART
from gsched.model.host_ledger import AttemptKey
from gsched.probe.topology import read_topology
from gsched.run import shutdown
from gsched.run.contain import boot_id
from gsched.run.fence.ground import Ground, find_ground
from gsched.wire.address import read_address
from gsched.wire.batch import next_batch
from gsched.wire.channel import CHANNEL_OPTIONS
from gsched.wire.convert import fill
from gsched.wire.protocol import PROTOCOL
from gsched.wire.v1 import agent_pb2, agent_pb2_grpc
from gsched.wire.vouching import agent_channel, check_certificate

log = logging.getLogger(__name__)

_TRANSPORT = (grpc.aio.BaseError, grpc.RpcError, asyncio.InvalidStateError)
"""What a stream raises when its other end has gone."""


def run(conf_dir: str, host: str, manager: ServiceManager = NOBODY) -> int:
    """Serve until SIGTERM or SIGINT, telling `manager` how it stands. Raises GschedError when it cannot start."""
    config = load(conf_dir, host).required()
    if host not in config.hosts:
        raise Conflict(f"host {host} is not in the Host section of lsf.cluster.{config.cluster}")
    if config.is_shared:
        check_certificate(config, host)  # what is wrong with it is said at once
    spool = Path(config.locations.spool_dir) / host
    spool.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _only_one(spool, host):
        # Before there are threads: it forks.
        is_wanted = config.gpu_fence is not GpuFence.OFF
        ground = find_ground(_key(config, spool), spool) if is_wanted else "it is turned off"
        return asyncio.run(Agent(config, host, spool, ground, manager).serve())


def _accounts(config: ClusterConfig, host: str) -> Accounts:
    """Whom jobs are started as here."""
    program = None
    if os.geteuid() == 0 and config.pam_limits is not False:
        program = find_program()
        if program is None:
            told = log.warning if config.pam_limits else log.info
            told("there is no %s on this host: jobs begin with the agent's own limits, not with those of PAM", PROGRAM)
    return Accounts(
        host,
        root_may_run=config.params.root_may_submit,
        site_user=config.pre_post_exec_user,
        pam=PamLimits(program) if program is not None else None,
    )


def _key(config: ClusterConfig, spool: Path) -> str:
    """Tells this cluster's host from all others on the machine."""
    return f"{config.cluster}:{spool}"


def _mark_of(spool: Path) -> str:
    """What tells this spool folder, and the agent that holds its lock, from all others."""
    path = spool / "mark"
    with contextlib.suppress(FileNotFoundError):
        if mark := path.read_text("ascii", "replace").strip():
            return mark
    mark = secrets.token_hex(16)
    replace_file(str(path), f"{mark}\n".encode(), durable=True)
    return mark


@contextlib.contextmanager
def _only_one(spool: Path, host: str) -> Any:
    """Two agents on one spool would both adopt its jobs."""
    descriptor = os.open(spool / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Conflict(f"an agent of {host} already runs on {spool}") from None
    try:
        yield
    finally:
        os.close(descriptor)


class Agent:
    """The pieces of one agent and how they are wired."""

    def __init__(
        self, config: ClusterConfig, host: str, spool: Path, ground: Ground | str, manager: ServiceManager
    ) -> None:
        self._config = config
        self._ground = ground
        self._host = host
        self._spool = spool
        self._stop = asyncio.Event()
        self._exit_code = 0
        self._manager = manager
        self._contact = Contact(host, manager)
        self._outgoing: asyncio.Queue[agent_pb2.AgentMessage] | None = None
        self._usage_s = config.timing.usage_sample_s
        self._exchange_s = config.timing.exchange_s
        self._mark = _mark_of(spool)
        self._has_spoken = False
        """Since the last turn of the heartbeat: then none is needed."""
        self._background: set[asyncio.Task[None]] = set()
        self._answers: set[asyncio.Task[None]] = set()
        """Those of this session: nobody waits for them after it."""
        self._last_order: dict[AttemptKey, asyncio.Task[None]] = {}
        self._listening: socket.socket | None = None
        self._replying = asyncio.Lock()
        self._relay: Relay
        self._attempts: Attempts
        self._reporter: HostReporter
        self._keeping: GpuKeeping

    async def serve(self) -> int:
        """Adopt, then keep a session with the master until a signal comes."""
        clock = SystemClock()
        cluster = _key(self._config, self._spool)
        self._reporter = HostReporter(
            self._host,
            self._config.locations.conf_dir,
            cluster,
            clock,
            send=self._send,
            owners=self._owners_of,
            given=self._given_gmem,
            held=self._held_gpus,
        )
        self._reporter.gpus.unfenced = standing_note(self._config.gpu_fence, self._ground)
        ground = self._ground if isinstance(self._ground, Ground) else None
        accounts = _accounts(self._config, self._host)
        mps = Mps(self._config.mps_control, cluster, self._spool, ground, accounts.account)
        self._keeping = GpuKeeping(self._reporter.gpus, self._spool, mps, clock, self._known_attempts)
        self._attempts = Attempts(
            self._host,
            self._spool,
            cluster,
            os.getuid(),
            clock,
            send=self._send,
            locks_gpus=lambda: self._reporter.gpus.has_real_gpus,
            places={
                "LSF_ENVDIR": self._config.locations.conf_dir,
                "LSF_SERVERDIR": self._config.locations.server_dir,
            },
            fencing=Fencing(self._config.gpu_fence, self._ground, self._reporter.gpus, lambda: mps.groups),
            custody=self._keeping.custody,
            variables=mps.variables,
            accounts=accounts,
            socket=self._listen(),
        )
        self._relay = Relay(self._host, self._attempts.tasks.answer, self._send)
        door = LaunchDoor(self._host, self._relay, self._attempts.tasks.prove, self._attempts.tasks.slots)
        self._reporter.remarks.append(self._attempts.remarks)
        adopted = await self._attempts.adopt()
        await self._keeping.adopt()
        log.info("gsched %s: agent of %s, %d attempts adopted", __version__, self._host, adopted)
        if self._reporter.gpus.unfenced:
            log.warning(
                "no GPU fence (%s): jobs are told their GPUs by CUDA_VISIBLE_DEVICES alone",
                self._reporter.gpus.unfenced,
            )
        else:
            log.info("GPU fence: %s", self._ground)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop.set)
        if self._listening is not None:
            await door.open(self._listening)
        self._manager.ready(f"host {self._host}: {adopted} attempts adopted, no session with the master yet")
        works = (self._sessions(), self._sample_usage(), keep_fed(self._manager, lambda: True))
        workers = [asyncio.create_task(work) for work in works]
        await self._stop.wait()
        self._manager.stopping()
        await asyncio.to_thread(self._note_shutdown)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        door.close()
        self._keeping.close()
        await self._reporter.close()
        self._attempts.close()
        log.info("agent of %s ends; its jobs go on", self._host)
        return self._exit_code

    def _note_shutdown(self) -> None:
        """Where it is the machine that goes down, its jobs go with it: the next agent is to know."""
        if shutdown.is_going_down():
            log.warning("this host is shut down, and its jobs with it")
            try:
                shutdown.leave_note(self._spool, boot_id(), time.time())
            except OSError as error:
                log.error("%s: %s: how its jobs end will be taken for their own end", self._spool, error.strerror)

    def _listen(self) -> str:
        """Path of the socket for this host's jobs; empty when there can be none."""
        path = socket_path(self._config.folder_of("agent"), self._host)
        try:
            self._listening = listen(path, others=self._config.is_shared)
        except OSError as error:
            log.warning("jobs of this host cannot launch tasks: %s: %s", path, error.strerror or error)
            return ""
        return str(path)

    def _known_attempts(self) -> Attempts:
        return self._attempts

    def _owners_of(self, pids: Iterable[int]) -> Mapping[int, str]:
        return self._keeping.owners(pids)

    def _given_gmem(self) -> Mapping[tuple[str, str], float]:
        return self._attempts.given_gmem()

    def _held_gpus(self, name: str) -> frozenset[str] | None:
        return self._attempts.held_gpus(name)

    # -- the session ----------------------------------------------------------------------------------------------

    async def _sessions(self) -> None:
        while True:
            try:
                async with self._connection() as channel:
                    await self._session(channel)
            except GschedError as error:
                self._contact.failed(grpc.StatusCode.UNAVAILABLE, error.text)
            except Exception:
                log.exception("the session broke")
            await asyncio.sleep(self._contact.pause_s())

    def _connection(self) -> grpc.aio.Channel:
        """A new connection to the master. Raises GschedError when nobody says where it is, or who we are."""
        if self._config.is_shared:
            return agent_channel(self._config, self._host)
        address = read_address(self._config.locations.conf_dir)
        return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)

    async def _session(self, channel: grpc.aio.Channel) -> None:
        """One session."""
        call = agent_pb2_grpc.AgentServiceStub(channel).Session()
        hello = agent_pb2.Hello(
            host=self._host, protocol=PROTOCOL, version=__version__, boot_id=boot_id(), pid=os.getpid()
        )
        hello.journal = self._mark
        topology = read_topology()
        if topology is not None:
            fill(hello.topology, topology)
            hello.topology.SetInParent()
        await self._attempts.settle()
        self._attempts.fill_hello(hello)
        # From here on news go into the new stream, behind the hello that holds what was known before.
        outgoing: asyncio.Queue[agent_pb2.AgentMessage] = asyncio.Queue()
        self._outgoing = outgoing
        outgoing.put_nowait(agent_pb2.AgentMessage(hello=hello))
        self._attempts.tell_unkillable()
        self._contact.begin()
        ways = [asyncio.create_task(way) for way in (self._read(call), self._write(call, outgoing), self._beat())]
        try:
            # Whichever way is closed first: half a connection is none.
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._outgoing = None
            self._relay.end()
            self._contact.ended()
            if call.done():
                self._contact.failed(await call.code(), await call.details() or "")
            call.cancel()
            for task in [*ways, *self._answers]:
                task.cancel()
            ends = await asyncio.gather(*ways, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, _TRANSPORT):
                log.error("the session broke", exc_info=end)

    async def _read(self, call: Any) -> None:
        while isinstance(batch := await call.read(), agent_pb2.MasterBatch):
            for message in batch.messages:
                await self._hear(message)

    async def _hear(self, message: agent_pb2.MasterMessage) -> None:
        if message.WhichOneof("kind") != "refusal":
            self._contact.heard()
            self._relay.begin()
        try:
            await self._obey(message)
        except Exception:  # one bad order must not keep the others from being carried out
            log.exception("an order failed: %s", message.WhichOneof("kind"))

    async def _write(self, call: Any, outgoing: asyncio.Queue[agent_pb2.AgentMessage]) -> None:
        while True:
            batch = await next_batch(outgoing)
            await call.write(agent_pb2.AgentBatch(messages=batch))
            for _ in batch:
                outgoing.task_done()

    async def _beat(self) -> None:
        """Show that this loop goes round, also when there is nothing to report."""
        while True:
            self._has_spoken = False
            await asyncio.sleep(self._exchange_s)
            if not self._has_spoken:
                self._send(agent_pb2.AgentMessage(heartbeat=agent_pb2.Heartbeat()))

    def _send(self, message: agent_pb2.AgentMessage) -> None:
        """Into the stream, if there is one; what matters is in the journal and told again at the next hello."""
        self._has_spoken = True
        if self._outgoing is not None:
            self._outgoing.put_nowait(message)

    async def _obey(self, message: agent_pb2.MasterMessage) -> None:
        """Carry one message out. What takes time runs beside the stream."""
        match message.WhichOneof("kind"):
            case "settings":
                await self._configure(message.settings)
            case "refusal":
                self._contact.refused(message.refusal.text)
            case "start":
                # Looks at the GPUs first, which may take a while.
                key = (message.start.job_id, message.start.attempt)
                self._beside(self._attempts.start(message.start), key)
            case "terminate" | "signal" | "suspend" | "resume" | "limit" as kind:
                order = getattr(message, kind)
                self._beside(self._obey_about(kind, order), (order.job_id, order.attempt))
            case "forget":
                for item in message.forget.attempts:
                    self._attempts.forget((item.job_id, item.attempt))
            case "read_output":
                self._answer(self._answer_output(message.read_output))
            case "type_input":
                typed = message.type_input
                folder = self._attempts.folder((typed.job_id, typed.attempt))
                self._answer(terminals.take_typed(typed, folder, self._send_output))
            case "task_ask":
                self._answer(self._answer_task(message.task_ask))
            case "task_reply":
                self._relay.answered(message.task_reply)
            case "daemon":
                log.warning("an administrator has told this agent to %s; its jobs go on", message.daemon.action)
                self._exit_code = TOLD_TO_RESTART if message.daemon.action == RESTART else TOLD_TO_STOP
                self._stop.set()

    async def _obey_about(self, kind: str, order: Any) -> None:
        """An order about an attempt that was started before."""
        key = (order.job_id, order.attempt)
        match kind:
            case "terminate":
                await self._attempts.terminate(key, order.reason, given_up=order.given_up)
            case "signal":
                await self._attempts.signal(key, order.signal, order.reason)
            case "suspend":
                await self._attempts.suspend(key)
            case "resume":
                await self._attempts.resume(key)
            case "limit":
                await self._attempts.limit(key, order)

    async def _configure(self, settings: agent_pb2.Settings) -> None:
        self._attempts.terminate_interval_s = settings.terminate_interval_s
        self._usage_s = settings.usage_sample_s
        self._exchange_s = settings.exchange_s
        self._keeping.configure(settings)
        # Slow probes must not hold up orders.
        self._beside(self._reporter.configure(settings))

    async def _answer_output(self, request: agent_pb2.ReadOutput) -> None:
        key = (request.job_id, request.attempt)
        if request.terminal:
            folder = self._attempts.folder(key)
            await terminals.show(request, folder, lambda: self._attempts.is_over(key), self._send_output)
            return
        await answer(
            request,
            read=self._attempts.read_output,
            is_over=self._attempts.is_over,
            endings=self._attempts.endings,
            send=self._send_output,
        )

    def _answer(self, work: Coroutine[Any, Any, None]) -> None:
        answering = asyncio.create_task(work)
        self._answers.add(answering)
        answering.add_done_callback(self._answers.discard)
        answering.add_done_callback(_note_failure)

    async def _answer_task(self, ask: agent_pb2.TaskAsk) -> None:
        reply = await self._attempts.tasks.answer(ask)
        async with self._replying:
            await self._deliver(agent_pb2.AgentMessage(task_reply=reply))

    async def _send_output(self, reply: agent_pb2.OutputReply) -> bool:
        return await self._deliver(agent_pb2.AgentMessage(output=reply))

    async def _deliver(self, message: agent_pb2.AgentMessage) -> bool:
        """Returns when it has left: news must not queue up behind it. False: there is no master."""
        outgoing = self._outgoing
        if outgoing is None:
            return False
        outgoing.put_nowait(message)
        await outgoing.join()
        return True

    def _beside(self, work: Coroutine[Any, Any, None], key: AttemptKey | None = None) -> None:
        """Carry something out beside the stream. Orders about the same attempt keep their order."""
        before = self._last_order.get(key) if key is not None else None
        task = asyncio.create_task(_after(before, work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(_note_failure)
        if key is not None:
            self._last_order[key] = task
            task.add_done_callback(lambda done: self._drop_order(key, done))

    def _drop_order(self, key: AttemptKey, task: asyncio.Task[None]) -> None:
        if self._last_order.get(key) is task:
            del self._last_order[key]

    async def _sample_usage(self) -> None:
        while True:
            await asyncio.sleep(self._usage_s)  # memory has no event: it is looked at
            try:
                report = self._attempts.usage_report()
            except Exception:
                log.exception("the use of running jobs cannot be sampled")
                continue
            if report is not None:
                self._send(agent_pb2.AgentMessage(usage=report))


async def _after(before: asyncio.Task[None] | None, work: Coroutine[Any, Any, None]) -> None:
    if before is not None:
        await asyncio.wait([before])
    await work


def _note_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("an order failed", exc_info=task.exception())
