"""Which host sends a notice: the job's own where its agent is connected, else where it was submitted, else any.

The host is part of the event: nobody else sends the notice, so that it is never sent by two. It asks nobody and moves
nothing.
"""

from __future__ import annotations

from gsched.core.decision import Decision
from gsched.core.records.array import JobArray
from gsched.core.records.job import JobRecord


def host_for(holder: JobRecord | JobArray, decision: Decision) -> str:
    """The host's name; one that is away is named only where all are."""
    spec, hosts = holder.spec, decision.config.hosts
    allocation = holder.allocation if isinstance(holder, JobRecord) else None
    own = [part.host for part in allocation.hosts] if allocation is not None else []

    def can_send(name: str) -> bool:
        seen = decision.observed(name)
        return name in hosts and hosts[name].server and seen.connected and seen.only_user in ("", spec.user)

    for name in (*own, spec.submit_host):
        if can_send(name):
            return name
    servers = list(hosts)
    first = (holder.array_id if isinstance(holder, JobArray) else holder.job_id) % len(servers)
    found = next((name for name in (*servers[first:], *servers[:first]) if can_send(name)), "")
    return found or next((name for name in own if name in hosts), servers[first])
