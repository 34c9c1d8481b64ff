"""A service through the front of a shared cluster: how a browser is handed over, and what a connection may ask."""

from __future__ import annotations

import dataclasses
import http.client
import socket
import threading
import urllib.parse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import uvicorn
from fake_master import FakeMaster
from served_pages import Pages
from test_web_front_application import FakeKeeper

from gsched.web.access.sessions import WebSessions
from gsched.web.access.web_place import WebPlace
from gsched.web.application import application_behind_front
from gsched.web.front.careful_protocol import CarefulProtocol
from gsched.web.front.front_application import COOKIE, FrontApplication
from gsched.web.front.front_pages import FrontPages
from gsched.web.front.keeper_messages import SERVICE_COOKIE
from gsched.web.front.login_limits import LoginLimits
from gsched.web.front.proxied_user import ProxiedUser
from gsched.web.front.socket_carrier import SocketProtocol
from gsched.web.front.user_process import handed_alias, handed_session
from gsched.web.mirror.change_hub import ChangeHub
from gsched.web.services.service_names import ServicePlace
from gsched.web.serving import WebServer

PATIENCE_S = 60.0
SERVICES = ServicePlace("https", ("h1",))
PLACE = WebPlace(frozenset({"h1"}), "https")
NAME = "job-17.h1"


class Front:
    """A front on a TCP port, whose users' process is a thread; `now`: its clock."""

    def __init__(self, pages: Pages, path: str) -> None:
        self.now = 1000.0
        self.sessions = WebSessions(lambda: self.now)
        keeper = FakeKeeper()
        keeper.allows, keeper.path = True, path
        application = FrontApplication(
            keeper,
            self.sessions,
            ProxiedUser("x-user", [], has_socket=False),
            PLACE,
            FrontPages("lab"),
            LoginLimits(),
            SERVICES,
        )
        context = dataclasses.replace(pages.context, services=pages.context.client)
        behind = application_behind_front(context, PLACE, handed_session, SERVICES, SERVICE_COOKIE, handed_alias)
        listens = threading.Event()
        of_user = socket.socket(socket.AF_UNIX)
        of_user.bind(path)
        listening = socket.create_server(("127.0.0.1", 0))
        self.address = listening.getsockname()
        config = uvicorn.Config(
            application,
            http=CarefulProtocol,
            loop="asyncio",
            log_config=None,
            lifespan="off",
            ws=partial(SocketProtocol, application),  # type: ignore[arg-type]  # what it is called with
        )
        self._servers: list[uvicorn.Server] = [WebServer(behind, ChangeHub(), listens.set), uvicorn.Server(config)]
        self._threads = [
            threading.Thread(target=server.run, args=([at],), daemon=True)
            for server, at in zip(self._servers, (of_user, listening), strict=True)
        ]
        for thread in self._threads:
            thread.start()
        assert listens.wait(PATIENCE_S)
        self.cookie = self.sessions.begin("ann")

    def end(self) -> None:
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.should_exit = True
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    @property
    def used_at(self) -> float:
        return next(iter(self.sessions._sessions.values())).used_at

    def ask(self, host: str, path: str, cookie: str = "", **headers: str) -> tuple[int, http.client.HTTPMessage]:
        """Status and headers of the answer; `sec_fetch_dest` is Sec-Fetch-Dest."""
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE_S)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", path, headers={"host": host, "cookie": cookie, **given})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status, answer.headers

    def handed_over(self) -> str:
        """The path at the service to which the job's page leads."""
        status, headers = self.ask("h1", "/jobs/17/service", f"{COOKIE}={self.cookie}")
        assert status == 303
        address = urllib.parse.urlsplit(headers["location"])
        assert address.netloc == NAME
        return f"{address.path}?{address.query}"

    def entered(self) -> str:
        """The service's cookie, as browsers send it."""
        status, headers = self.ask(NAME, self.handed_over(), sec_fetch_dest="document")
        assert status == 200
        return str(headers["set-cookie"]).partition(";")[0]

    def said(self, *requests: str) -> bytes:
        """All that comes on one connection that sends these at once, until its end."""
        with socket.create_connection(self.address, timeout=PATIENCE_S) as connection:
            connection.sendall("".join(requests).encode())
            said = b""
            while piece := connection.recv(65536):
                said += piece
        return said


@pytest.fixture
def front(shared_pages: Pages, master: FakeMaster, folder: Path) -> Iterator[Front]:
    path = folder / "ann.sock"
    made = Front(shared_pages, str(path))
    yield made
    made.end()
    path.unlink(missing_ok=True)


def alias_in(text: str) -> str:
    return text.partition("=")[2].partition(".")[0]


def test_each_token_and_cookie_has_an_alias_of_its_own(front: Front) -> None:
    handed = [front.handed_over() for _ in range(2)]
    cookies = [front.entered() for _ in range(2)]
    aliases = {alias_in(text) for text in (*handed, *cookies)}
    assert len(aliases) == 4 and "" not in aliases
    assert all(front.ask(NAME, "/x", cookie)[0] not in (401, 200) for cookie in cookies), "there is no such job"


def test_a_token_is_for_one_tab(front: Front) -> None:
    path = front.handed_over()
    for dest in ("empty", "iframe", "serviceworker"):
        status, headers = front.ask(NAME, path, sec_fetch_dest=dest, sec_fetch_site="same-origin")
        assert status == 403 and "set-cookie" not in headers
    assert front.ask(NAME, path, sec_fetch_dest="document")[0] == 200, "it has not been used up"
    assert front.ask(NAME, path, sec_fetch_dest="document")[0] == 401


def test_who_knows_an_alias_does_not_prolong_the_session(front: Front) -> None:
    cookie = front.entered()
    guessed = f"{SERVICE_COOKIE}={alias_in(cookie)}.guessed"
    before = front.used_at
    front.now += 60
    assert front.ask(NAME, "/x", guessed)[0] == 401 and front.used_at == before
    assert front.ask(NAME, f"/.gsched/enter?token={alias_in(cookie)}.x")[0] == 401 and front.used_at == before
    front.entered()
    assert front.used_at == front.now


UPGRADE = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
SECOND = "GET /jobs HTTP/1.1\r\nHost: h1\r\ngsched-csrf: chosen\r\n\r\n"
"""What the user's process would answer with a page, if it took it for the front's."""


@pytest.mark.parametrize("origin", [f"https://{NAME}", "https://job-18.h1"])
@pytest.mark.parametrize("key", [KEY, "x"])
@pytest.mark.parametrize("knows_cookie", [True, False])
def test_behind_a_refused_upgrade_nothing_is_answered(front: Front, origin: str, key: str, knows_cookie: bool) -> None:
    """The user's process refuses where the cookie and the origin are right, else the front."""
    cookie = front.entered() if knows_cookie else f"{SERVICE_COOKIE}=x"
    asked = f"GET /echo HTTP/1.1\r\nHost: {NAME}\r\nOrigin: {origin}\r\nCookie: {cookie}\r\n"
    said = front.said(asked + UPGRADE.format(key=key) + "\r\n", SECOND)
    assert said.startswith(b"HTTP/1.1 4") and said.count(b"HTTP/1.1 ") == 1
    assert b"<html" not in said
