"""What browsers call this server, and what of a request must agree with it: its Host, and its Origin where it would
change something.

A request that names another host comes from a page that has had its own name point here; one of another origin comes
from a page of somebody else.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import Scope

READING = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class WebPlace:
    """`names`: hosts, in lower case, whatever the port; `scheme`: of origins."""

    names: frozenset[str]
    scheme: str

    def refusal(self, scope: Scope) -> Response | None:
        """What somebody is told whose request is not from here; None for one that may go on."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name_of(hosts[0]) not in self.names:
            return PlainTextResponse("This is not the host that was asked for.\n", 421)
        if scope["method"] not in READING and headers.getlist("origin") != [f"{self.scheme}://{hosts[0]}"]:
            return PlainTextResponse("The request does not come from a page of this server.\n", 403)
        return None


OWN_PLACE = WebPlace(frozenset({"127.0.0.1", "localhost", "[::1]"}), "http")
"""What a browser of this machine calls it, also through a tunnel of ssh."""


def _name_of(host: str) -> str:
    """A Host header without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isascii() and port.isdigit() else host).lower()
