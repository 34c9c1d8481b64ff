"""Who may use a service in which browser: a session of gsched's own pages opens one for one job, by a token in between.

The cookie of gsched's pages never comes to the name of a service, and the other way round. Kept in memory alone.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from gsched.web.access.sessions import BYTES, WebSession

TOKEN_S = 60.0
"""A token that nobody has used for so long counts no longer."""
MOST_TOKENS = 256
MOST_SESSIONS = 1_000
"""Of either, the oldest one goes for a new one."""


class _Opened(NamedTuple):
    """For which job, by which session of the pages, and until when (a token) in seconds of the clock."""

    job_id: int
    session: WebSession
    until: float = float("inf")


class ServiceSessions:
    """All of this process. `now`: seconds of a monotonic clock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._tokens: OrderedDict[bytes, _Opened] = OrderedDict()
        self._sessions: OrderedDict[bytes, _Opened] = OrderedDict()

    def new_token(self, job_id: int, session: WebSession, alias: str = "") -> str:
        """A token that opens that job's service once, in the browser to which it is given. It begins with `alias`, by
        which the front of a shared cluster finds whose it is.
        """
        return _keep(self._tokens, _Opened(job_id, session, self._now() + TOKEN_S), MOST_TOKENS, alias)

    def open(self, job_id: int, token: str, alias: str = "") -> str:
        """The cookie of a new session, which begins with `alias`; empty for a token that does not count for that job
        (any more).
        """
        found = self._tokens.pop(_digest(token), None)
        if found is None or found.job_id != job_id or found.session.is_over or self._now() > found.until:
            return ""
        return _keep(self._sessions, _Opened(job_id, found.session), MOST_SESSIONS, alias)

    def find(self, job_id: int, cookie: str) -> WebSession | None:
        """The session of the pages by which this one came to be; None when there is none, or that is over."""
        key = _digest(cookie)
        found = self._sessions.get(key)
        if found is None or found.job_id != job_id:
            return None
        if found.session.is_over:
            del self._sessions[key]
            return None
        found.session.used_at = self._now()
        return found.session


def _keep(kept: OrderedDict[bytes, _Opened], opened: _Opened, most: int, alias: str) -> str:
    secret = secrets.token_urlsafe(BYTES)
    word = f"{alias}.{secret}" if alias else secret
    kept[_digest(word)] = opened
    while len(kept) > most:
        kept.popitem(last=False)
    return word


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf8", "replace")).digest()
