"""Which hosts have GPUs, as a fact that outlives agents, restarts and failing drivers.

Default weights of fairshare go by it, so it must not change each time that a host comes or goes. It says nothing about
which GPUs can be used now.
"""

from __future__ import annotations

from gsched.core.decision import Decision
from gsched.model.event import HostGpusKnown
from gsched.model.hosts.host import GpuReport


def note_gpu_host(host: str, report: GpuReport, decision: Decision) -> None:
    """Record that the host has GPUs when it reports some for the first time."""
    if report.gpus and host in decision.config.hosts and host not in decision.state.gpu_hosts:
        decision.record(HostGpusKnown(at=decision.now, host=host))


def forget_gpu_hosts(decision: Decision) -> None:
    """Hosts that are not in the configuration any more are forgotten; one that comes back may have been rebuilt."""
    for host in sorted(decision.state.gpu_hosts - decision.config.hosts.keys()):
        decision.record(HostGpusKnown(at=decision.now, host=host, has_gpus=False))
