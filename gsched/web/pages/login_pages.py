"""How a browser comes in: by the one-time token of the address that `gsched web` has printed; and how it leaves."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gsched.web.access.gate import cookie_of
from gsched.web.access.sessions import WebSessions
from gsched.web.pages.page_context import WebContext, show


class LoginPages:
    """`on_entered` is called when a token was used: the next browser needs another one."""

    def __init__(
        self, context: WebContext, sessions: WebSessions, cookie: str, on_entered: Callable[[], object]
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._cookie = cookie
        self._on_entered = on_entered

    def enter(self, request: Request) -> Response:
        """Answer `/enter?token=...`.

        The answer is a page that leads on, no redirection: where that began at another place (a mail, a chat), browsers
        would not send the cookie along, which is for this site alone.
        """
        opened = self._sessions.open(request.query_params.get("token", ""))
        if not opened:
            return self.wanted(request)
        self._on_entered()
        answer = show(self._context, request, "entered.html", {})
        answer.set_cookie(self._cookie, opened, httponly=True, samesite="strict", path="/")
        return answer

    def wanted(self, request: Request) -> Response:
        """What somebody gets who has no session."""
        return show(self._context, request, "wants_login.html", {}, 401)

    def leave(self, request: Request) -> Response:
        """End the session."""
        self._sessions.close(cookie_of(request.headers.getlist("cookie"), self._cookie))
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(self._cookie, path="/")
        return answer
