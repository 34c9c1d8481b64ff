"""How many sessions the system lets the master have: each agent, each command is an open file of it."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger(__name__)

ENOUGH = 65_536
OTHERS = 512
"""For commands, programs that follow something, the store."""


def allow_sessions(hosts: int) -> None:
    """Raise this process's limit of open files as far as it may; say so when it is too low for that many hosts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    most = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if max(soft, most) < hosts + OTHERS:
        log.warning(
            "this process may open %d files (ulimit -Hn), and %d hosts need %d: some agents will not get through",
            max(soft, most),
            hosts,
            hosts + OTHERS,
        )
