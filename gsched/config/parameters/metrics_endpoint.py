"""GSCHED_METRICS of lsf.conf: where the master serves /metrics, and what whoever reads it must show.

It reads texts alone; files and sockets are opened by the master when it starts.
"""

from __future__ import annotations

import ipaddress
import os

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import Findings, show
from gsched.config.grammar.values import KeyValues, absolute_path, host_name, integer
from gsched.model.config import MetricsEndpoint, Network

LAST_PORT = 65535
MAX_SOCKET_BYTES = 107
"""Of the path of a unix socket, see unix(7)."""


def read_metrics(settings: KeyValues, findings: Findings, network: Network) -> MetricsEndpoint:
    """The endpoint; without GSCHED_METRICS there is none. What is wrong goes to `findings`, at its line."""
    socket, host, port = settings.take("GSCHED_METRICS", _where, ("", "", None))
    token_file = settings.take("GSCHED_METRICS_TOKEN_FILE", absolute_path, "")
    at, token_at = settings.place("GSCHED_METRICS"), settings.place("GSCHED_METRICS_TOKEN_FILE")
    if token_at is not None and at is None:
        findings.error(token_at, "GSCHED_METRICS_TOKEN_FILE is for a port that GSCHED_METRICS names, which is not set")
    elif token_at is not None and socket:
        what = "GSCHED_METRICS_TOKEN_FILE is for a port: the socket that GSCHED_METRICS names is for its owner alone"
        findings.error(token_at, what)
    if at is not None and port is not None:
        if port in (network.port, network.munge_port):
            findings.error(at, f"GSCHED_METRICS: the master listens for others on port {port}; take another one")
        elif network.port is None and not _is_loopback(host):
            what = "without LSB_MBD_PORT there are no certificates, so a token would travel in the clear"
            findings.error(at, f"GSCHED_METRICS: {what}: only 127.0.0.1, ::1, localhost or a unix socket is possible")
        elif network.port is None and token_at is None:
            what = "whoever reads a port must prove itself: set GSCHED_METRICS_TOKEN_FILE, or name a unix socket"
            findings.error(at, f"GSCHED_METRICS: {what}")
    return MetricsEndpoint(
        socket=socket,
        host=host,
        port=port,
        token_file=token_file,
        source=str(at) if at is not None else "",
        token_source=str(token_at) if token_at is not None else "",
    )


def _where(text: str) -> tuple[str, str, int | None]:
    """A socket, or a host with a port. Raises BadRequest."""
    if text.startswith("/"):
        path = absolute_path(text)
        size = len(os.fsencode(path))
        if size > MAX_SOCKET_BYTES:
            raise BadRequest(f"the path of the socket has {size} bytes; at most {MAX_SOCKET_BYTES} are possible")
        return path, "", None
    name, colon, port = text.rpartition(":")
    if not colon or not name or not port:
        raise BadRequest(f"'{show(text)}' is neither the path of a unix socket nor HOST:PORT")
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
        try:
            ipaddress.IPv6Address(name)
        except ValueError:
            raise BadRequest(f"'{show(name)}' is no IPv6 address") from None
    else:
        host_name(name)
    return "", name, integer(1, LAST_PORT)(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
