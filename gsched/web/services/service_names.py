"""The names under which services are reached: `job-17.localhost`, `job-17-3.localhost` for an element of an array.

Browsers take every name below localhost for this machine (RFC 6761), and each for an origin of its own. In a shared
cluster they are below a name that the site has chosen, such as `job-17.gpu.example.org`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from gsched.base.errors import NotFound
from gsched.base.ids import array_of, index_of
from gsched.web.shown.job_address import read_job

LOCALHOST = "localhost"
OWN_PATH = "/.gsched/enter"
"""The only path under a service's name that is not the service's."""
OPENING = re.compile(r"/jobs/[^/]+/service")
"""The page of gsched's own that leads to a service."""
_NAME = re.compile(
    r"job-([0-9]{1,11})(?:-([0-9]{1,11}))?\.([a-z0-9_.-]{1,255})(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE
)


def service_name(job_id: int, domain: str = LOCALHOST) -> str:
    """The name of the job's service."""
    index = index_of(job_id)
    return f"job-{array_of(job_id)}-{index}.{domain}" if index else f"job-{job_id}.{domain}"


def job_of_name(host: str, domains: Collection[str] = (LOCALHOST,)) -> int:
    """The job whose service a Host header names; 0: none."""
    found = _NAME.fullmatch(host)
    if found is None or found[3].lower() not in domains:
        return 0
    try:
        return read_job(f"{found[1]}.{found[2]}" if found[2] else found[1])
    except NotFound:
        return 0


@dataclass(frozen=True, slots=True)
class ServicePlace:
    """Where services are: `domains` in lower case, `scheme` of their origins."""

    scheme: str = "http"
    domains: tuple[str, ...] = (LOCALHOST,)

    def job_of(self, hosts: list[str]) -> int:
        """The job whose service the Host headers of a request name; 0: none."""
        return job_of_name(hosts[0], self.domains) if len(hosts) == 1 else 0

    def origin(self, job_id: int, host: str) -> str:
        """Of the job's service, for a browser that calls gsched's own pages `host` (a Host header)."""
        name, colon, port = host.rpartition(":")
        has_port = bool(colon) and port.isdigit()
        own = (name if has_port else host).lower()
        domain = own if own in self.domains else self.domains[0]
        return f"{self.scheme}://{service_name(job_id, domain)}" + (f":{port}" if has_port else "")
