"""Who asks by the word of a reverse proxy: the one header that is agreed on, from the addresses that are named, alone.

The address is that of the connection, never what a header such as X-Forwarded-For says. A header in another spelling
(`_` for `-`) counts as the same, for a proxy might let one pass and another program take it for the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from gsched.base.errors import BadRequest, PermissionDenied
from gsched.web.front.connection_shares import plain_address

Scope = Any


class ProxiedUser:
    """`header`: in lower case; `addresses`: of proxies; `has_socket`: one on this host comes by a socket of its own."""

    def __init__(self, header: str, addresses: Collection[str], *, has_socket: bool) -> None:
        self._header = header
        self._addresses = frozenset(addresses)
        self._has_socket = has_socket

    @property
    def is_on(self) -> bool:
        """Whether anybody's word counts."""
        return bool(self._addresses) or self._has_socket

    def user_of(self, scope: Scope) -> str:
        """Whom the proxy names; empty for a connection that is no proxy's and names nobody.

        Raises PermissionDenied for a name from elsewhere, BadRequest for none or several from a proxy.
        """
        named = [value for name, value in scope["headers"] if self._is_meant(name)]
        if not self.is_believed(scope):
            if named:
                raise PermissionDenied(f"the header {self._header} counts from the proxy alone")
            return ""
        if len(named) != 1 or not named[0].strip():
            raise BadRequest(f"the proxy must name one user in the header {self._header}, not {len(named)}")
        try:
            return str(named[0].decode("ascii"))
        except UnicodeDecodeError:
            raise BadRequest(f"the header {self._header} is no user's name") from None

    def without_name(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """These without the proxy's word, which nobody behind the front is told."""
        return [(name, value) for name, value in headers if not self._is_meant(name)]

    def is_believed(self, scope: Scope) -> bool:
        """Whether the connection is a proxy's."""
        if scope["scheme"] != "https":
            return self._has_socket  # the port has TLS, always
        client = scope["client"]  # None of a connection that its other end has reset
        return client is not None and plain_address(client[0]) in self._addresses

    def _is_meant(self, name: bytes) -> bool:
        return name.lower().replace(b"_", b"-") == self._header.encode().replace(b"_", b"-")
