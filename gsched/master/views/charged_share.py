"""Whom fairshare charges a job to: "Share group charged" of gjobs -l. Source: bjobs(1).

It knows the configuration alone, never what anybody has used.
"""

from __future__ import annotations

from gsched.model.config import ClusterConfig
from gsched.model.queues.fairshare_factors import FairshareFactors
from gsched.policy.order.fairshare import ShareTree


class Charged:
    """The places of users in the share trees of one configuration, each looked up once."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._known: dict[tuple[str, str, str], str] = {}

    def of(self, queue: str, user: str, user_group: str) -> str:
        """`/GROUP/USER`; empty in a queue without fairshare."""
        key = (queue, user, user_group)
        path = self._known.get(key)
        if path is None:
            path = self._known[key] = self._find(*key)
        return path

    def _find(self, queue: str, user: str, user_group: str) -> str:
        config = self._config
        found = config.queues.get(queue)
        if found is None or found.fairshare is None:
            return ""
        groups = {name: group.users for name, group in config.user_groups.items()}
        shares = {name: group.shares for name, group in config.user_groups.items() if group.shares}
        return ShareTree(found, {}, FairshareFactors(), groups, shares).path(user, user_group)
