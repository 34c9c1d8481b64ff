"""The daemons of all hosts: who has come with which version, and orders to them that do not concern any job.

Lives in the gRPC loop. An order goes through the agent's own session, so nobody needs a way into the host; what does
not run has no session, and is started by other means.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from gsched import __version__
from gsched.base.errors import BadRequest
from gsched.master.access.audit_reading import last_lines
from gsched.master.agents.agent_sessions import AgentSessions
from gsched.master.rpc.replies import filled
from gsched.model.hosts.fleet import CONNECTED, RESTART, STOP, DaemonView
from gsched.model.views.view import Answer
from gsched.wire.messages.protocol import PROTOCOL
from gsched.wire.server import answers
from gsched.wire.v1 import agent_pb2, fleet_pb2, fleet_pb2_grpc

STOPS_S = 20.0
RETURNS_S = 30.0
_DONE = {STOP: "stopped", RESTART: "restarted"}


class FleetServicer(fleet_pb2_grpc.FleetServicer):
    """`leave(restart)` has the master end, and start again where `restart`; `hand_over(hosts)` promises the store to a
    master that waits on one of them.
    """

    def __init__(
        self,
        sessions: AgentSessions,
        leave: Callable[[bool], None],
        audit_path: str,
        hand_over: Callable[[Sequence[str]], str],
    ) -> None:
        self._hand_over = hand_over
        self._sessions = sessions
        self._leave = leave
        self._audit_path = audit_path
        self._began = time.time()

    @answers
    async def Versions(self, request: Any, context: Any) -> Any:
        config = self._sessions.config
        master = DaemonView(
            kind="master",
            host=config.master_host,
            state=CONNECTED,
            version=__version__,
            protocol=PROTOCOL,
            pid=os.getpid(),
            since=self._began,
        )
        roster = self._sessions.roster
        agents = [view for host in config.hosts.values() if host.server for view in roster.views(host.name)]
        return filled(fleet_pb2.VersionsReply(), "daemons", [master, *agents])

    @answers
    async def Daemons(self, request: Any, context: Any) -> Any:
        action = request.action
        if action not in _DONE:
            raise BadRequest(f"'{action}' is none of stop and restart")
        known = self._sessions.config.hosts
        hosts = list(dict.fromkeys(request.hosts))
        if hosts == ["all"]:
            hosts = [host.name for host in known.values() if host.server]
        given = [self._order(host, action) if host in known else _unknown(host) for host in hosts]
        found = list(await asyncio.gather(*given))
        if request.master:
            found.append(Answer(name=self._sessions.config.master_host, text="the master ends"))
            # Once this call has been answered: nobody is to wait for an answer that is lost.
            context.add_done_callback(lambda _: self._leave(action == RESTART))
        return filled(fleet_pb2.DaemonsReply(), "answers", found)

    @answers
    async def HandOver(self, request: Any, context: Any) -> Any:
        config = self._sessions.config
        if not config.masters:
            raise BadRequest(f"{config.master_host} is the only master: LSF_MASTER_LIST names no other")
        if request.to == config.master_host:
            raise BadRequest(f"the master on {request.to} leads already")
        if request.to and request.to not in config.masters:
            raise BadRequest(f"{request.to} is no master: LSF_MASTER_LIST names {', '.join(config.masters)}")
        among = [request.to] if request.to else [host for host in config.masters if host != config.master_host]
        to = await asyncio.to_thread(self._hand_over, among)
        context.add_done_callback(lambda _: self._leave(True))
        return fleet_pb2.HandOverReply(to=to)

    @answers
    async def AuditLog(self, request: Any, context: Any) -> Any:
        lines = await asyncio.to_thread(last_lines, self._audit_path, request.text)
        return fleet_pb2.AuditLogReply(lines=lines)

    async def _order(self, host: str, action: str) -> Answer:
        roster = self._sessions.roster
        before = roster.session(host)
        order = agent_pb2.MasterMessage(daemon=agent_pb2.DaemonOrder(action=action))
        if not self._sessions.post(host, order):
            why = roster.view(host).problem or "its agent is not connected"
            return Answer(name=host, error=f"{host}: {why}; it can be reached on the host itself alone")
        if not await roster.until(lambda: roster.session(host) != before, STOPS_S):
            return Answer(name=host, error=f"{host}: its agent has not ended within {STOPS_S:.0f} s")
        if action == RESTART and not await roster.until(lambda: roster.session(host) not in (0, before), RETURNS_S):
            why = roster.view(host).problem or "its log says why"
            return Answer(
                name=host, error=f"{host}: its agent has ended and is not back after {RETURNS_S:.0f} s: {why}"
            )
        return Answer(name=host, text=_DONE[action])


async def _unknown(host: str) -> Answer:
    return Answer(name=host, error=f"{host}: Bad host name, host group name or cluster name")
