"""What stands before the services of jobs: requests under their names, from browsers to which they were opened.

A service is opened from its job's page, which gives the browser a token that works once; it becomes a cookie of the
service's name alone. It checks, in this order: the name, where the request comes from, the cookie. All else goes to
gsched's pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gsched.base.errors import GschedError, Unavailable
from gsched.base.ids import show_job
from gsched.web.access.gate import cookie_of
from gsched.web.access.sessions import WebSession
from gsched.web.pages.page_context import WebContext, status_of, words_of
from gsched.web.services.service_names import OWN_PATH, ServicePlace
from gsched.web.services.service_origins import refusal
from gsched.web.services.service_pool import ServicePool
from gsched.web.services.service_requests import ServiceRequest
from gsched.web.services.service_sessions import ServiceSessions
from gsched.web.services.service_sockets import carry_socket
from gsched.web.shown.job_address import read_job
from gsched.wire.calls.client import Client

AGAIN_S = 2
"""How often a page that waits for a service looks again."""
LOOK_S = 2.0
"""How often it is looked at whether the session of the pages goes on."""
NOTE_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


AliasOf = Callable[[Headers], str]
"""What a new token or cookie is to begin with, by the request for it."""


def no_alias(_: Headers) -> str:
    """Where there is no front that has to find the user's process."""
    return ""


class ServiceGate:
    """An ASGI application in front of `inner`, gsched's own pages. `client`: for services alone; `cookie`: the name of
    the services' own.
    """

    def __init__(
        self,
        inner: ASGIApp,
        context: WebContext,
        client: Client,
        sessions: ServiceSessions,
        cookie: str,
        place: ServicePlace,
        alias_of: AliasOf = no_alias,
    ) -> None:
        self._inner = inner
        self._context = context
        self._client = client
        self._sessions = sessions
        self._cookie = cookie
        self._place = place
        self._alias_of = alias_of
        self._pool = ServicePool()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            try:
                await self._inner(scope, receive, send)
            finally:
                self._pool.close()
            return
        hosts = Headers(scope=scope).getlist("host")
        job_id = self._place.job_of(hosts)
        if not job_id:
            await self._inner(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(job_id, hosts[0], scope, receive, send)
        else:
            await self._websocket(job_id, hosts[0], scope, receive, send)

    async def _http(self, job_id: int, host: str, scope: Scope, receive: Receive, send: Send) -> None:
        request, origin = Request(scope), f"{self._place.scheme}://{host}"
        if why := refusal(scope, self._place.scheme):
            await PlainTextResponse(why, 403)(scope, receive, send)
            return
        if scope["path"] == OWN_PATH:
            await self._enter(job_id, request)(scope, receive, send)
            return
        session = self._session(job_id, request)
        if session is None:
            await self._note(request, job_id, status=401)(scope, receive, send)
            return
        asked = ServiceRequest(self._pool, self._client, job_id, origin.encode())
        try:
            await asked.answer(scope, receive, send, lambda: _until_over(session))
        except GschedError as error:
            await self._refused(request, job_id, error)(scope, receive, send)

    async def _websocket(self, job_id: int, host: str, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._session(job_id, HTTPConnection(scope))
        origin = f"{self._place.scheme}://{host}"
        if session is None or Headers(scope=scope).getlist("origin") != [origin]:
            await send({"type": "websocket.close", "code": 1008})
            return
        await receive()  # that it wants to be connected
        connection = (scope, receive, send)
        try:
            await carry_socket(
                self._pool, self._client, job_id, origin.encode(), connection, lambda: _until_over(session)
            )
        except GschedError as error:
            await send({"type": "websocket.close", "code": 1013, "reason": error.text[:100]})

    def _session(self, job_id: int, request: HTTPConnection) -> WebSession | None:
        return self._sessions.find(job_id, cookie_of(request.headers.getlist("cookie"), self._cookie))

    def _enter(self, job_id: int, request: Request) -> Response:
        """A page that leads on, no redirection: browsers would not send the cookie along (see LoginPages.enter)."""
        token = request.query_params.get("token", "")
        opened = self._sessions.open(job_id, token, self._alias_of(request.headers))
        if not opened:
            return self._note(request, job_id, status=401)
        answer = self._note(request, job_id, leads_to="/")
        is_secure = self._place.scheme == "https"
        answer.set_cookie(self._cookie, opened, httponly=True, secure=is_secure, samesite="strict", path="/")
        return answer

    def _refused(self, request: Request, job_id: int, error: GschedError) -> Response:
        """What is wrong; a page looks again by itself where that may pass."""
        status = status_of(error)
        if "text/html" not in request.headers.get("accept", "") or request.method != "GET":
            return PlainTextResponse(f"{error.text}\n", status, {"cache-control": "no-store"})
        again = AGAIN_S if isinstance(error, Unavailable) else None
        return self._note(request, job_id, status=status, text=error.text, again_s=again)

    def _note(
        self,
        request: Request,
        job_id: int,
        *,
        status: int = 200,
        text: str = "",
        again_s: int | None = None,
        leads_to: str = "",
    ) -> Response:
        """A page of gsched's own under the service's name: it loads nothing, for all other paths are the service's."""
        template = self._context.templates.get_template("service_note.html")
        page = template.render(t=words_of(request), job=show_job(job_id), text=text, again_s=again_s, leads_to=leads_to)
        headers = {
            "cache-control": "no-store",
            "content-security-policy": NOTE_POLICY,
            "referrer-policy": "no-referrer",
        }
        return Response(page, status, headers, "text/html")


def open_service(
    sessions: ServiceSessions, place: ServicePlace, alias_of: AliasOf = no_alias
) -> Callable[[WebContext, Request], Response]:
    """What answers `/jobs/JOB/service`: leads to the service, with a token for this browser."""

    def opened(context: WebContext, request: Request) -> Response:
        job_id = read_job(request.path_params["job"])
        token = sessions.new_token(job_id, request.state.session, alias_of(request.headers))
        return RedirectResponse(f"{place.origin(job_id, request.headers['host'])}{OWN_PATH}?token={token}", 303)

    return opened


async def _until_over(session: WebSession) -> None:
    while not session.is_over:
        await asyncio.sleep(LOOK_S)
