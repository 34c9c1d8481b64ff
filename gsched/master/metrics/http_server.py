"""Serves the page of metrics by HTTP, on a unix socket or a port, in threads that the scheduler does not wait for.

One page and no other; a few readers at a time, each of whom must hurry. Who may read on a port is decided by `readers`;
a unix socket is for its owner (and root) alone, by its mode.
"""

from __future__ import annotations

import logging
import os
import socket
import socketserver
import stat
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from gsched.base.errors import Conflict, GschedError
from gsched.master.metrics.page import Form
from gsched.master.metrics.readers import Readers
from gsched.model.config import MetricsEndpoint

log = logging.getLogger(__name__)

PATH = "/metrics"
MOST_READERS = 16
"""Connections at a time; who comes then is cut off."""
PATIENCE_S = 10.0
"""How long a reader may be silent."""
LOOK_S = 0.5

GivePage = Callable[[Form], bytes]


class MetricsServer:
    """Listens from `start` to `close`. Raises Conflict, with the line of lsf.conf, where it cannot."""

    def __init__(self, endpoint: MetricsEndpoint, page: GivePage, tls_dir: str, host: str) -> None:
        readers = Readers(endpoint, tls_dir, host) if endpoint.port is not None else None
        if readers is not None:
            readers.check()
        handler = _handler(page, readers)
        self._socket = endpoint.socket
        try:
            if readers is None:
                self._server: socketserver.BaseServer = _UnixServer(endpoint.socket, handler)
            else:
                self._server = _PortServer((endpoint.host, endpoint.port), handler, readers)
        except OSError as error:
            where = endpoint.socket or f"{endpoint.host}:{endpoint.port}"
            why = error.strerror or error
            raise Conflict(f"{endpoint.source}: GSCHED_METRICS: {where} cannot be listened on: {why}") from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(LOOK_S,), name="metrics-http", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End listening; blocks for a moment."""
        self._server.shutdown()
        self._server.server_close()
        if self._socket:
            os.unlink(self._socket)


class _Bounded(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A thread for each reader, few at a time."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = MOST_READERS

    def __init__(self, address: Any, handler: type[BaseHTTPRequestHandler]) -> None:
        self._places = threading.BoundedSemaphore(MOST_READERS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Somebody hung up, or has no certificate: it is the reader who must know."""
        log.debug("a reader of metrics was not answered", exc_info=True)


class _UnixServer(_Bounded):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        path = str(self.server_address)
        _remove_stale(path)
        old = os.umask(0o177)
        try:
            self.socket.bind(path)
        finally:
            os.umask(old)


def _remove_stale(path: str) -> None:
    """Remove a socket that nobody listens on any more; whatever else is there stays, and is in the way."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)


class _PortServer(_Bounded):
    def __init__(self, address: Any, handler: type[BaseHTTPRequestHandler], readers: Readers) -> None:
        found = socket.getaddrinfo(address[0], address[1], type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        self._readers = readers
        super().__init__(found[0][4][:2], handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the reader's own thread: the handshake may take a while."""
        request.settimeout(PATIENCE_S)
        secured = self._readers.secured(request)
        try:
            super().finish_request(secured, client_address)
        finally:
            if secured is not request:
                self.shutdown_request(secured)


def _handler(page: GivePage, readers: Readers | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE_S
        server_version, sys_version = "gsched", ""

        def do_GET(self) -> None:
            """Called by http.server for each GET."""
            if readers is not None and not readers.admits(self.connection, self.headers.get("Authorization", "")):
                self._answer(HTTPStatus.UNAUTHORIZED, b"a token or a certificate is needed\n")
            elif self.path.partition("?")[0] != PATH:
                self._answer(HTTPStatus.NOT_FOUND, b"there is /metrics\n")
            else:
                self._give(form_of(self.headers.get("Accept", "")))

        def _give(self, form: Form) -> None:
            try:
                text = page(form)
            except GschedError as error:
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{error.text}\n".encode())
                return
            self._answer(HTTPStatus.OK, text, form.value)

        def _answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if status is HTTPStatus.UNAUTHORIZED:
                self.send_header("WWW-Authenticate", "Bearer")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            log.debug("metrics: " + format, *args)

        def address_string(self) -> str:
            return "metrics"

    return Handler


def form_of(accept: str) -> Form:
    """OpenMetrics, unless only the older text format is asked for."""
    is_older = "text/plain" in accept and Form.OPENMETRICS.partition(";")[0] not in accept
    return Form.TEXT if is_older else Form.OPENMETRICS
