"""How many files this process may open: each connection is one.

For a daemon with many connections and no children that inherit the limit: programs that count on less need not cope
with more.
"""

from __future__ import annotations

import resource

ENOUGH = 65_536


def raise_limit() -> int | None:
    """Raise this process's limit as far as it may, up to ENOUGH; returns it. None: there is no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    most = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(soft, most)
