"""How many connections there may be, of each address and of all: counted from the moment they are accepted, before TLS.

Uvicorn counts all alike: a thousand silent ones of one address would keep everybody else out.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections import Counter
from typing import Any

MOST_OF_ADDRESS = 256
"""Behind one address there may be the people of a building; a proxy has MOST."""
MOST = 4096
CROWDED_SHARE = 16
"""What an address has when half of all connections are there: many addresses together keep nobody else out."""


class ConnectionShares:
    """`unlimited`: addresses of proxies; an empty address is a unix socket's."""

    def __init__(self, unlimited: frozenset[str] = frozenset()) -> None:
        self._unlimited = unlimited | {""}
        self._of_address: Counter[str] = Counter()
        self._total = 0

    def enter(self, address: str) -> bool:
        """Whether one more may come; `leave` must follow then."""
        crowded = self._total >= MOST // 2
        most = MOST if address in self._unlimited else CROWDED_SHARE if crowded else MOST_OF_ADDRESS
        key = self._key(address)
        if self._total >= MOST or self._of_address[key] >= most:
            return False
        self._of_address[key] += 1
        self._total += 1
        return True

    def leave(self, address: str) -> None:
        """A connection has ended."""
        key = self._key(address)
        self._total -= 1
        self._of_address[key] -= 1
        if not self._of_address[key]:
            del self._of_address[key]

    def _key(self, address: str) -> str:
        return address if address in self._unlimited else counted_address(address)


class CountedListener(socket.socket):
    """A listening socket in whose place asyncio accepts; who comes beyond the share is hung up on at once."""

    shares: ConnectionShares

    @classmethod
    def of(cls, listening: socket.socket, shares: ConnectionShares) -> CountedListener:
        """The same socket, which is taken over."""
        found = cls(listening.family, listening.type, listening.proto, fileno=listening.detach())
        found.shares = shares
        return found

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection. Raises OSError, BlockingIOError when there is none."""
        while True:
            descriptor, peer = self._accept()  # type: ignore[attr-defined]
            address = plain_address(peer[0]) if isinstance(peer, tuple) else ""
            if self.shares.enter(address):
                counted = _CountedConnection(self.family, self.type, self.proto, fileno=descriptor)
                counted.counts = (self.shares, address)
                return counted, peer
            os.close(descriptor)


class _CountedConnection(socket.socket):
    counts: tuple[ConnectionShares, str] | None = None

    def close(self) -> None:
        """It counts no longer."""
        counted, self.counts = self.counts, None
        if counted is not None:
            counted[0].leave(counted[1])
        super().close()


def plain_address(address: str) -> str:
    """As it is written in a configuration: IPv4 also where it came by a socket of both, no interface behind it."""
    return address.removeprefix("::ffff:").partition("%")[0]


def counted_address(address: str) -> str:
    """As which an address counts: of IPv6 its network of 64 bits, for everybody has all addresses of one or more."""
    plain = plain_address(address)
    return str(ipaddress.ip_network((plain, 64), strict=False)) if ":" in plain else plain
