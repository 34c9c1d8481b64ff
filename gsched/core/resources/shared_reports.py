"""Which agent reports a shared resource that elims feed, and what it said last.

An elim that asks a licence server runs on one host of each instance: of `all` on the master's host, else on the first
that is connected; when that one goes the next takes over, and gives it back when it returns. Source: lsf.cluster(5),
elim(5). It changes nothing but what is remembered of all hosts (Roll).
"""

from __future__ import annotations

from gsched.core.resources.observed_hosts import Observation, Observed
from gsched.model.config import ClusterConfig
from gsched.model.hosts.shared_resource import SharedInstance


def share_anew(config: ClusterConfig, host: str, observed: Observed) -> tuple[set[str], set[str]]:
    """Look again at what the host shares with others: hosts whose agents must be told that they report something else
    than before, and hosts that see another value.
    """
    roll = observed(host).roll
    told: set[str] = set()
    seen: set[str] = set()
    for instance in config.shared_on(host).values():
        if instance.value is not None:
            continue
        before, after = roll.reporters.get(instance.key, ""), _reporter(instance, config.master_host, observed)
        if before != after:
            roll.reporters[instance.key] = after
            told |= {name for name in (before, after) if name and observed(name).connected}
        value = _value(instance.resource, observed(after)) if after else None
        if value != roll.shared.get(instance.key):
            roll.shared[instance.key] = value
            seen.update(instance.hosts)
    return told, seen


def forget_others(config: ClusterConfig, observed: Observed) -> None:
    """Instances that a configuration no longer has have no value and nobody who reports them."""
    roll = observed(config.master_host).roll
    kept = {each.key for each in config.instances}
    for known in (roll.reporters, roll.shared):
        for key in known.keys() - kept:
            del known[key]


def _reporter(instance: SharedInstance, master: str, observed: Observed) -> str:
    """The host whose elims report the instance; empty while none of its hosts is connected."""
    first = [master] if instance.of_all and master in instance.hosts else []
    return next((host for host in (*first, *instance.hosts) if observed(host).connected), "")


def _value(resource: str, seen: Observation) -> float | None:
    value = seen.load.external.get(resource) if seen.load is not None and seen.connected else None
    return float(value) if isinstance(value, float | int) else None
