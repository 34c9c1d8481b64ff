"""Attempts that the state knows nothing of, or no longer: what they hold stays reserved while they are there.

They are known from agents alone, so nothing of this is stored: after a restart of the master each host's hello tells.
"""

from __future__ import annotations

from gsched.core.resources.observed_hosts import Observation
from gsched.core.state.cluster_state import ClusterState
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey


def keep_orphaned(state: ClusterState, seen: Observation, host: str, key: AttemptKey, part: HostAllocation) -> None:
    """What an attempt holds that the state knows nothing of stays reserved until its agent says that it is over."""
    if not state.ledger.holds(host, key):
        state.ledger.host(host).take(key, part)
        seen.unaccounted[key] = part
        state.touched_hosts.add(host)


def drop_orphaned(state: ClusterState, seen: Observation, host: str, key: AttemptKey) -> None:
    """The orphaned attempt is over on its host."""
    if seen.unaccounted.pop(key, None) is not None:
        state.ledger.host(host).give(key)
        state.touched_hosts.add(host)
