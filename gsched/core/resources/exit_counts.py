"""How many attempts may fail on a host, and how many have: what its Observation keeps, which is never stored."""

from __future__ import annotations

from gsched.core.resources.observed_hosts import Observation
from gsched.core.resources.resource_values import slot_limit
from gsched.model.config import ClusterConfig
from gsched.model.hosts.host import HostConfig


def exit_limit(host: HostConfig, config: ClusterConfig, seen: Observation) -> int | None:
    """How many attempts may fail there within JOB_EXIT_RATE_DURATION; None: any number."""
    return config.params.exit_rates.limit(host.exit_rate, slot_limit(host, seen))


def exits_at(seen: Observation, config: ClusterConfig, now: float) -> int:
    """How many have failed there within that time."""
    since = now - config.params.exit_rates.within_s
    return sum(at > since for at in seen.exits)
