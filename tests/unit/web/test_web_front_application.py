"""The front's application by itself: what it answers to connections that are no proper ones, and to half a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gsched.base.errors import PermissionDenied
from gsched.web.access.sessions import WebSessions
from gsched.web.access.web_place import WebPlace
from gsched.web.front.front_application import COOKIE, FrontApplication
from gsched.web.front.front_pages import FrontPages
from gsched.web.front.keeper_link import KeeperLink
from gsched.web.front.keeper_messages import KeeperAnswer, KeeperTask
from gsched.web.front.login_limits import LoginLimits
from gsched.web.front.proxied_user import ProxiedUser

FORM = (b"content-type", b"application/x-www-form-urlencoded")
Message = dict[str, Any]


class FakeKeeper(KeeperLink):
    """Refuses everything that it is asked for."""

    def __init__(self) -> None:
        super().__init__(lambda: None)
        self.asked: list[tuple[KeeperTask, str]] = []

    async def ask(self, task: KeeperTask, user: str = "", *, password: str = "", address: str = "") -> KeeperAnswer:
        self.asked.append((task, user))
        raise PermissionDenied("no")


class Front:
    """`proxies`: whose word counts; `sends`: what the browser sends of its request."""

    def __init__(self, *, has_socket: bool = False) -> None:
        self.keeper = FakeKeeper()
        self.sessions = WebSessions()
        proxied = ProxiedUser("remote-user", [], has_socket=has_socket)
        place = WebPlace(frozenset({"h1"}), "https")
        self.application = FrontApplication(
            self.keeper, self.sessions, proxied, place, FrontPages("lab"), LoginLimits()
        )

    def ask(
        self,
        method: str = "GET",
        path: str = "/",
        *headers: tuple[bytes, bytes],
        client: tuple[str, int] | None = ("10.0.0.5", 1),
        scheme: str = "https",
        receive: Callable[[], Any] | None = None,
    ) -> tuple[int, dict[bytes, bytes]]:
        """Status and headers of the answer."""
        said: list[Message] = []

        async def ends() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            said.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"host", b"h1"), (b"origin", b"https://h1"), *headers],
            "client": client,
            "scheme": scheme,
            "server": ("h1", 8443),
        }
        asyncio.run(self.application(scope, receive or ends, send))
        return said[0]["status"], dict(said[0]["headers"])


@pytest.mark.parametrize("has_socket", [True, False])
@pytest.mark.parametrize("path", ["/", "/login", "/assets/style.css"])
def test_a_connection_without_an_address_is_answered_nothing(path: str, has_socket: bool) -> None:
    front = Front(has_socket=has_socket)
    for headers in ([], [(b"remote-user", b"ann")]):
        assert front.ask("GET", path, *headers, client=None)[0] == 400
    assert front.keeper.asked == []


def test_the_socket_of_a_proxy_has_no_address() -> None:
    front = Front(has_socket=True)
    front.ask("GET", "/", (b"remote-user", b"ann"), client=None, scheme="http")
    assert front.keeper.asked == [(KeeperTask.PROCESS, "ann")]


def test_half_a_form_is_answered_without_a_word_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.web.front.front_application.FORM_S", 0.01)

    async def leaves() -> Message:
        return {"type": "http.disconnect"}

    async def says_nothing() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    for receive in (leaves, says_nothing):
        status, headers = Front().ask("POST", "/login", FORM, receive=receive)
        assert (status, headers[b"connection"]) == (408, b"close")


def test_who_may_have_no_pages_any_more_has_no_session_any_more() -> None:
    front = Front()
    cookie, others = front.sessions.begin("ann"), front.sessions.begin("bob")
    headers = ((b"cookie", f"{COOKIE}={cookie}".encode()),)
    assert front.ask("GET", "/", *headers)[0] == 403
    assert front.sessions.find(cookie) is None and front.sessions.find(others) is not None
    assert front.ask("GET", "/", *headers)[0] == 401
