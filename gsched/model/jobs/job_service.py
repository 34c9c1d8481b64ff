"""The service of a job: a program with a page of its own (gsub --service), on a port of the job's first host.

What the job is told of it, what the option takes, and why one is ended. Its secret stands in the attempt's environment
alone: nothing here is one. Nothing here listens or connects.
"""

from __future__ import annotations

AUTO_PORT = "auto"
"""JobSpec.service of one for which its agent chooses a port that is free; otherwise that is the number of a port."""
LEAST_PORT, MOST_PORT = 1024, 65535
"""Lower ports are root's."""
MOST_USERS = 100
"""Whom a job's owner names that may use its service."""

PORT, TOKEN, URL = "GSCHED_SERVICE_PORT", "GSCHED_SERVICE_TOKEN", "GSCHED_SERVICE_URL"
VARIABLES = (PORT, TOKEN, URL)
"""What the job is told: the port that it is to listen on at 127.0.0.1, a secret that who asks there has to know, and
the address on its own host."""
HOST = "localhost"
"""Whom its visitors seem to ask."""

SERVICE_IDLE = "TERM_SERVICE_IDLE"
"""Keyword of a job that is ended by SERVICE_IDLE of its queue."""


def is_service(text: str) -> bool:
    """Whether JobSpec.service may say that."""
    if text == AUTO_PORT:
        return True
    return text.isascii() and text.isdigit() and len(text) < 6 and LEAST_PORT <= int(text) <= MOST_PORT
