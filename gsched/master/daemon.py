"""The master process: configuration, store, engine thread, gRPC server, signals. `run` returns its exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import grpc.aio

from gsched import __version__
from gsched.base.clock import SystemClock
from gsched.base.coded_text import coded
from gsched.base.errors import LSF_FAILURE, Conflict
from gsched.base.machine.endless_work import for_ever
from gsched.base.machine.service import NOBODY, TOLD_TO_RESTART, TOLD_TO_STOP, ServiceManager, keep_fed
from gsched.config.configuration import Loaded, load
from gsched.core.command import AttemptEnded, NoticeSettled, RaiseNumbers, RenewStore
from gsched.core.engine import Engine
from gsched.core.instruction import Instruction, SendNotice, StartJob
from gsched.master.access import audit_log
from gsched.master.access.audit_log import AuditLog
from gsched.master.access.rate_limit import RateLimit
from gsched.master.access.request_gate import AdmittedCaller, RequestGate
from gsched.master.agents.agent_sessions import AgentSessions
from gsched.master.agents.order_contents import OrderContents
from gsched.master.agents.order_delivery import OrderDelivery
from gsched.master.config_switch import switching_to
from gsched.master.engine_thread import EngineLoop, InboxItem
from gsched.master.event_feed import EventFeed
from gsched.master.garbage_collection import settle_in, undisturbed
from gsched.master.metrics.collection import Collection
from gsched.master.metrics.http_server import MetricsServer
from gsched.master.metrics.measurements import Measurements
from gsched.master.metrics.page import Page
from gsched.master.open_files import allow_sessions, most_connections
from gsched.master.past.known_starts import known_starts
from gsched.master.past.reader import PastReader
from gsched.master.reconfig_notes import KnownNotes
from gsched.master.recovery import recover
from gsched.master.rpc.end_notices import Ends
from gsched.master.rpc.interactive_terminals import TerminalAttendance, killer
from gsched.master.rpc.loop_pulse import LoopPulse
from gsched.master.rpc.scheduler_service import ServiceContext
from gsched.master.rpc.services import Services
from gsched.master.store_lineage import StoreLineage
from gsched.master.succession import Taken, leave_at_once, take_store
from gsched.master.timed_configuration import follow_groups, follow_time
from gsched.master.views.board import Board
from gsched.model.config import ClusterConfig
from gsched.model.event import AnyEvent, JobDispatched
from gsched.model.jobs.job import FINISHED, AttemptResult
from gsched.model.jobs.notice import NoticeEnd
from gsched.policy.cycle import schedule_in_turns
from gsched.store.history_queries import History
from gsched.wire.address import MASTER_FILE, MASTER_SOCKET, write_address
from gsched.wire.identity.caller_identity import Authenticator, OwnerOnly, check_private, user_name
from gsched.wire.identity.identity_assertion import check_certificate
from gsched.wire.identity.munge import Munge
from gsched.wire.identity.munge_credentials import MungeCredentials
from gsched.wire.identity.shared_callers import ByHost, ServedNames
from gsched.wire.server import SERVER_OPTIONS, SERVER_OPTIONS_FOR_ANYBODY, bounded, listen, listen_tls

log = logging.getLogger(__name__)

SWITCH_INTERVAL_S = 0.0005
"""The engine's thread must hand the interpreter over quickly, or a busy cycle would starve the RPC loop."""
SHUTDOWN_GRACE_S = 0.5
HANG_S = 40.0
"""An engine, or a loop of the RPC services, that has not gone round for so long hangs, and another master is to lead:
longer than a commit may take that the database does not answer, shorter than the watchdog of the unit."""


def run(conf_dir: str, host: str, manager: ServiceManager = NOBODY) -> int:
    """Serve until SIGTERM or SIGINT, telling `manager` how it stands. Raises GschedError when it cannot start."""
    loaded = load(conf_dir, host, run_egroup=True)
    config = loaded.required()
    if config.masters and host != config.master_host:
        names = ", ".join(config.masters)
        raise Conflict(f"{host} is no master of cluster {config.cluster}: LSF_MASTER_LIST names {names}")
    for folder in (config.locations.state_dir, config.folder_of("master")):
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(config.folder_of("master"))
    if config.is_shared:  # before anything is replayed
        check_certificate(config, config.master_host)
    allow_sessions(len(config.hosts))
    taken = take_store(loaded, host, manager)
    if taken is None:
        return 0
    try:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        return asyncio.run(Master(taken, manager).serve())
    finally:
        taken.store.close()


class Master:
    """The pieces of one master and how they are wired."""

    def __init__(self, taken: Taken, manager: ServiceManager) -> None:
        clock = SystemClock()
        loaded, store = taken.loaded, taken.store
        self._begun = taken.begun
        self._loaded = loaded
        self._notes = KnownNotes(loaded.problems)
        self._config = config = loaded.required()
        self._store = store
        self._manager = manager
        self._engine = Engine(
            recover(store, taken.replica), config, clock.now(), schedule=undisturbed(schedule_in_turns)
        )
        self._engine.estimates.learn(known_starts(store.place))
        jobs = self._engine.state.jobs.values()
        self._interactive = [job.job_id for job in jobs if job.spec.interactive and job.state not in FINISHED]
        settle_in()  # what was replayed lives long
        self._board = Board(config)
        self._feed = EventFeed()
        self._ends = Ends(self._board)
        self._sessions = AgentSessions(self._board)
        asks_agents = config.is_shared and not taken.has_watched
        others = [host.name for host in config.hosts.values() if asks_agents and host.server]
        self._sessions.lineage = self._lineage = StoreLineage(store, self._engine.state, self._disown, others)
        self._measurements = Measurements()
        self._loop = EngineLoop(
            self._engine,
            store,
            self._board,
            clock,
            deliver=self._deliver_from_engine,
            fatal=leave_at_once,
            measurements=self._measurements,
        )
        collection = Collection(
            self._board, self._measurements, lambda: self._sessions.connected, lambda: self._loop.problem
        )
        self._page = Page(collection.families)
        self._attendance: TerminalAttendance | None = None
        self._orders: OrderDelivery
        self._asyncio: asyncio.AbstractEventLoop
        self._asked = asyncio.Event()
        self._exit_code = 0

    async def serve(self) -> int:
        """Start everything, wait for a signal, stop everything."""
        self._asyncio = asyncio.get_running_loop()
        self._orders = self._order_delivery()
        metrics = self._metrics_server()
        self._loop.start()
        pulse = LoopPulse(self._asyncio)
        self._store.lead_while(lambda: self._loop.is_turning(HANG_S) and pulse.is_beating(HANG_S))
        self._take_over_numbers()
        # Not waited for: with a full disk it is stored later, and queries are answered meanwhile.
        command, blobs = switching_to(self._loaded, user_name(os.getuid()), started=True)
        self._loop.put(InboxItem(command, blobs=blobs))
        history = History(self._store.place)
        reader = PastReader(self._store.place, self._config.folder_of("master"))
        audit = AuditLog(str(Path(self._config.locations.log_dir) / audit_log.FILE))
        services = ServiceContext(
            self._loop, self._board, self._store, AdmittedCaller(), self._notes, self._lineage.first_number
        )
        self._attendance = TerminalAttendance(self._board, killer(services))
        self._attendance.begin(self._interactive)
        servers = await self._listen(
            Services(
                services,
                history,
                reader,
                self._sessions,
                self._feed,
                self._ends,
                self._attendance,
                self._leave,
                self._page,
                audit.path,
            ),
            audit,
        )
        if metrics is not None:
            metrics.start()
        self._manager.ready(self._status_line())
        feeding = asyncio.create_task(keep_fed(self._manager, self._is_well))
        self._begun.set()
        renew = partial(self._renew, services)
        works = [partial(each, self._config_now, renew) for each in (follow_time, follow_groups)]
        following = [feeding, *(asyncio.create_task(for_ever(work)) for work in works)]
        await self._until_signal()
        self._manager.stopping()
        for each in following:
            each.cancel()
        stopping = asyncio.gather(*(server.stop(SHUTDOWN_GRACE_S) for server in servers))
        await asyncio.sleep(0)  # from here on nobody new is let in
        self._sessions.end_all()
        await stopping
        if metrics is not None:
            await asyncio.to_thread(metrics.close)
        await asyncio.to_thread(self._loop.stop)
        self._orders.close()
        await reader.close()
        history.close()
        audit.close()
        log.info("master of cluster %s ends", self._config.cluster)
        return self._exit_code

    def _take_over_numbers(self) -> None:
        """What is known outside the database is in force before anybody is let in."""
        if self._store.numbers_from > self._engine.state.next_job_id:
            why = "those below were given out by a store that is lost"
            self._loop.put(InboxItem(RaiseNumbers(self._store.numbers_from, why)))
        if self._store.generation > self._engine.state.generation:
            self._loop.put(InboxItem(RenewStore(self._store.generation)))

    def _order_delivery(self) -> OrderDelivery:
        contents = OrderContents(self._store.get_blob)
        sessions, call_soon = self._sessions, self._asyncio.call_soon
        return OrderDelivery(sessions.deliver, self._give_up, call_soon, sessions.needed, contents)

    def _metrics_server(self) -> MetricsServer | None:
        """What serves /metrics; None where the configuration does not want it. Raises Conflict."""
        config = self._config
        if not config.metrics.is_on:
            return None
        tls_dir = config.network.tls_dir if config.is_shared else ""
        return MetricsServer(config.metrics, self._page.text, tls_dir, config.master_host)

    async def _renew(self, services: ServiceContext, loaded: Loaded, _: ClusterConfig) -> None:
        """The files, or the program that lists members of groups, say something else by now."""
        await services.ask(*switching_to(loaded, user_name(os.getuid())))
        services.notes.replace(loaded.problems)

    async def _listen(self, services: Services, audit: AuditLog) -> list[grpc.aio.Server]:
        """Open every way to this master, each with a server and an authenticator of its own. Raises GschedError."""
        config, rate_limit = self._config, RateLimit()
        most = most_connections(len(config.hosts))

        def open_way(authenticator: Authenticator, options: Any = SERVER_OPTIONS) -> grpc.aio.Server:
            check = self._store.check_lease
            gate = RequestGate(
                authenticator, self._config_now, audit, rate_limit, self._measurements, check_lease=check
            )
            return services.added_to(grpc.aio.server(interceptors=[gate], options=options))

        own = open_way(OwnerOnly(agents=not config.is_shared))
        servers = [own]
        if config.network.port is not None:
            by_host = ByHost(self._config_now, ServedNames(self._config_now), lambda: self._board.leaving)
            hosts = open_way(by_host, bounded(SERVER_OPTIONS, most))
            listen_tls(hosts, config.network.port, config.network.tls_dir, config.master_host, hosts_only=True)
            servers.append(hosts)
        if config.network.munge_port is not None:
            munge = Munge(config.network.munge_socket)
            by_munge = MungeCredentials(self._config_now, ServedNames(self._config_now), munge)
            users = open_way(by_munge, bounded(SERVER_OPTIONS_FOR_ANYBODY, most))
            listen_tls(users, config.network.munge_port, config.network.tls_dir, config.master_host, hosts_only=False)
            servers.append(users)
        address = listen(own, str(Path(config.folder_of("master")) / MASTER_SOCKET))
        for server in servers:
            await server.start()
        if config.is_shared:
            ports = [config.network.port, *([config.network.munge_port] if config.network.munge_port else [])]
            address += f" and on port {' and '.join(map(str, ports))}"
        else:
            write_address(config.locations.conf_dir, MASTER_FILE, address)
        log.info("gsched %s: master of cluster %s listens on %s", __version__, config.cluster, address)
        return servers

    def _config_now(self) -> ClusterConfig:
        return self._board.config

    def _is_well(self) -> bool:
        """The gRPC loop asks, so it goes round itself; whether the engine's thread does as well."""
        self._manager.status(self._status_line())
        return self._loop.has_turned()

    def _status_line(self) -> str:
        problem = f"; {self._loop.problem}" if self._loop.problem else ""
        servers = sum(host.server for host in self._board.config.hosts.values())
        return f"cluster {self._config.cluster}: {self._sessions.connected} of {servers} agents connected{problem}"

    async def _until_signal(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._asyncio.add_signal_handler(number, self._asked.set)
        await self._asked.wait()

    def _leave(self, restart: bool) -> None:
        """An administrator wants this master to end, or to begin anew."""
        log.warning("the master is told to %s", "restart" if restart else "stop")
        self._exit_code = TOLD_TO_RESTART if restart else TOLD_TO_STOP
        self._asked.set()

    def _deliver_from_engine(self, last_seq: int, events: list[AnyEvent], instructions: list[Instruction]) -> None:
        self._asyncio.call_soon_threadsafe(self._deliver, last_seq, events, instructions)

    def _deliver(self, last_seq: int, events: list[AnyEvent], instructions: list[Instruction]) -> None:
        self._orders.take(instructions, events)
        self._sessions.tell_of_store()
        self._feed.publish(last_seq, events)
        self._ends.publish(events)
        self._measurements.note_events(events, self._board.job)
        if self._attendance is not None:
            self._attendance.publish(events)

    def _disown(self, text: str) -> None:
        """The store should not be there: nothing is done by it."""
        log.critical("%s", text)
        self._exit_code = LSF_FAILURE
        self._asked.set()

    def _give_up(self, instruction: Instruction, why: str, events: Sequence[AnyEvent]) -> None:
        """An attempt that no agent can know of yet goes back to pending, and the reason is on record; as it is of a
        notice that cannot be sent.
        """
        if isinstance(instruction, SendNotice):
            end = NoticeEnd(notice_id=instruction.notice.notice_id, problem=coded("notice.no_order", why), tries=0)
            self._loop.put(InboxItem(NoticeSettled(instruction.host, end)))
        if not isinstance(instruction, StartJob):
            return
        key = (instruction.job_id, instruction.attempt)
        if any(isinstance(event, JobDispatched) and (event.job_id, event.attempt) == key for event in events):
            result = AttemptResult(started=False, problem=coded("attempt.no_order", why))
            self._loop.put(InboxItem(AttemptEnded(*key, instruction.host, result)))
