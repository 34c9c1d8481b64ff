"""How many sessions the system lets the master have: each agent, each command is an open file of it."""

from __future__ import annotations

import logging

from gsched.base.openfiles import raise_limit

log = logging.getLogger(__name__)

OTHERS = 512
"""For commands, programs that follow something, the store."""


def allow_sessions(hosts: int) -> None:
    """Raise this process's limit of open files as far as it may; say so when it is too low for that many hosts."""
    limit = raise_limit()
    if limit is not None and limit < hosts + OTHERS:
        log.warning(
            "this process may open %d files (ulimit -Hn), and %d hosts need %d: some agents will not get through",
            limit,
            hosts,
            hosts + OTHERS,
        )
