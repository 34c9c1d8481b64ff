"""What is left in a cycle of resources that hosts share, shown to whoever looks at those hosts' columns.

How much is used is what limits count (gsched.policy.limits.job_limits); here nothing is counted and nobody is refused.
"""

from __future__ import annotations

import math

from gsched.model.ledgers.allocation import Allocation
from gsched.model.queues.limit import Limit
from gsched.model.scheduling.columns import HostColumns
from gsched.model.scheduling.snapshot import Snapshot
from gsched.policy.limits.job_limits import LimitUse


class SharedLeft:
    """What is left of shared resources, in one cycle."""

    def __init__(self, snapshot: Snapshot, columns: HostColumns, limits: LimitUse) -> None:
        self._snapshot = snapshot
        self._columns = columns
        self._limits = limits
        self._all = [limit for limit in snapshot.limits if limit.is_shared_resource]
        self._resources = frozenset(name for limit in self._all for name in limit.amounts)
        for limit in self._all:
            self._show(limit, tries=False)

    def took(self, allocation: Allocation) -> None:
        """The cycle has placed such a job, and its limits have counted it."""
        if not self._resources:
            return
        names = {name for part in allocation.hosts for name in part.amounts} & self._resources
        if names:
            hosts = {part.host for part in allocation.hosts}
            for limit in self._all:
                if not names.isdisjoint(limit.amounts) and limit.hosts and not hosts.isdisjoint(limit.hosts.names):
                    self._show(limit, tries=True)

    def _show(self, limit: Limit, *, tries: bool) -> None:
        assert limit.hosts is not None
        (resource,) = limit.amounts
        hosts = self._snapshot.hosts
        total = next((hosts[name].values.get(resource) for name in limit.hosts.names if name in hosts), None)
        left = total - self._limits.shared_use(limit.name, resource) if isinstance(total, float | int) else math.nan
        self._columns.share(limit.name, resource, limit.hosts.names, left, tries=tries)
