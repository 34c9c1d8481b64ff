"""An agent's side of services: what port and secret a job is told, whose socket listens there, what counts as use."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import grpc.aio
import pytest

from gsched.agent.services import job_services, service_ports
from gsched.agent.services.job_services import JobServices
from gsched.agent.services.service_ports import PORTS, free_port, service_variables
from gsched.base.errors import ResourceExhausted
from gsched.model.jobs.job_service import PORT, TOKEN, URL, VARIABLES
from gsched.run.processes import listening_sockets
from gsched.wire.v1 import agent_pb2
from tests.support.manual_clock import ManualClock

KEY = (7, 1)


class Host:
    """What an executor tells of one attempt, whose processes `pids` are."""

    def __init__(self, port: int, pids: list[int], **order: Any) -> None:
        environment = {PORT: str(port), TOKEN: "secret"}
        self._order = SimpleNamespace(**({"environment": environment, "is_part": False} | order))
        self.pids = pids
        self.is_stopped = False
        self.sent: list[agent_pb2.AgentMessage] = []
        self.looks = 0

    def order(self, job_id: int, attempt: int) -> Any:
        return self._order

    def running(self) -> list[tuple[int, int]]:
        return [KEY]

    def is_suspended(self, job_id: int, attempt: int) -> bool:
        return self.is_stopped

    def processes(self, job_id: int, attempt: int) -> list[Any]:
        self.looks += 1
        return [SimpleNamespace(pid=pid) for pid in self.pids]

    def services(self) -> JobServices:
        made = JobServices("here", self, ManualClock(), running=lambda: [KEY], send=self.sent.append)  # type: ignore[arg-type]
        made.began(KEY)
        return made


class Call:
    """The master's side of one connection: `says` is what it sends, `told` what it has got."""

    def __init__(self, *says: agent_pb2.ServicePiece) -> None:
        self.says: asyncio.Queue[Any] = asyncio.Queue()
        for piece in says:
            self.says.put_nowait(piece)
        self.told: list[agent_pb2.ServicePiece] = []
        self.is_cancelled = False

    async def write(self, piece: agent_pb2.ServicePiece) -> None:
        self.told.append(piece)

    async def done_writing(self) -> None:
        self.says.put_nowait(grpc.aio.EOF)

    async def read(self) -> Any:
        return await self.says.get()

    def cancel(self) -> None:
        self.is_cancelled = True

    @property
    def data(self) -> bytes:
        return b"".join(piece.data for piece in self.told)


def find(services: JobServices) -> agent_pb2.ServiceFound:
    return asyncio.run(services.find(agent_pb2.FindService(request=3, job_id=7, attempt=1)))


def test_a_job_is_told_a_port_a_secret_and_where_that_is() -> None:
    first, second = (service_variables("auto", ()) for _ in range(2))
    port = int(str(first[PORT]))
    assert port in PORTS and first[URL] == f"http://localhost:{port}/"
    assert len(str(first[TOKEN])) > 40 and first[TOKEN] != second[TOKEN]
    assert service_variables("8888", ())[PORT] == "8888"
    assert service_variables("", ()) == dict.fromkeys(VARIABLES), "nothing of a job that has submitted it"


def test_a_port_that_is_taken_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        monkeypatch.setattr(service_ports, "PORTS", [taken])
        with pytest.raises(ResourceExhausted):
            free_port(set())
    monkeypatch.setattr(service_ports, "PORTS", [taken])
    with pytest.raises(ResourceExhausted):
        free_port({taken})


def test_it_is_found_where_the_socket_is_the_jobs_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as own:
        host = Host(own.getsockname()[1], [os.getpid()])
        services = host.services()
        found = find(services)
        assert (found.request, found.port, found.secret, found.error) == (3, own.getsockname()[1], "secret", "")
        find(services)
        assert host.looks == 1, "it is believed for a moment"
        assert services.taken() == {own.getsockname()[1]}
        services.ended(KEY)
        assert find(services).error == "it does not run any more, or has no service"


def test_another_process_is_not_taken_for_the_job() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        host = Host(port, [1 << 30])
        services = host.services()
        found = find(services)
        assert (found.error, found.secret) == (
            f"port {port} of here is listened on by a process that is not the job's",
            "",
        )
        host.pids = [os.getpid()]
        assert find(services).secret == "secret"
        host.pids = []
        assert find(services).secret == "secret", "that one is believed for a moment"
    assert find(services).error == f"nothing listens on port {port} of here yet"
    with socket.create_server(("127.0.0.1", port)):
        assert "not the job's" in find(services).error, "another socket on the same port"


def test_a_part_of_a_job_and_one_without_a_secret_have_none() -> None:
    for order in ({"is_part": True}, {"environment": {PORT: "8888"}}, {"environment": {PORT: "x", TOKEN: "y"}}):
        services = Host(8888, [], **order).services()
        assert services.idle_s(KEY) is None and "has no service" in find(services).error


def within(
    scenario: Callable[[JobServices, Host], Awaitable[None]], serve: Callable[[Any, Any], Awaitable[None]]
) -> None:
    """Run the scenario while `serve` answers as the job."""

    async def main() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            host = Host(server.sockets[0].getsockname()[1], [os.getpid()])
            await scenario(host.services(), host)

    asyncio.run(main())


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data.upper())
    writer.close()


def test_bytes_go_both_ways_and_the_first_piece_names_the_ticket() -> None:
    async def scenario(services: JobServices, host: Host) -> None:
        call = Call(agent_pb2.ServicePiece(data=b"hello "), agent_pb2.ServicePiece(data=b"you"))
        services.begin(SimpleNamespace(Serve=lambda: call))  # type: ignore[arg-type]
        open_one = asyncio.create_task(services.open(agent_pb2.OpenService(ticket="t", job_id=7, attempt=1)))
        while call.data != b"HELLO YOU":
            await asyncio.sleep(0.01)
        assert (call.told[0].ticket, call.told[0].error) == ("t", "")
        call.says.put_nowait(grpc.aio.EOF)
        await open_one
        assert call.is_cancelled

    within(scenario, echo)


def test_what_the_job_says_last_arrives_before_the_end() -> None:
    async def bye(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * 300_000)
        writer.close()

    async def scenario(services: JobServices, host: Host) -> None:
        call = Call()
        services.begin(SimpleNamespace(Serve=lambda: call))  # type: ignore[arg-type]
        await services.open(agent_pb2.OpenService(ticket="t", job_id=7, attempt=1))
        assert len(call.data) == 300_000 and call.is_cancelled

    within(scenario, bye)


def test_a_connection_that_cannot_be_is_told_why() -> None:
    async def scenario(services: JobServices, host: Host) -> None:
        host.pids = []
        call = Call()
        services.begin(SimpleNamespace(Serve=lambda: call))  # type: ignore[arg-type]
        await services.open(agent_pb2.OpenService(ticket="t", job_id=7, attempt=1))
        (told,) = call.told
        assert told.ticket == "t" and "not the job's" in told.error and call.is_cancelled

    within(scenario, echo)


def test_nobody_is_connected_while_listeners_change(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(services: JobServices, host: Host) -> None:
        port = int(host.order(*KEY).environment[PORT])
        (own,) = listening_sockets.listeners(port)
        looks = [frozenset({own}), frozenset({own, own + 1})]
        monkeypatch.setattr(listening_sockets, "listeners", lambda _: looks.pop(0))
        monkeypatch.setattr(listening_sockets, "are_open_in", lambda *_: True)
        call = Call()
        services.begin(SimpleNamespace(Serve=lambda: call))  # type: ignore[arg-type]
        await services.open(agent_pb2.OpenService(ticket="t", job_id=7, attempt=1))
        (told,) = call.told
        assert told.error == f"who listens on port {port} has changed: try again" and call.is_cancelled

    within(scenario, echo)


def test_only_what_somebody_has_asked_for_is_use(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(job_services, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def scenario(services: JobServices, host: Host) -> None:
        now[0] += 50
        assert services.idle_s(KEY) == 50
        call = Call(agent_pb2.ServicePiece(data=b"pong", unasked=True))
        services.begin(SimpleNamespace(Serve=lambda: call))  # type: ignore[arg-type]
        open_one = asyncio.create_task(services.open(agent_pb2.OpenService(ticket="t", job_id=7, attempt=1)))
        while call.data != b"PONG":
            await asyncio.sleep(0.01)
        now[0] += 10
        assert services.idle_s(KEY) == 60, "an open page that only answers pings"
        call.says.put_nowait(agent_pb2.ServicePiece(data=b"hello"))
        while call.data != b"PONGHELLO":
            await asyncio.sleep(0.01)
        now[0] += 5
        assert services.idle_s(KEY) == 5
        host.is_stopped = True
        assert services.idle_s(KEY) == 0, "nobody could use it"
        call.says.put_nowait(grpc.aio.EOF)
        await open_one

    within(scenario, echo)


def test_the_master_is_told_when_it_answers_and_again_in_each_session() -> None:
    async def scenario(services: JobServices, host: Host) -> None:
        services.tell_again()
        assert host.sent == []
        keeping = asyncio.create_task(services.keep())
        while not host.sent:
            await asyncio.sleep(0.01)
        services.tell_again()
        first, again = (message.service_answers for message in host.sent)
        assert first == again and (first.job_id, first.attempt) == KEY
        keeping.cancel()

    within(scenario, echo)
