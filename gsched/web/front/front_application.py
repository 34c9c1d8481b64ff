"""The front's application: finds out who asks, and hands the request on to the process of that user.

In this order: whom the request says that it speaks to, its origin when it would change something, who asks (a session
that a password has opened, or the proxy's word), and only then what it wants. What it does itself is to log in and out
and to serve style sheets and scripts; it knows nothing of pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator

from starlette.datastructures import Headers, QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from gsched.base.errors import GschedError, PermissionDenied, Unavailable
from gsched.web.access.form_reading import read_fields
from gsched.web.access.gate import cookie_of, with_headers
from gsched.web.access.service_aliases import ServiceAliases
from gsched.web.access.sessions import WebSession, WebSessions
from gsched.web.access.web_place import WebPlace
from gsched.web.front.connection_shares import plain_address
from gsched.web.front.front_pages import FrontPages
from gsched.web.front.keeper_link import KeeperLink
from gsched.web.front.keeper_messages import (
    ALIAS_HEADER,
    CSRF_HEADER,
    LONGEST_PASSWORD,
    SERVICE_COOKIE,
    KeeperAnswer,
    KeeperTask,
)
from gsched.web.front.login_limits import LoginLimits
from gsched.web.front.proxied_user import ProxiedUser
from gsched.web.front.request_carrier import Carried, Header
from gsched.web.front.socket_carrier import carry_bytes, refused_socket, socket_head
from gsched.web.services.service_names import OPENING, OWN_PATH, ServicePlace
from gsched.web.services.service_origins import refusal as service_refusal

log = logging.getLogger(__name__)

COOKIE = "__Host-gsched"
"""Browsers keep a cookie of such a name for this very host, and send it by TLS alone."""
MOST_OPEN = 128
"""Requests of a user at a time, open pages among them."""
STILL_S = 330.0
"""So often the keeper is asked about the user of an answer that goes on: a little more seldom than it asks PAM."""
FORM_S = 20.0
LONGEST_FORM = 16 * 1024
LONGEST_USER = 255
BAD_REQUEST = 400
NOT_OPENED = "Open this service from the page of its job.\n"


class FrontApplication:
    """`link` leads to the keeper; `proxied` is asked instead of passwords where it is on."""

    def __init__(
        self,
        link: KeeperLink,
        sessions: WebSessions,
        proxied: ProxiedUser,
        place: WebPlace,
        pages: FrontPages,
        limits: LoginLimits,
        services: ServicePlace,
    ) -> None:
        self._link = link
        self._sessions = sessions
        self._proxied = proxied
        self._place = place
        self._pages = pages
        self._limits = limits
        self._services = services
        self._aliases = ServiceAliases()
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] != "lifespan":
                await send({"type": "websocket.close", "code": 1008})
            return
        guarded = with_headers(send)
        try:
            answer = await self._answer(scope, receive, guarded, send)
        except GschedError as error:
            answer = self._pages.problem(Request(scope), error)
        if answer is not None:
            await answer(scope, receive, guarded)

    async def _answer(self, scope: Scope, receive: Receive, guarded: Send, send: Send) -> Response | None:
        """What the front itself says; None when the user's process has answered."""
        if _has_gone(scope):
            return PlainTextResponse("The connection is over.\n", 400)
        if self._services.job_of(Headers(scope=scope).getlist("host")):
            return await self._service(scope, receive, send)
        refusal = self._place.refusal(scope)
        if refusal is not None:
            return refusal
        path, method = scope["path"], scope["method"]
        if path.startswith("/assets/") and method in ("GET", "HEAD"):
            return self._pages.asset(path.removeprefix("/assets/"), Request(scope))
        user = self._proxied.user_of(scope)
        if user:
            session = self._sessions.of(user)
        elif self._proxied.is_on:
            return PlainTextResponse("Only the proxy is served here.\n", 403)
        else:
            own = {("POST", "/login"): self._log_in, ("POST", "/leave"): self._leave}.get((method, path))
            if own is not None:
                return await own(Request(scope, receive))
            found = self._session(Headers(scope=scope))
            if found is None:
                return self._pages.login(Request(scope), 401)
            session = found
        own_headers = [(CSRF_HEADER.encode(), session.csrf.encode())]
        if self._services.domains and OPENING.fullmatch(path):
            own_headers.append(_alias(self._aliases.for_token(session)))
        await self._carry(session, scope, receive, send, own_headers)
        return None

    def _session(self, headers: Headers) -> WebSession | None:
        return self._sessions.find(cookie_of(headers.getlist("cookie"), COOKIE))

    # -- pages of the user --------------------------------------------------------------------------------------------

    async def _carry(
        self,
        session: WebSession,
        scope: Scope,
        receive: Receive,
        send: Send,
        own: list[Header],
        *,
        takes_time: bool = False,
    ) -> None:
        """`own`: what the user's process is told. Raises PermissionDenied, Unavailable."""
        async with self._opened(session, scope) as (path, over):
            await Carried(scope, receive, send, COOKIE, takes_time=takes_time).carry(path, own, over)

    @contextlib.asynccontextmanager
    async def _opened(self, session: WebSession, scope: Scope) -> AsyncIterator[tuple[str, asyncio.Event]]:
        """Where the user's process listens, and what is set when the session is over. Raises PermissionDenied,
        Unavailable.
        """
        user = session.user
        scope["headers"] = self._proxied.without_name(scope["headers"])
        if self._open[user] >= MOST_OPEN:
            raise Unavailable(f"{MOST_OPEN} requests of yours are open")
        self._open[user] += 1
        over = asyncio.Event()
        session.when_over.add(over.set)
        watching = None
        try:
            place = await self._process_of(user, scope)
            watching = asyncio.create_task(self._watch(user, scope))
            yield place.path, over
        finally:
            if watching is not None:
                watching.cancel()
            session.when_over.discard(over.set)
            self._open[user] -= 1
            self._open += Counter()

    # -- services of jobs ---------------------------------------------------------------------------------------------

    async def _service(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """A request to a job's service: the process of whoever has opened it decides. Raises PermissionDenied,
        Unavailable.
        """
        if why := service_refusal(scope, self._services.scheme):
            return PlainTextResponse(why, 403)
        session = self._service_session(scope)
        if session is None:
            return PlainTextResponse(NOT_OPENED, 401)
        # A service is told nothing of the session; the user's process alone hears of the alias.
        own = [_alias(self._aliases.for_cookie(session))] if scope["path"] == OWN_PATH else []

        async def noting_use(message: Message) -> None:
            # The alias has proven nothing; an answer says that the secret behind it is right.
            if message["type"] == "http.response.start" and message["status"] < BAD_REQUEST:
                self._sessions.use(session)
            await send(message)

        await self._carry(session, scope, receive, noting_use, own, takes_time=True)
        return None

    async def carry_socket(self, scope: Scope, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A websocket, which jobs' services alone have, from a page of the very service. The caller closes `writer`."""
        headers = Headers(scope=scope)
        hosts, session = headers.getlist("host"), None
        if _has_gone(scope):
            return
        try:
            if self._services.job_of(hosts) and headers.getlist("origin") == [f"{self._services.scheme}://{hosts[0]}"]:
                session = self._service_session(scope)
            if session is None:
                writer.write(refused_socket(403))
                return
            async with self._opened(session, scope) as (path, over):
                await carry_bytes(path, socket_head(scope, COOKIE), reader, writer, over)
        except GschedError as error:
            writer.write(refused_socket(503 if isinstance(error, Unavailable) else 403))

    def _service_session(self, scope: Scope) -> WebSession | None:
        """The session that has opened the service in this browser, by what the browser shows of it; the user's process
        looks whether it is true. Raises PermissionDenied, BadRequest.
        """
        user = self._proxied.user_of(scope)
        if scope["path"] == OWN_PATH:
            token = QueryParams(scope["query_string"]).get("token", "")
            session = self._aliases.of_token(token.partition(".")[0])
        else:
            shown = cookie_of(Headers(scope=scope).getlist("cookie"), SERVICE_COOKIE)
            session = self._aliases.of_cookie(shown.partition(".")[0])
        if session is None or not self._sessions.goes_on(session) or (self._proxied.is_on and session.user != user):
            return None
        return session

    async def _process_of(self, user: str, scope: Scope) -> KeeperAnswer:
        """Where it listens. All sessions of a user end who may have none. Raises PermissionDenied, Unavailable."""
        try:
            return await self._link.ask(KeeperTask.PROCESS, user, address=_address_of(scope))
        except PermissionDenied:
            self._sessions.end_all(user)
            raise

    async def _watch(self, user: str, scope: Scope) -> None:
        """While an answer goes on: its session ends when the user may have no pages any more."""
        with contextlib.suppress(PermissionDenied):
            while True:
                await asyncio.sleep(STILL_S)
                with contextlib.suppress(Unavailable):
                    await self._process_of(user, scope)

    # -- in and out ---------------------------------------------------------------------------------------------------

    async def _log_in(self, request: Request) -> Response:
        """A form with user and password, from a page of ours: its origin has been looked at."""
        try:
            async with asyncio.timeout(FORM_S):
                fields = await read_fields(request, LONGEST_FORM)
        except (TimeoutError, ClientDisconnect):
            return PlainTextResponse("The form has not come.\n", 408, {"connection": "close"})
        user, password, onward = (fields.get(name, [""])[-1] for name in ("user", "password", "onward"))
        address = _address_of(request.scope)
        user = user.strip()
        if not user or not password or len(user) > LONGEST_USER or len(password) > LONGEST_PASSWORD:
            return self._pages.login(request, 400, "login.incomplete", user=user, onward=onward)
        wait_s = self._limits.enter(user, address)
        if wait_s:
            _note(user, address, "limited")
            return self._pages.login(request, 429, "login.later", user=user, onward=onward, wait_s=wait_s)
        try:
            proven = await self._link.ask(KeeperTask.PROVE, user, password=password, address=address)
        except PermissionDenied:
            _note(user, address, "refused")
            return self._pages.login(request, 403, "login.wrong", user=user, onward=onward)
        self._limits.succeeded(user, address)
        _note(proven.user, address, "ok")
        self._close(request)
        answer = RedirectResponse(own_path(onward), 303)
        cookie = self._sessions.begin(proven.user)
        answer.set_cookie(COOKIE, cookie, httponly=True, secure=True, samesite="strict", path="/")
        return answer

    async def _leave(self, request: Request) -> Response:
        """End the session; a page of ours has asked for it, and the browser has shown its cookie."""
        user = self._close(request)
        if user and not self._sessions.has_any(user):
            await self._link.ask(KeeperTask.END, user)
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")
        return answer

    def _close(self, request: Request) -> str:
        """End the session that the browser has; returns whose it was, or nothing."""
        cookie = cookie_of(request.headers.getlist("cookie"), COOKIE)
        session = self._sessions.find(cookie)
        self._sessions.close(cookie)
        return session.user if session is not None else ""


def own_path(onward: str) -> str:
    """Where a log-in leads on: a path of this server, and never another one."""
    is_own = onward.startswith("/") and not onward.startswith(("//", "/\\")) and onward.isprintable()
    return onward if is_own and onward.isascii() and len(onward) <= 2000 else "/"


def _has_gone(scope: Scope) -> bool:
    """Whether the connection of the port was reset: nobody knows whose it was."""
    return scope["scheme"] == "https" and scope["client"] is None


def _alias(alias: str) -> Header:
    return ALIAS_HEADER.encode(), alias.encode()


def _address_of(scope: Scope) -> str:
    """Of the browser, or of the proxy before it; empty for one on this host."""
    client = scope["client"]
    return plain_address(client[0]) if client is not None else ""


def _note(user: str, address: str, outcome: str) -> None:
    log.info("login user=%s from=%s outcome=%s", json.dumps(user), address or "-", outcome)
