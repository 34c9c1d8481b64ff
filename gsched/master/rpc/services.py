"""All that the master answers, added to each of its servers alike: what is told apart by them is who is asking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import grpc.aio

from gsched.master.agents.agent_service import AgentServicer
from gsched.master.agents.agent_sessions import AgentSessions
from gsched.master.agents.fleet import FleetServicer
from gsched.master.event_feed import EventFeed
from gsched.master.metrics.page import Page
from gsched.master.past.finished import Finished
from gsched.master.past.reader import PastReader
from gsched.master.past.service import PastServicer
from gsched.master.rpc.administration_service import AdministrationServicer
from gsched.master.rpc.catalogue_service import CatalogueServicer
from gsched.master.rpc.end_notices import Ends, WaitingServicer
from gsched.master.rpc.interactive_terminals import TerminalAttendance, TerminalServicer
from gsched.master.rpc.job_table_service import JobTablesServicer
from gsched.master.rpc.scheduler_service import SchedulerServicer, ServiceContext
from gsched.master.rpc.service_connections import JobServicesServicer
from gsched.store.history_queries import History
from gsched.wire.v1 import (
    agent_pb2_grpc,
    catalogue_pb2_grpc,
    fleet_pb2_grpc,
    job_service_pb2_grpc,
    job_table_pb2_grpc,
    past_pb2_grpc,
    scheduler_pb2_grpc,
    terminal_pb2_grpc,
    waiting_pb2_grpc,
)


@dataclass(frozen=True, slots=True)
class Services:
    """What the services need."""

    services: ServiceContext
    history: History
    reader: PastReader
    sessions: AgentSessions
    feed: EventFeed
    ends: Ends
    attendance: TerminalAttendance
    leave: Callable[[bool], None]
    """Ends the master; True: it is to begin anew."""
    page: Page
    audit_path: str

    def added_to(self, server: grpc.aio.Server) -> grpc.aio.Server:
        """The server, with all services."""
        services = self.services
        terminals = TerminalServicer(services.board, self.sessions, self.attendance, services.auth)
        terminal_pb2_grpc.add_TerminalServicer_to_server(terminals, server)
        scheduler = SchedulerServicer(services, self.history, self.reader, self.sessions, self.feed)
        scheduler_pb2_grpc.add_SchedulerServicer_to_server(scheduler, server)
        scheduler_pb2_grpc.add_AdministrationServicer_to_server(AdministrationServicer(services, self.page), server)
        job_table_pb2_grpc.add_JobTablesServicer_to_server(JobTablesServicer(services.board), server)
        past_pb2_grpc.add_PastServicer_to_server(PastServicer(self.reader, lambda: services.board.config), server)
        waiting_pb2_grpc.add_WaitingServicer_to_server(WaitingServicer(self.ends, Finished(self.reader)), server)
        catalogue_pb2_grpc.add_CatalogueServicer_to_server(
            CatalogueServicer(services, self.history, self.reader), server
        )
        relay = self.sessions.services
        connections = JobServicesServicer(services.board, relay, services.auth)
        job_service_pb2_grpc.add_JobServicesServicer_to_server(connections, server)
        fleet = FleetServicer(self.sessions, self.leave, self.audit_path, services.store.hand_over)
        fleet_pb2_grpc.add_FleetServicer_to_server(fleet, server)
        agents = AgentServicer(services.loop, self.sessions, services.auth)
        agent_pb2_grpc.add_AgentServiceServicer_to_server(agents, server)
        return server
