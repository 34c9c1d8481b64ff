"""How often somebody may try to log in. Guessing becomes too slow to be of use; who is guessed at is not locked out.

Buckets of tries that fill up again by themselves: of a user from one address, of an address, and of a user from
anywhere, which is the widest. Memory is bounded.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from gsched.web.front.connection_shares import counted_address


class TryRate(NamedTuple):
    """`burst` tries at once; then one more every `every_s` seconds."""

    burst: int
    every_s: float


OF_USER_FROM_ADDRESS = TryRate(5, 30.0)
OF_ADDRESS = TryRate(30, 5.0)
OF_USER = TryRate(60, 2.0)
MOST_KEPT = 10_000


class LoginLimits:
    """`monotonic` is a clock in seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._full_at: OrderedDict[tuple[str, ...], float] = OrderedDict()
        """Bucket -> when it is full again."""

    def enter(self, user: str, address: str) -> float:
        """A try begins: 0.0; or it does not, and this is how many seconds later one may."""
        now = self._monotonic()
        both, of_address, of_user = _keys(user, address)
        buckets = [(both, OF_USER_FROM_ADDRESS), (of_address, OF_ADDRESS), (of_user, OF_USER)]
        waits = [self._full_at.get(key, now) - now - (rate.burst - 1) * rate.every_s for key, rate in buckets]
        if max(waits) > 0:
            return max(waits)
        for key, rate in buckets:
            self._full_at[key] = max(now, self._full_at.get(key, now)) + rate.every_s
            self._full_at.move_to_end(key)
        while len(self._full_at) > MOST_KEPT:
            self._full_at.popitem(last=False)
        return 0.0

    def succeeded(self, user: str, address: str) -> None:
        """The try was the right one: those before it count no longer."""
        self._full_at.pop(_keys(user, address)[0], None)


def _keys(user: str, address: str) -> tuple[tuple[str, ...], ...]:
    """Of a user from an address, of an address, of a user: whom a directory may know by several spellings."""
    name, network = user.casefold().partition("@")[0], counted_address(address)
    return ("both", name, network), ("address", network), ("user", name)
