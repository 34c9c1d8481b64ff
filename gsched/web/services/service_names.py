"""The names under which services are reached: `job-17.localhost`, `job-17-3.localhost` for an element of an array.

Browsers take every name below localhost for this machine (RFC 6761), and each for an origin of its own.
"""

from __future__ import annotations

import re

from gsched.base.errors import NotFound
from gsched.base.ids import array_of, index_of
from gsched.web.shown.job_address import read_job

_NAME = re.compile(r"job-([0-9]{1,11})(?:-([0-9]{1,11}))?\.localhost(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)


def service_name(job_id: int) -> str:
    """The name of the job's service."""
    index = index_of(job_id)
    return f"job-{array_of(job_id)}-{index}.localhost" if index else f"job-{job_id}.localhost"


def job_of_name(host: str) -> int:
    """The job whose service a Host header names; 0: none."""
    found = _NAME.fullmatch(host)
    if found is None:
        return 0
    try:
        return read_job(f"{found[1]}.{found[2]}" if found[2] else found[1])
    except NotFound:
        return 0
