"""What all jobs together hold of resources that hosts share, kept in step with the ledgers of the hosts.

The ledger is asked, not the jobs that run: what is left of a job that is over counts until its host has given it back.
It decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from gsched.model.config import ClusterConfig
from gsched.model.hosts.shared_resource import SharedInstance, limit_of
from gsched.model.ledgers.ledger import Ledger
from gsched.model.queues.limit import HeldCounts, Limit

_TOGETHER = ("", "", "", "", "")
"""Limits of shared resources tell nobody apart."""


class SharedLedger:
    """How much of each shared resource is held, and on which hosts, for one configuration. `held` says it as limits
    count it (gsched.policy.limits.limit_counts).
    """

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._counted = [each for each in config.instances if each.consumable]
        self._on: dict[str, dict[str, float]] = {each.key: {} for each in self._counted}
        """Instance -> host that holds some of it -> how much."""

    def follow(self, ledger: Ledger, hosts: Iterable[str], counts: HeldCounts) -> None:
        """The ledgers of these hosts have changed: bring the counts up to date."""
        if not self._counted:
            return
        changed: set[str] = set()
        for host in hosts:
            host_ledger = ledger.hosts.get(host)
            for resource, instance in self._config.shared_on(host).items():
                on = self._on.get(instance.key)
                held = 0.0 if host_ledger is None else host_ledger.reserved.get(resource, 0.0)
                if on is None or on.get(host, 0.0) == held:
                    continue
                changed.add(instance.key)
                if held:
                    on[host] = held
                else:
                    del on[host]
        for key in changed:
            used = math.fsum(self._on[key].values())
            counts.section[key] = {_TOGETHER: {key.rpartition(" ")[0]: used}} if used else {}

    def limits(self, reported: Mapping[str, float | None]) -> tuple[Limit, ...]:
        """What may be held of each instance now; `reported`: what elims say of those that they feed."""
        if all(each.value is not None for each in self._counted):
            return self._config.shared_limits
        return tuple(limit_of(each, _value(each, reported)) for each in self._counted)


def _value(instance: SharedInstance, reported: Mapping[str, float | None]) -> float | None:
    return reported.get(instance.key) if instance.value is None else instance.value
