"""The port of a shared cluster's master, with real TLS and the real gate; behind it services that say who called."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any, ClassVar

import grpc
import grpc.aio

from gsched.app.installation.authority import Authority, make_authority, make_host
from gsched.base.errors import PermissionDenied
from gsched.master.access.audit_log import AuditLog
from gsched.master.access.request_gate import AdmittedCaller, RequestGate
from gsched.model.config import ClusterConfig, Locations, Network, Params
from gsched.model.hosts.host import HostConfig
from gsched.wire.identity.caller_identity import Authenticator
from gsched.wire.identity.shared_callers import ByHost, ServedNames
from gsched.wire.server import SERVER_OPTIONS, SERVER_OPTIONS_FOR_ANYBODY, answers, bounded, listen_tls, streams
from gsched.wire.v1 import (
    agent_pb2,
    agent_pb2_grpc,
    model_pb2,
    scheduler_pb2,
    scheduler_pb2_grpc,
    waiting_pb2,
    waiting_pb2_grpc,
)

MASTER = "localhost"
HOSTS = (MASTER, "gpu1", "gpu2")


def said_by(context: Any) -> str:
    """Who called, as one word."""
    caller = AdmittedCaller().caller(context)
    return f"{caller.user}/{caller.host}/{caller.way}/{'admin' if caller.is_admin else 'user'}"


class Telling(scheduler_pb2_grpc.SchedulerServicer):
    @answers
    async def Cluster(self, request: Any, context: Any) -> Any:
        return model_pb2.ClusterView(cluster=said_by(context), master_host=MASTER)

    @streams
    async def Events(self, request: Any, context: Any) -> Any:
        for number in range(3):
            yield model_pb2.EventRecord(seq=number, kind=said_by(context))
        if request.follow:
            await asyncio.Event().wait()

    @answers
    async def Submit(self, request: Any, context: Any) -> Any:
        return scheduler_pb2.SubmitReply(jobs=[model_pb2.Submitted(job_id=request.ByteSize(), queue=said_by(context))])


class Ending(waiting_pb2_grpc.WaitingServicer):
    @streams
    async def Ends(self, requests: Any, context: Any) -> Any:
        async for request in requests:
            if not request.job_ids:
                await context.abort(grpc.StatusCode.INTERNAL, "Internal error from Core")  # as gRPC itself may say
            ends = [model_pb2.JobEnd(job_id=number, state=said_by(context)) for number in request.job_ids]
            yield waiting_pb2.EndsReply(ends=ends)


class Agents(agent_pb2_grpc.AgentServiceServicer):
    async def Session(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        await context.read()
        refusal = agent_pb2.MasterMessage(refusal=agent_pb2.Refusal(text=said_by(context)))
        await context.write(agent_pb2.MasterBatch(messages=[refusal]))
        if await context.read() is grpc.aio.EOF:
            return
        try:
            await AdmittedCaller().again(context)
        except PermissionDenied as error:
            refusal = agent_pb2.MasterMessage(refusal=agent_pb2.Refusal(text=error.text))
            await context.write(agent_pb2.MasterBatch(messages=[refusal]))


class SharedMaster:
    """`with SharedMaster(folder) as master:` listens on `master.config.network.port`."""

    accounts: ClassVar[dict[str, int]] = {"ann": 1001, "bob": 1002, "adm": 1003, "root": 0, "toor": 0}

    own_uid = 54321
    """Whom the master runs as."""

    connections = 1000
    """How many each port takes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tls = folder / "tls"
        self.signer: Authority = make_authority(str(self.tls), "c1", 30)
        for host in HOSTS:
            make_host(str(self.tls), self.signer, host, 30)
        places = Locations(
            conf_dir=str(folder), state_dir="/s", log_dir="/l", server_dir="/e", run_dir=str(folder), spool_dir="/p"
        )
        self.config = ClusterConfig(
            cluster="c1",
            master_host=MASTER,
            hosts={name: HostConfig(name=name) for name in HOSTS},
            administrators=("adm", "root"),
            params=Params(root_may_submit=False),
            network=Network(port=free_port(), tls_dir=str(self.tls)),
            locations=places,
        )
        self.audit = AuditLog(str(folder / "audit.log"))
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()), daemon=True)

    def __enter__(self) -> SharedMaster:
        self._thread.start()
        assert self._is_up.wait(120)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(120)
        self.audit.close()

    def open(self) -> list[grpc.aio.Server]:
        """The servers, not begun yet."""
        auth = ByHost(lambda: self.config, ServedNames(lambda: self.config, self.accounts.get, self.own_uid))
        assert self.config.network.port is not None
        return [self.server(auth, self.config.network.port, hosts_only=True)]

    def server(self, auth: Authenticator, port: int, *, hosts_only: bool) -> grpc.aio.Server:
        options = bounded(SERVER_OPTIONS if hosts_only else SERVER_OPTIONS_FOR_ANYBODY, self.connections)
        server = grpc.aio.server(interceptors=[RequestGate(auth, lambda: self.config, self.audit)], options=options)
        scheduler_pb2_grpc.add_SchedulerServicer_to_server(Telling(), server)  # type: ignore[abstract]  # asked nothing else
        waiting_pb2_grpc.add_WaitingServicer_to_server(Ending(), server)
        agent_pb2_grpc.add_AgentServiceServicer_to_server(Agents(), server)  # type: ignore[abstract]  # the same
        listen_tls(server, port, str(self.tls), MASTER, hosts_only=hosts_only)
        return server

    async def _serve(self) -> None:
        servers = self.open()
        for server in servers:
            await server.start()
        self._is_up.set()
        await self._stop.wait()
        for server in servers:
            await server.stop(0)


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
