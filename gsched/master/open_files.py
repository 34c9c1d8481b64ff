"""How many connections the master has: each agent, each command is an open file of it, and the system sets a limit."""

from __future__ import annotations

import logging

from gsched.base.machine.open_files import raise_limit

log = logging.getLogger(__name__)

OTHERS = 512
"""For commands, programs that follow something, the store."""


STORE_AND_LOGS = 256
"""Open files that no connection may take."""


def most_connections(hosts: int) -> int:
    """How many connections a port takes, for a cluster of so many hosts: an agent and a door of each, twice over while
    they come again, and as many more as anybody may try in vain at a time.
    """
    wanted, limit = 4 * hosts + 1024, raise_limit()
    return wanted if limit is None else max(hosts, min(wanted, limit - STORE_AND_LOGS))


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
