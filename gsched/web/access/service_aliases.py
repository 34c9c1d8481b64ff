"""Random words by which the front finds whose session opened a service: its token and its cookie begin with one each.

The user's process alone knows the rest of them, so an alias proves nothing. Each is for one token or one cookie, and
says nothing of others: who learns one has learned nothing of the session.
"""

from __future__ import annotations

import secrets
import weakref
from collections import OrderedDict

from gsched.web.access.sessions import WebSession

BYTES = 16
MOST_TOKENS = 64
MOST_COOKIES = 256
"""Of a session; the one that was used the longest ago goes for a new one."""


class _Aliases:
    """Those of one kind; they go with their session."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sessions: weakref.WeakValueDictionary[str, WebSession] = weakref.WeakValueDictionary()
        self._of: weakref.WeakKeyDictionary[WebSession, OrderedDict[str, None]] = weakref.WeakKeyDictionary()

    def new(self, session: WebSession) -> str:
        alias = secrets.token_urlsafe(BYTES)
        own = self._of.setdefault(session, OrderedDict())
        own[alias] = None
        self._sessions[alias] = session
        while len(own) > self._most:
            self._sessions.pop(own.popitem(last=False)[0])
        return alias

    def find(self, alias: str) -> WebSession | None:
        session = self._sessions.get(alias)
        if session is not None:
            self._of[session].move_to_end(alias)
        return session

    def take(self, alias: str) -> WebSession | None:
        session = self._sessions.pop(alias, None)
        if session is not None:
            del self._of[session][alias]
        return session


class ServiceAliases:
    """All of the front."""

    def __init__(self) -> None:
        self._tokens = _Aliases(MOST_TOKENS)
        self._cookies = _Aliases(MOST_COOKIES)

    def for_token(self, session: WebSession) -> str:
        """A new one, for a token that is to open a service."""
        return self._tokens.new(session)

    def for_cookie(self, session: WebSession) -> str:
        """A new one, for the cookie of a service that is being opened."""
        return self._cookies.new(session)

    def of_token(self, alias: str) -> WebSession | None:
        """Whose it is; once."""
        return self._tokens.take(alias)

    def of_cookie(self, alias: str) -> WebSession | None:
        """Whose it is."""
        return self._cookies.find(alias)
