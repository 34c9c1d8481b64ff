"""What stands before every page: it lets requests pass that come from a page of this server, with a session.

It checks, in this order: whom the request says that it speaks to (another name means that a foreign page has had its
own name point here), its origin when it would change something, and its cookie. It never looks at who it says it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gsched.web.access.sessions import WebSession, WebSessions
from gsched.web.access.web_place import WebPlace

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # "no-referrer" would have browsers call the origin of our own forms "null".
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}

WantsLogin = Callable[[Scope], Response]
FindSession = Callable[[Headers], WebSession | None]


class Gate:
    """An ASGI application in front of `inner`. `find`: whose request it is; `is_public`: paths without a session.

    Of a request that may pass, `scope["state"]["session"]` is its session.
    """

    def __init__(
        self,
        inner: ASGIApp,
        find: FindSession,
        place: WebPlace,
        *,
        is_public: Callable[[str], bool],
        wants_login: WantsLogin,
    ) -> None:
        self._inner = inner
        self._find = find
        self._place = place
        self._is_public = is_public
        self._wants_login = wants_login

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no websockets
            await send({"type": "websocket.close", "code": 1008})
            return
        guarded = with_headers(send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, guarded)
        else:
            await self._inner(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        refusal = self._place.refusal(scope)
        if refusal is not None or self._is_public(scope["path"]):
            return refusal
        session = self._find(Headers(scope=scope))
        if session is None:
            return self._wants_login(scope)
        scope.setdefault("state", {})["session"] = session
        return None


def by_cookie(sessions: WebSessions, cookie: str) -> FindSession:
    """Finds the session by the cookie of that name."""
    return lambda headers: sessions.find(cookie_of(headers.getlist("cookie"), cookie))


def cookie_of(lines: Iterable[str], name: str) -> str:
    """The value of the cookie of that name, the last one where there are several; empty when there is none.

    Other programs set cookies for the same name, of any form: what they are does not matter here.
    """
    found = ""
    for line in lines:
        for part in line.split(";"):
            each, equals, value = part.partition("=")
            if equals and each.strip(" \t") == name:
                found = value.strip(" \t")
    return found


def with_headers(send: Send) -> Send:
    """Answers bear HEADERS, unless they have said otherwise, and are kept nowhere."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.lower() for name, _ in message.get("headers", ())}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in own]
            if b"cache-control" not in own:
                more.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return guarded
