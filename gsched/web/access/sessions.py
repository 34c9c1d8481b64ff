"""One-time tokens and the sessions that they open. They are kept in memory alone: a restart ends all of them.

Tokens and cookies are kept as digests, so that nothing that could be used again is compared or held longer than needed.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

BYTES = 32
MOST_SESSIONS = 64
"""Of a user; the session that was used the longest ago is ended for a new one."""
IDLE_S = 24 * 3600.0
"""A session that nobody used for so long is over; an open page uses it."""
LIFETIME_S = 7 * 24 * 3600.0
"""So old no session becomes that a password or a token has opened, however much it is used."""


class WebSession:
    """What a browser that was let in has: `csrf` stands in every form that it may send; `user`: whose it is, where one
    server has several.
    """

    def __init__(self, now: float, user: str = "", csrf: str = "") -> None:
        self.csrf = csrf or secrets.token_urlsafe(BYTES)
        self.user = user
        self.begun_at = self.used_at = now
        self.is_over = False
        self.when_over: set[Callable[[], object]] = set()
        """What is called at its end, from the thread that ends it."""

    def has_sent(self, csrf: str) -> bool:
        """Whether a form with this token came from one of its own pages."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode("utf8", "replace"))

    def end(self) -> None:
        """What is still open of it ends, too."""
        self.is_over = True
        for tell in list(self.when_over):
            tell()


class WebSessions:
    """All sessions of this process. `now`: seconds of a monotonic clock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._token = b""
        self._sessions: OrderedDict[bytes, WebSession] = OrderedDict()
        self._of_users: dict[str, WebSession] = {}

    def new_token(self) -> str:
        """A token that opens one session; the one before it counts no longer."""
        token = secrets.token_urlsafe(BYTES)
        self._token = _digest(token)
        return token

    def open(self, token: str) -> str:
        """The cookie of a new session; empty for a token that does not count (any more)."""
        if not self._token or not hmac.compare_digest(_digest(token), self._token):
            return ""
        self._token = b""
        return self.begin()

    def begin(self, user: str = "") -> str:
        """The cookie of a new session of a user who has been proven."""
        cookie = secrets.token_urlsafe(BYTES)
        self._sessions[_digest(cookie)] = WebSession(self._now(), user)
        own = [key for key, session in self._sessions.items() if session.user == user]
        for key in own[: max(0, len(own) - MOST_SESSIONS)]:
            self._sessions.pop(key).end()
        return cookie

    def of(self, user: str) -> WebSession:
        """The one session of a user whom somebody else proves anew with each request."""
        found = self._of_users.get(user)
        if found is None:
            found = self._of_users[user] = WebSession(self._now(), user)
        return found

    def goes_on(self, session: WebSession) -> bool:
        """Whether it is not over, and not too old; to ask is no use of it."""
        if not session.is_over and self._is_late(session) and self._of_users.get(session.user) is not session:
            session.end()
        return not session.is_over

    def use(self, session: WebSession) -> None:
        """Somebody has shown that it is theirs, by something else than its cookie."""
        session.used_at = self._now()

    def _is_late(self, session: WebSession) -> bool:
        now = self._now()
        return now - session.used_at > IDLE_S or now - session.begun_at > LIFETIME_S

    def has_any(self, user: str) -> bool:
        """Whether a session of the user is left."""
        return any(session.user == user for session in self._sessions.values())

    def find(self, cookie: str) -> WebSession | None:
        """The session of that cookie; None when there is none, or none any more."""
        key = _digest(cookie)
        session = self._sessions.get(key)
        if session is None:
            return None
        if self._is_late(session):
            self.close(cookie)
            return None
        session.used_at = self._now()
        self._sessions.move_to_end(key)
        return session

    def end_all(self, user: str) -> None:
        """End all sessions of a user."""
        for key in [key for key, session in self._sessions.items() if session.user == user]:
            self._sessions.pop(key).end()
        session = self._of_users.pop(user, None)
        if session is not None:
            session.end()

    def close(self, cookie: str) -> None:
        """End a session; what is still open of it ends, too."""
        session = self._sessions.pop(_digest(cookie), None)
        if session is not None:
            session.end()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf8", "replace")).digest()
