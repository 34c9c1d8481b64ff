"""A server for webhooks that does what a test says, well or badly, and remembers what it was sent."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

PATIENCE_S = 120.0
"""Catches a hang only."""


@dataclass
class Received:
    """One request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass
class HookServer:
    """Answers on `port` of 127.0.0.1. `answers`: what becomes of the next requests, one after the other; then 200."""

    port: int = 0
    scheme: str = "http"
    answers: list[str] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    arrived: queue.Queue[Received] = field(default_factory=queue.Queue)
    go_on: threading.Event = field(default_factory=threading.Event)
    """Lets those go that were told to wait."""
    broken_off: threading.Event = field(default_factory=threading.Event)
    """Whoever was sent more than anybody reads has gone."""

    def url(self, path: str = "/hook/S3CR3T") -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}{path}"

    def wait(self) -> Received:
        """The next request that nobody has waited for yet. Raises queue.Empty when none comes."""
        return self.arrived.get(timeout=PATIENCE_S)

    def close_to_everybody(self) -> None:
        self.go_on.set()

    def serve(self, connection: socket.socket) -> None:
        request = _read(connection)
        if request is None:
            return
        answer = self.answers.pop(0) if self.answers else "200"
        self.received.append(request)
        self.arrived.put(request)
        _ANSWERS.get(answer.partition(" ")[0], _status)(self, connection, answer)


def _read(connection: socket.socket) -> Received | None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("Content-Length", 0)):
        body += connection.recv(65536)
    method, target, _ = first.split(" ", 2)
    return Received(method, target, headers, body)


def _status(server: HookServer, connection: socket.socket, answer: str) -> None:
    """`429 Retry-After: 7`: a status and headers, with `|` between them."""
    status, _, headers = answer.partition(" ")
    lines = "".join(f"{line.strip()}\r\n" for line in headers.split("|") if line.strip())
    connection.sendall(f"HTTP/1.1 {status} X\r\n{lines}Content-Length: 2\r\n\r\nok".encode())


def _wait(server: HookServer, connection: socket.socket, answer: str) -> None:
    """No answer before the test lets it go; then 200."""
    server.go_on.wait(PATIENCE_S)
    _status(server, connection, "200")


def _drip(server: HookServer, connection: socket.socket, answer: str) -> None:
    """An answer that never ends, a byte at a time."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not server.go_on.wait(0.05):
        connection.sendall(b"x")


def _flood(server: HookServer, connection: socket.socket, answer: str) -> None:
    """An answer that is longer than anybody wants to read."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n")
    try:
        while not server.go_on.is_set():
            connection.sendall(b"x" * 65536)
    except OSError:
        server.broken_off.set()


def _garbage(server: HookServer, connection: socket.socket, answer: str) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n" * 3)


def _cut(server: HookServer, connection: socket.socket, answer: str) -> None:
    """The connection ends without an answer."""


_ANSWERS: dict[str, Callable[[HookServer, socket.socket, str], None]] = {
    "wait": _wait,
    "drip": _drip,
    "flood": _flood,
    "garbage": _garbage,
    "cut": _cut,
}


@contextlib.contextmanager
def hook_server(*answers: str, tls: ssl.SSLContext | None = None) -> Iterator[HookServer]:
    """A server for the block. Several requests are served at a time."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = HookServer(listening.getsockname()[1], "http" if tls is None else "https", list(answers))

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection:
            if tls is None:
                server.serve(connection)
            else:
                with tls.wrap_socket(connection, server_side=True) as secured:
                    server.serve(secured)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                connection.settimeout(PATIENCE_S)
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close_to_everybody()
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(PATIENCE_S)
