"""Who has come with which version, and orders to the daemons of other hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gsched.base.coded_text import coded
from gsched.base.errors import BadRequest
from gsched.master.agents import fleet
from gsched.master.agents.agent_roster import MOST_REFUSED, RIVAL_S, AgentRoster
from gsched.master.agents.fleet import FleetServicer
from gsched.model.config import ClusterConfig, Locations
from gsched.model.hosts.fleet import DaemonView
from gsched.model.hosts.host import HostConfig
from gsched.model.queues.queue import Queue
from gsched.model.views.view import HostView
from gsched.wire.messages.convert import from_proto
from gsched.wire.v1 import agent_pb2, fleet_pb2

CONFIG = ClusterConfig(
    cluster="c",
    master_host="a",
    hosts={name: HostConfig(name=name, max_slots=4, server=name != "desk") for name in ("a", "b", "desk")},
    queues={"normal": Queue(name="normal", priority=30)},
    locations=Locations(conf_dir="", state_dir="", log_dir="", server_dir="", run_dir="", spool_dir=""),
)


def hello(host: str, version: str = "1.0", protocol: int = 4) -> Any:
    return agent_pb2.Hello(host=host, version=version, protocol=protocol, pid=7)


class FakeSessions:
    """Agents that obey after a moment: `obey` is told the host and the order."""

    def __init__(self, obey: Callable[[FakeSessions, str, str], None]) -> None:
        self.config = CONFIG
        self.roster = AgentRoster()
        self._obey = obey

    def post(self, host: str, message: agent_pb2.MasterMessage) -> bool:
        if not self.roster.session(host):
            return False
        asyncio.get_running_loop().call_soon(self._obey, self, host, message.daemon.action)
        return True


class Context:
    """Of a call: what is to be done when it has been answered."""

    def __init__(self) -> None:
        self.after: list[Callable[[Any], None]] = []

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self.after.append(callback)

    async def abort(self, code: Any, text: str) -> None:
        raise BadRequest(text)


def obedient(sessions: FakeSessions, host: str, action: str) -> None:
    before = sessions.roster.session(host)
    sessions.roster.left(host)
    if action == "restart":
        sessions.roster.came(hello(host), before + 1)


def deaf(sessions: FakeSessions, host: str, action: str) -> None:
    pass


def gone_for_good(sessions: FakeSessions, host: str, action: str) -> None:
    sessions.roster.left(host)
    sessions.roster.refused(hello(host, protocol=9), "another protocol")


async def order(
    sessions: FakeSessions, action: str, *hosts: str, master: bool = False
) -> tuple[dict[str, str], list[bool]]:
    left: list[bool] = []
    context = Context()
    request = fleet_pb2.DaemonsRequest(action=action, hosts=hosts, master=master)
    reply = await FleetServicer(sessions, left.append, "/nowhere", str).Daemons(request, context)  # type: ignore[arg-type]
    assert left == [], "the master answers before it ends"
    for callback in context.after:
        callback(None)
    return {answer.name: answer.error or answer.text for answer in reply.answers}, left


@pytest.mark.parametrize(("action", "text"), [("stop", "stopped"), ("restart", "restarted")])
def test_what_is_ordered_is_done_when_it_is_answered(action: str, text: str) -> None:
    async def run() -> None:
        sessions = FakeSessions(obedient)
        for host in ("a", "b"):
            sessions.roster.came(hello(host), 1)
        found, left = await order(sessions, action, "all", master=True)
        assert found == {"a": "the master ends", "b": text}
        assert left == [action == "restart"]
        assert sessions.roster.view("b").state == ("away" if action == "stop" else "connected")

    asyncio.run(run())


def test_what_cannot_be_done_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "STOPS_S", 0.05)
    monkeypatch.setattr(fleet, "RETURNS_S", 0.05)

    async def run() -> None:
        sessions = FakeSessions(deaf)
        sessions.roster.came(hello("a"), 1)
        found, left = await order(sessions, "stop", "a", "b", "nosuch")
        assert found["a"] == "a: its agent has not ended within 0 s"
        assert found["b"].startswith("b: its agent is not connected")
        assert found["nosuch"].startswith("nosuch: Bad host name")
        assert left == []
        sessions = FakeSessions(gone_for_good)
        sessions.roster.came(hello("a"), 1)
        found, _ = await order(sessions, "restart", "a")
        assert found["a"].endswith("is not back after 0 s: another protocol")
        with pytest.raises(BadRequest, match="'kill' is none of stop and restart"):
            await order(sessions, "kill", "a")

    asyncio.run(run())


def test_versions_of_all_servers() -> None:
    async def run() -> None:
        sessions = FakeSessions(deaf)
        sessions.roster.came(hello("a", "1.0"), 1)
        sessions.roster.refused(hello("b", "2.0", 9), "install the same version")
        servicer = FleetServicer(sessions, lambda restart: None, "/nowhere", str)  # type: ignore[arg-type]
        reply = await servicer.Versions(fleet_pb2.VersionsRequest(), Context())
        found = [from_proto(daemon, DaemonView) for daemon in reply.daemons]
        assert [(each.kind, each.host, each.state) for each in found] == [
            ("master", "a", "connected"),
            ("agent", "a", "connected"),
            ("agent", "b", "refused"),
        ]
        assert (found[2].version, found[2].protocol, found[2].problem) == ("2.0", 9, "install the same version")

    asyncio.run(run())


def test_a_second_machine_of_the_same_name_is_shown_while_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        now = 100.0
        monkeypatch.setattr("gsched.master.agents.agent_roster.monotonic", lambda: now)
        sessions = FakeSessions(deaf)
        roster = sessions.roster
        roster.came(hello("a", "1.0"), 1)
        host = HostView(name="a", status="ok", notes=("its own",))
        assert roster.annotated(host).notes == ("its own",)
        problem = coded("agent.second_from", "told before", "10.0.0.9")
        roster.rivalled(hello("a", "2.0"), problem)
        now += 20
        roster.rivalled(hello("a", "2.0"), problem)
        now += RIVAL_S - 1
        assert roster.annotated(host).notes == ("its own", problem)
        servicer = FleetServicer(sessions, lambda restart: None, "/nowhere", str)  # type: ignore[arg-type]
        reply = await servicer.Versions(fleet_pb2.VersionsRequest(), Context())
        found = [from_proto(daemon, DaemonView) for daemon in reply.daemons]
        assert [(each.kind, each.host, each.state, each.problem) for each in found] == [
            ("master", "a", "connected", ""),
            ("agent", "a", "connected", ""),
            ("agent", "a", "refused", problem),
            ("agent", "b", "away", ""),
        ]
        assert roster.view("a").state == "connected", "orders go to the one that is there"
        now += 2
        assert roster.annotated(host).notes == ("its own",)
        assert [each.state for each in roster.views("a")] == ["connected"]
        roster.rivalled(hello("a", "2.0"), problem)
        roster.left("a")
        assert [each.state for each in roster.views("a")] == ["away"], "it may come now"

    asyncio.run(run())


def test_a_roster_remembers_since_when_and_no_more_than_it_must() -> None:
    async def run() -> None:
        roster = AgentRoster()
        assert roster.view("a") == DaemonView(kind="agent", host="a")
        roster.refused(hello("a"), "no")
        since = roster.view("a").since
        await asyncio.sleep(0.01)
        roster.refused(hello("a"), "no")
        assert roster.view("a").since == since, "it is refused again and again, since then"
        roster.came(hello("a"), 3)
        roster.refused(hello("a", "evil"), "another machine of that name")
        assert roster.view("a").state == "connected"
        roster.left("a")
        assert (roster.view("a").state, roster.view("a").version, roster.view("a").pid) == ("away", "1.0", 0)
        roster.left("a")
        for number in range(MOST_REFUSED + 5):
            roster.refused(hello(f"x{number}"), "no")
        assert roster.view(f"x{MOST_REFUSED + 4}").state == "away"
        async with asyncio.timeout(60):
            assert not await roster.until(lambda: False, 0.05)

    asyncio.run(run())
