"""The process of one user of a shared cluster, started by the keeper: the pages of `gsched web`, as that user.

It listens on a socket that the front alone can reach, and takes the front's word for the session. It ends when nobody
has a page open for a while, and with the keeper. It never serves an account that could read the host's key.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time

import msgspec
import uvicorn
from starlette.datastructures import Headers
from starlette.types import ASGIApp

from gsched.base.errors import GschedError, PermissionDenied
from gsched.base.machine.undumpable import be_undumpable
from gsched.config.configuration import load
from gsched.web.access.sessions import WebSession
from gsched.web.access.web_place import WebPlace
from gsched.web.application import application_behind_front
from gsched.web.front.keeper_messages import ALIAS_HEADER, CSRF_HEADER, READY, SERVICE_COOKIE, UserProcessWords
from gsched.web.mirror.change_hub import ChangeHub
from gsched.web.services.service_names import ServicePlace
from gsched.web.serving import WebOptions, WebServer, open_pages, step_back
from gsched.wire.identity.certificates import key_file

IDLE_S = 600.0
"""Without a request the process ends; the next one starts it again."""


def main() -> int:
    """Serve until nobody is there any more."""
    step_back()
    be_undumpable()  # it is told tokens of sessions: no job of the same user takes them from its memory
    words = msgspec.json.decode(sys.argv[1], type=UserProcessWords)
    for descriptor in (words.line, words.listening):
        os.set_inheritable(descriptor, False)
    with socket.socket(fileno=words.line) as line, socket.socket(fileno=words.listening) as listening:
        try:
            _check_account(words.conf_dir)
            _serve(words, line, listening)
        except GschedError as error:
            with contextlib.suppress(OSError):
                line.sendall(f"{' '.join(error.text.split())}\n".encode())
            return 1
    return 0


def _check_account(conf_dir: str) -> None:
    """Raise PermissionDenied for an account that is a way to a host's key, by which any user can be named."""
    config = load(conf_dir).required()
    if any(os.access(key_file(config.network.tls_dir, host), os.R_OK) for host in config.hosts):
        raise PermissionDenied("this account can read a host's key, so it has no pages")


def _serve(words: UserProcessWords, line: socket.socket, listening: socket.socket) -> None:
    with contextlib.suppress(OSError):
        os.chdir(os.environ.get("HOME", "/"))
    options = WebOptions(conf_dir=words.conf_dir, port=None, is_read_only=words.is_read_only)
    has_services = bool(words.service_domains) and not words.is_read_only
    with open_pages(options, may_leave=words.may_leave, has_services=has_services) as context:
        place = WebPlace(frozenset(words.names), words.scheme)
        services = ServicePlace(words.scheme, words.service_domains)
        application = application_behind_front(context, place, handed_session, services, SERVICE_COOKIE, handed_alias)
        server = UserServer(application, context.hub, line)
        threading.Thread(target=server.end_with_keeper, name="keeper", daemon=True).start()
        server.run([listening])


def handed_session(headers: Headers) -> WebSession | None:
    """The session of a request that the front has handed on; nobody else can send one here."""
    tokens = headers.getlist(CSRF_HEADER)
    if len(tokens) != 1 or not tokens[0]:
        return None
    return WebSession(time.monotonic(), csrf=tokens[0])


def handed_alias(headers: Headers) -> str:
    """What the front wants a service's new token or cookie to begin with."""
    return headers.get(ALIAS_HEADER, "")


class UserServer(WebServer):
    """Says on `line` that it listens; ends when there was no request for IDLE_S, or when the line is closed."""

    def __init__(self, application: ASGIApp, hub: ChangeHub, line: socket.socket) -> None:
        super().__init__(application, hub, lambda: line.sendall(f"{READY}\n".encode()))
        self._line = line
        self._used_at = time.monotonic()

    async def on_tick(self, counter: int) -> bool:
        """Uvicorn asks ten times a second whether to end."""
        now = time.monotonic()
        if self.server_state.connections:
            self._used_at = now
        return await uvicorn.Server.on_tick(self, counter) or now - self._used_at > IDLE_S

    def end_with_keeper(self) -> None:
        """Wait for the end of the keeper, which says nothing before."""
        with contextlib.suppress(OSError):
            self._line.recv(1)
        self.handle_exit(0, None)


if __name__ == "__main__":
    sys.exit(main())
