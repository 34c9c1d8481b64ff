"""The real server of gsched web in a thread, and a plain HTTP client that says what a test wants to say."""

from __future__ import annotations

import http.client
import os
import re
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path

from gsched.web.access.sessions import WebSessions
from gsched.web.application import new_application
from gsched.web.mirror.change_hub import ChangeHub
from gsched.web.mirror.cluster_mirror import ClusterMirror
from gsched.web.pages.page_context import WebContext
from gsched.web.serving import WebOptions, WebServer, new_context
from gsched.wire.address import read_address
from gsched.wire.calls.client import Client

PATIENCE_S = 60.0
HOST = "localhost:8080"
COOKIE = "gsched_test"


class Answer:
    """What came back."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.data = response.read()

    @property
    def text(self) -> str:
        return self.data.decode()


class Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(self._path)


class Pages:
    """A server, and one browser with its cookie."""

    def __init__(self, context: WebContext, sessions: WebSessions, server: WebServer, path: str) -> None:
        self.context = context
        self.sessions = sessions
        self.path = path
        self.cookie = ""
        self.entered_count = 0
        self._server = server
        self.thread = threading.Thread(target=lambda: server.run([_listening(path)]), daemon=True)

    def entered(self) -> Pages:
        """Come in by a new token."""
        answer = self.get(f"/enter?token={self.sessions.new_token()}")
        assert answer.status == 200, answer.text
        found = re.match(rf"{COOKIE}=([\w-]+);", answer.headers["set-cookie"])
        assert found is not None
        self.cookie = found[1]
        return self

    @property
    def csrf(self) -> str:
        """The token that stands in the forms of this browser's pages."""
        found = re.search(r'name="csrf" value="([\w-]+)"', self.get("/").text)
        assert found is not None
        return found[1]

    def get(self, path: str, **headers: str) -> Answer:
        """GET; `headers` add to a browser's, `host="x"` replaces."""
        return self.ask("GET", path, None, headers)

    def post(self, path: str, fields: dict[str, object] | bytes, **headers: str) -> Answer:
        """POST a form as a page of this server would."""
        data = fields if isinstance(fields, bytes) else urllib.parse.urlencode(fields, doseq=True).encode()
        usual = {"origin": f"http://{HOST}", "content-type": "application/x-www-form-urlencoded"}
        return self.ask("POST", path, data, usual | headers)

    def ask(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> Answer:
        connection = Connection(self.path)
        said = {"host": HOST} | ({"cookie": f"{COOKIE}={self.cookie}"} if self.cookie else {}) | headers
        connection.request(method, path, data, {name: value for name, value in said.items() if value != "-"})
        answer = Answer(connection.getresponse())
        connection.close()
        return answer

    def stream(self, path: str) -> tuple[Connection, http.client.HTTPResponse]:
        """An answer that goes on; the caller closes the connection."""
        connection = Connection(self.path)
        connection.request("GET", path, headers={"host": HOST, "cookie": f"{COOKIE}={self.cookie}"})
        return connection, connection.getresponse()

    def deed(self, **fields: object) -> Answer:
        """A form of a page, with its token."""
        return self.post("/deeds", {"csrf": self.csrf, **fields})

    def until(self, is_true: Callable[[], object], complaint: str) -> None:
        """Wait for something that no event tells of here."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_true():
            assert time.monotonic() < deadline, complaint
            time.sleep(0.01)

    def stop_serving(self) -> None:
        """As SIGTERM does it; returns when the server has ended."""
        self._server.handle_exit(15, None)
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive(), "the server does not end"

    def end(self) -> None:
        self.stop_serving()
        self.context.mirror.stop()
        self.context.client.close()
        os.unlink(self.path)


def _listening(path: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    return listening


def served(folder: Path, *, name: str, read_only: bool) -> Pages:
    """Serve the pages of the master that is published in the folder."""

    def connect() -> Client:
        return Client(read_address(str(folder)), wait_s=30)

    hub = ChangeHub()
    mirror = ClusterMirror(connect, hub)
    mirror.start()
    path = f"{folder}/{name}"
    options = WebOptions(conf_dir=str(folder), port=None, socket=path, is_read_only=read_only)
    context = new_context(connect(), mirror, hub, options, may_leave=not read_only, services=None)
    sessions = WebSessions()
    listening = threading.Event()
    made: list[Pages] = []

    def entered() -> None:
        made[0].entered_count += 1

    server = WebServer(new_application(context, sessions, COOKIE, entered), hub, listening.set)
    made.append(Pages(context, sessions, server, path))
    made[0].thread.start()
    assert listening.wait(PATIENCE_S)
    assert os.path.exists(path)
    return made[0]
