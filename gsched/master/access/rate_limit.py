"""How often a user may ask, and how much at once: nobody keeps the master from the others. Lives in the gRPC loop.

A bucket of requests per user, filled at the configured rate; a number of calls that may be open at a time, and of those
that look at many jobs. Who comes too often is told when to come again; nothing of his call was carried out.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from gsched.base.errors import ResourceExhausted

BURST_S = 10.0
"""Who has asked for nothing may ask for so many seconds' requests at once."""
MOST_OPEN = 512
"""Calls of a user that are answered at a time, those that follow something among them."""
MOST_WEIGHING = 8
"""Of these, queries that look at many jobs; and as many changes."""
SHORTLY_S = 0.25
"""When to come again where nobody knows when a call ends."""
USERS_KEPT = 1_000
SAID_EVERY_S = 1.0


class RateExceeded(ResourceExhausted):
    """Come again in `after_s` seconds. `to_be_said`: it has not been said in the last second; `unsaid`: how often it
    was not since then.
    """

    def __init__(self, text: str, after_s: float) -> None:
        super().__init__(text)
        self.after_s = after_s
        self.to_be_said = True
        self.unsaid = 0


@dataclass(slots=True)
class _Usage:
    """One user: requests left in the bucket, calls under way."""

    left: float
    at: float
    open: int = 0
    loads: Counter[str] = field(default_factory=Counter)
    said_at: float = float("-inf")
    unsaid: int = 0


class RateLimit:
    """All users who have asked of late. `monotonic` is a clock in seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._users: dict[str, _Usage] = {}

    def enter(self, user: str, per_s: int, *, load: str = "") -> None:
        """A call of the user begins; `leave` must follow. Raises TooMuch: then it has not begun.

        `load`: "queries" or "changes", of which only a few may be under way; "" for what weighs nothing.
        """
        now = self._monotonic()
        usage = self._usage_of(user, per_s, now)
        problem = _problem(user, usage, per_s, load)
        if problem is not None:
            problem.to_be_said = now - usage.said_at >= SAID_EVERY_S
            if problem.to_be_said:
                problem.unsaid, usage.unsaid, usage.said_at = usage.unsaid, 0, now
            else:
                usage.unsaid += 1
            raise problem
        usage.left -= 1.0
        usage.open += 1
        usage.loads[load] += 1

    def leave(self, user: str, *, load: str = "") -> None:
        """The call has ended."""
        usage = self._users[user]
        usage.open -= 1
        usage.loads[load] -= 1

    def _usage_of(self, user: str, per_s: int, now: float) -> _Usage:
        most = per_s * BURST_S
        found = self._users.get(user)
        if found is None:
            if len(self._users) >= USERS_KEPT:
                self._forget(now)
            found = self._users[user] = _Usage(left=most, at=now)
        found.left = min(most, found.left + (now - found.at) * per_s)
        found.at = now
        return found

    def _forget(self, now: float) -> None:
        """Whoever has not asked for so long that his bucket is full again."""
        idle = [user for user, each in self._users.items() if not each.open and now - each.at > BURST_S]
        for user in idle:
            del self._users[user]


def _problem(user: str, usage: _Usage, per_s: int, load: str) -> RateExceeded | None:
    if usage.left < 1.0:
        text = f"more than {per_s} requests a second of {user} (GSCHED_MAX_REQUESTS_PER_S): try again later"
        return RateExceeded(text, max((1.0 - usage.left) / per_s, 0.001))
    if load and usage.loads[load] >= MOST_WEIGHING:
        return RateExceeded(f"{MOST_WEIGHING} {load} of {user} are under way: try again when one is done", SHORTLY_S)
    if usage.open >= MOST_OPEN:
        return RateExceeded(f"{MOST_OPEN} calls of {user} are open: try again when one has ended", SHORTLY_S)
    return None
