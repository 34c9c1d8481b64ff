"""After a restart of the master: which hosts are still expected back, so that nothing should be started before them.

Plans are not stored, they are made anew by the first cycle. A plan of a job that spans hosts can only be made when its
hosts are there; if one agent says hello a moment before the others, a small job would be started on its host and could
delay the big one for hours. So while a job waits that may span hosts, nothing is started until every host that it may
use has told its load and its GPUs, or GRACE_S have passed: agents that live are back within a second (they try every
half second), and a host that is really gone costs that much once per restart. A job on one host needs no such care:
where its host is not there, it is planned elsewhere, or finds its host as free as it left it.

A store that begins a new generation with an older copy of itself takes jobs for waiting which run already. Nothing is
started then before each host has told what it runs, or is to be taken for lost.
"""

from __future__ import annotations

from gsched.core.resources.observed_hosts import Observations
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig
from gsched.model.scheduling.snapshot import RequirementClass

GRACE_S = 5.0
"""Longest wait after the master's start, in seconds."""
_ONE_HOST = "span[hosts=1]"


class RestartGrace:
    """Asked by the engine before it plans. It changes nothing."""

    def __init__(self, state: ClusterState, observations: Observations) -> None:
        self._state = state
        self._observations = observations
        self._ends_at = observations.started_at + GRACE_S if self._spanning() else float("-inf")
        """A cluster that has just been made, or has only small jobs, never waits."""

    def due(self, config: ClusterConfig, now: float) -> float:
        """When a wait ends at the latest; infinity when nobody waits."""
        ends = (self._ends_at, self._renewal_ends(config))
        return min((each for each in ends if now < each), default=float("inf"))

    def _renewal_ends(self, config: ClusterConfig) -> float:
        return self._state.lost_store.renewed_at + config.params.host_lost_after_s

    def awaited(self, config: ClusterConfig, now: float) -> tuple[str, ...]:
        """Hosts that are not back yet, all of them in a new generation of the store, else those that a waiting job
        which may span hosts could use; none when time is up.
        """
        if now < self._renewal_ends(config):
            unheard = tuple(name for name, host in config.hosts.items() if host.server and not self._is_back(name))
            if unheard:
                return unheard
        if now >= self._ends_at:
            return ()
        servers = [name for name, host in config.hosts.items() if host.server and name not in self._state.closed_hosts]
        missing = [name for name in servers if not self._is_back(name)]
        if not missing or len(servers) < 2:
            self._ends_at = float("-inf")
            return ()
        spanning = self._spanning()
        return tuple(name for name in missing if any(self._may_use(each, name, config) for each in spanning))

    def _is_back(self, host: str) -> bool:
        seen = self._observations.of(host)
        return seen.connected and seen.load is not None and seen.gpus is not None

    def _spanning(self) -> list[RequirementClass]:
        return [
            each
            for each in self._state.pending
            if max(each.slots, each.max_slots) > 1 and _ONE_HOST not in each.requirement
        ]

    def _may_use(self, requirement: RequirementClass, host: str, config: ClusterConfig) -> bool:
        if requirement.asked_hosts and not requirement.other_hosts and host not in requirement.asked_hosts:
            return False
        queues = (config.queues.get(name) for name in self._state.pending.queues_of(requirement))
        return any(queue is not None and (queue.hosts is None or host in queue.hosts) for queue in queues)
