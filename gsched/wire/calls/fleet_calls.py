"""The client's side of the Fleet service: versions of daemons, orders to them, and the audit log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import grpc

from gsched.model.hosts.fleet import DaemonView
from gsched.model.views.view import Answer
from gsched.wire.messages.convert import from_proto
from gsched.wire.v1 import fleet_pb2, fleet_pb2_grpc


class FleetCalls:
    """`call` sends one request by a method of the channel, as the Client that owns it does."""

    def __init__(self, channel: grpc.Channel, call: Callable[[Any, Any], Any]) -> None:
        self._stub = fleet_pb2_grpc.FleetStub(channel)
        self._call = call

    def versions(self) -> list[DaemonView]:
        """The master, then the agents of all hosts that run jobs."""
        reply = self._call(self._stub.Versions, fleet_pb2.VersionsRequest())
        return [from_proto(daemon, DaemonView) for daemon in reply.daemons]

    def audit_log(self, text: str = "") -> list[str]:
        """The last lines of the audit log that hold the text, the newest one last.

        Raises PermissionDenied for others than administrators, Unavailable when it cannot be read.
        """
        return list(self._call(self._stub.AuditLog, fleet_pb2.AuditLogRequest(text=text)).lines)

    def hand_over(self, to: str) -> str:
        """Have the master end and another one lead: that on the host `to`, or any (empty). Returns its host, before it
        leads. Raises PermissionDenied for others than administrators, BadRequest, NotFound when no such master waits.
        """
        return str(self._call(self._stub.HandOver, fleet_pb2.HandOverRequest(to=to)).to)

    def daemons(self, action: str, hosts: Iterable[str], *, master: bool = False) -> list[Answer]:
        """`stop` or `restart` agents (`all`: of every host), then the master itself; answers when that is done.

        Raises PermissionDenied for others than administrators.
        """
        request = fleet_pb2.DaemonsRequest(action=action, hosts=list(hosts), master=master)
        return [from_proto(answer, Answer) for answer in self._call(self._stub.Daemons, request).answers]
