"""What is known of the daemons of a cluster's hosts."""

from __future__ import annotations

import msgspec

from gsched.base.coded_text import AnyText

CONNECTED, REFUSED, AWAY = "connected", "refused", "away"
STOP, RESTART = "stop", "restart"


class DaemonView(msgspec.Struct, frozen=True, kw_only=True):
    """A master or an agent, as it told of itself when it came."""

    kind: str
    """master, agent"""
    host: str
    state: str = AWAY
    """connected; refused: it runs, and the master does not talk to it; away: it is not there, or was not yet."""
    version: str = ""
    protocol: int = 0
    pid: int = 0
    since: float | None = None
    """Since when it is in this state, in seconds since 1970; None: it has not been seen since the master started."""
    problem: AnyText = ""
    """Why it is refused."""
