"""That another configuration counts, as a fact: events say what follows from it for what was counted before."""

from __future__ import annotations

from gsched.core.decision import Decision
from gsched.core.gpu_events.gpu_hosts import forget_gpu_hosts
from gsched.model.config import ClusterConfig
from gsched.model.event import ConfigApplied


def reconfigured(config: ClusterConfig, at: float, by: str, *, started: bool, files: str) -> ConfigApplied:
    """Somebody has had it read; `started`: with the start of the master. `files`: the blob with what they say."""
    return ConfigApplied(
        at=at,
        digest=config.digest,
        by=by,
        started=started,
        hist_hours=config.hist_hours,
        queue_hist_hours=config.queue_hist_hours(),
        host=config.master_host,
        cluster=config.cluster,
        servers=sum(host.server for host in config.hosts.values()),
        queues=len(config.queues),
        files=files,
    )


def note_configuration(decision: Decision) -> None:
    """The master came up with another configuration than its state was made under: that is a fact too."""
    config, state = decision.config, decision.state
    hours, of_queues = config.hist_hours, config.queue_hist_hours()
    accounts, digest = state.accounts, config.digest
    if (state.config_digest, accounts.hist_hours, accounts.queue_hours) != (digest, hours, of_queues):
        decision.record(
            ConfigApplied(
                at=decision.now, digest=digest, by="", started=True, hist_hours=hours, queue_hist_hours=of_queues
            )
        )
        forget_gpu_hosts(decision)
