"""Headers on their way to a service and back, without those about the connection, about gsched, or about its names.

To the service its visitor seems to be a browser on its own host, so that it needs to know no other name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gsched.model.jobs.job_service import HOST

RawHeader = tuple[bytes, bytes]

_OF_CONNECTION = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade expect".split()
)
"""What is between two neighbours alone (RFC 9110, 7.6.1)."""
_NOT_SENT = frozenset(b"host origin referer cookie forwarded".split())
"""What is written anew, or of whom it is said that they stand between."""
_NOT_TAKEN = frozenset(b"strict-transport-security alt-svc set-cookie location cross-origin-resource-policy".split())
"""What would bind the browser beyond this answer, or is written anew."""
_ADDED = (
    (b"cross-origin-resource-policy", b"same-origin"),
    # Beside what the service says itself: browsers obey every one of these headers.
    (b"content-security-policy", b"frame-ancestors 'self'"),
)
"""Pages of other jobs, which are of the same site, neither show an answer nor have it in a frame."""
_OWN = b"gsched-"
"""With this all headers of gsched's own begin."""
_OF_SOCKET = b"sec-websocket-"
_DOMAIN = re.compile(rb";\s*domain\s*=[^;]*", re.IGNORECASE)
COOKIES = (b"gsched", b"__host-gsched")
"""With one of these all cookies of gsched's own begin."""


def to_service(headers: Iterable[RawHeader], origin: bytes, port: int, secret: str) -> list[RawHeader]:
    """What the service is sent of a request that came from `origin`, the name of the service."""
    given = list(headers)
    own, is_known = f"http://{HOST}:{port}".encode(), False
    found: list[RawHeader] = [(b"host", f"{HOST}:{port}".encode())]
    for name, value in _end_to_end(given):
        if name in _NOT_SENT or name.startswith((b"x-forwarded-", _OWN, _OF_SOCKET)):
            continue
        is_known = is_known or name == b"authorization"
        found.append((name, value))
    for name, value in given:
        if name == b"origin":
            found.append((name, own))
        elif name == b"referer" and value.startswith(origin + b"/"):
            found.append((name, own + value[len(origin) :]))
    cookies = b"; ".join(filter(None, (_own_cookies(value) for name, value in given if name == b"cookie")))
    if cookies:
        found.append((b"cookie", cookies))
    scheme, _, host = origin.partition(b"://")
    found += [(b"x-forwarded-host", host), (b"x-forwarded-proto", scheme)]
    if not is_known:
        found.append((b"authorization", b"Bearer " + secret.encode()))
    return found


def from_service(headers: Iterable[RawHeader], port: int) -> list[RawHeader]:
    """What the browser gets of an answer."""
    given = [(name.lower(), value) for name, value in headers]
    found = [(name, value) for name, value in _end_to_end(given) if name not in _NOT_TAKEN]
    for name, value in given:
        if name == b"location":
            found.append((name, _from_here(value, port)))
        elif name == b"set-cookie" and not value.lstrip(b" \t=").lower().startswith(COOKIES):
            found.append((name, _DOMAIN.sub(b"", value)))
    return [*found, *_ADDED]


def _end_to_end(headers: Iterable[RawHeader]) -> Iterator[RawHeader]:
    """Those that are not about the connection; a header may name more of these. With a transfer coding the length does
    not count (RFC 9112, 6.3), and who read on by it would take a part of the body for the next message.
    """
    given = list(headers)
    skipped = {b"content-length"} if any(name == b"transfer-encoding" for name, _ in given) else set()
    named = skipped | {
        word.strip().lower() for name, value in given if name == b"connection" for word in value.split(b",")
    }
    return ((name, value) for name, value in given if name not in _OF_CONNECTION and name not in named)


def _own_cookies(line: bytes) -> bytes:
    """The cookies that the service has set."""
    each = (part.strip() for part in line.split(b";"))
    return b"; ".join(part for part in each if part and not part.lower().startswith(COOKIES))


def _from_here(address: bytes, port: int) -> bytes:
    """An address that the service believes to be its own, as a path: the browser knows it by another name."""
    for host in (HOST, "127.0.0.1", "0.0.0.0", "[::1]"):
        own = f"http://{host}:{port}".encode()
        if address == own or address.startswith((own + b"/", own + b"?")):
            rest = address[len(own) :]
            return rest if rest.startswith(b"/") and not rest.startswith(b"//") else b"/" + rest.lstrip(b"/")
    return address
