"""The front's application by itself: what it answers to connections that are no proper ones, and to half a request."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from gsched.base.errors import PermissionDenied
from gsched.web.access.sessions import WebSessions
from gsched.web.access.web_place import WebPlace
from gsched.web.front.careful_protocol import HANG_UP
from gsched.web.front.front_application import COOKIE, FrontApplication
from gsched.web.front.front_pages import FrontPages
from gsched.web.front.keeper_link import KeeperLink
from gsched.web.front.keeper_messages import KeeperAnswer, KeeperTask
from gsched.web.front.login_limits import LoginLimits
from gsched.web.front.proxied_user import ProxiedUser
from gsched.web.services.service_names import ServicePlace
from tests.support.folders import new_folder

FORM = (b"content-type", b"application/x-www-form-urlencoded")
Message = dict[str, Any]


class FakeKeeper(KeeperLink):
    """Refuses everything that it is asked for, but while it `allows`, when `path` is the answer."""

    path = ""
    allows = False

    def __init__(self) -> None:
        super().__init__(lambda: None)
        self.asked: list[tuple[KeeperTask, str]] = []

    async def ask(self, task: KeeperTask, user: str = "", *, password: str = "", address: str = "") -> KeeperAnswer:
        self.asked.append((task, user))
        if not self.allows:
            raise PermissionDenied("no")
        return KeeperAnswer(number=1, user=user, path=self.path)


class Front:
    """`proxies`: whose word counts; `sends`: what the browser sends of its request."""

    def __init__(self, *, has_socket: bool = False) -> None:
        self.keeper = FakeKeeper()
        self.hung_up = asyncio.Event()
        self.sessions = WebSessions()
        proxied = ProxiedUser("remote-user", [], has_socket=has_socket)
        place = WebPlace(frozenset({"h1"}), "https")
        self.application = FrontApplication(
            self.keeper,
            self.sessions,
            proxied,
            place,
            FrontPages("lab"),
            LoginLimits(),
            ServicePlace("https", ("h1",)),
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
            if message.get("body"):
                self.keeper.allows = False

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
            "state": {HANG_UP: lambda: self.hung_up.set()},
        }
        asyncio.run(asyncio.wait_for(self.application(scope, receive or ends, send), 60))
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


def test_an_answer_without_end_ends_with_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.web.front.front_application.STILL_S", 0.01)
    folder = new_folder()
    front = Front()
    front.keeper.path, front.keeper.allows = f"{folder}/ann.sock", True
    cookie = front.sessions.begin("ann")
    session = front.sessions.find(cookie)
    began = False

    async def receive() -> Message:
        nonlocal began
        if not began:
            began = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await front.hung_up.wait()
        return {"type": "http.disconnect"}

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(front.keeper.path)
        listening.listen()
        page = threading.Thread(target=_streams, args=(listening,))
        page.start()
        status, _ = front.ask("GET", "/live", (b"cookie", f"{COOKIE}={cookie}".encode()), receive=receive)
        page.join(30)
    shutil.rmtree(folder)
    assert status == 200 and front.hung_up.is_set() and session is not None and session.is_over
    assert len(front.keeper.asked) > 1 and set(front.keeper.asked) == {(KeeperTask.PROCESS, "ann")}


def _streams(listening: socket.socket) -> None:
    """A user's process that begins an answer, and goes on until the front hangs up."""
    with listening.accept()[0] as connection, contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n")
        while connection.recv(1000):
            pass
