"""What a job with a service is told at its start: a port that nobody has, and a secret of its own.

A port is free when it is chosen, and not kept: who takes it meanwhile is noticed before anybody is connected (see
job_services). Nothing of it is written down but in the attempt's environment, which only its user can read.
"""

from __future__ import annotations

import random
import secrets
import socket
from collections.abc import Collection, Mapping

from gsched.base.errors import ResourceExhausted
from gsched.model.jobs.job_service import AUTO_PORT, HOST, PORT, TOKEN, URL, VARIABLES

PORTS = range(20_000, 30_000)
"""Below those that Linux gives to connections that go out (ip_local_port_range)."""
TRIES = 200
SECRET_BYTES = 32


def service_variables(service: str, taken: Collection[int]) -> Mapping[str, str | None]:
    """Name -> value, None for what is not to be there. `service` as of JobSpec; `taken`: the ports of other jobs here.

    Raises ResourceExhausted when no port is free.
    """
    if not service:  # nor what it has from a job that has submitted it
        return dict.fromkeys(VARIABLES)
    port = free_port(taken) if service == AUTO_PORT else int(service)
    return {PORT: str(port), TOKEN: secrets.token_urlsafe(SECRET_BYTES), URL: f"http://{HOST}:{port}/"}


def free_port(taken: Collection[int]) -> int:
    """One of PORTS that nobody listens on, and that is none of these. Raises ResourceExhausted."""
    for _ in range(TRIES):
        port = random.choice(PORTS)
        if port not in taken and _is_free(port):
            return port
    raise ResourceExhausted(f"no port of {PORTS[0]} to {PORTS[-1]} is free for the job's service")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trying:
        trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # not only because a connection has just ended
        try:
            trying.bind(("", port))
        except OSError:
            return False
    return True
