"""What agents say about their hosts: hello, load, GPUs, and that a connection has ended.

It keeps the ledger's idea of what a host offers in step with what is observed. It plans nothing and wakes nobody: the
engine does when it is told that something may fit now.
"""

from __future__ import annotations

from collections.abc import Callable

from gsched.base.errors import NotFound
from gsched.core.attempts import attempt_reports
from gsched.core.attempts.job_services import judge_service
from gsched.core.command import HostDisconnected, HostHello, HostReported
from gsched.core.decision import Decision
from gsched.core.dispatch.load_control import busy_reasons
from gsched.core.gpu_events.gpu_faults import judge_faults
from gsched.core.gpu_events.gpu_hosts import note_gpu_host
from gsched.core.gpu_events.gpu_memory_overuse import judge_gmem
from gsched.core.gpu_events.gpu_notes import note_gpus, note_lost_parts
from gsched.core.gpu_events.idle_gpus import judge_idleness
from gsched.core.hosts.timeouts import Timeouts
from gsched.core.instruction import ConfigureAgent
from gsched.core.notices import notice_ends
from gsched.core.resources.closed_gpus import without_closed
from gsched.core.resources.observed_hosts import Observation, Observations
from gsched.core.resources.resource_values import affinity_processors, host_values, slot_limit
from gsched.core.resources.shared_reports import forget_others, share_anew
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig
from gsched.model.hosts.host import GpuReport
from gsched.model.ledgers.devices import offer_of

NOTICED_LATE = 0.5
"""So much of GSCHED_HOST_LOST may have passed already when a host's connection ends."""


class HostReports:
    """Takes in the news of all hosts. `forget(host)`: whoever shows hosts to the policies looks at this one anew."""

    def __init__(
        self, state: ClusterState, observations: Observations, forget: Callable[[str], None], timeouts: Timeouts
    ) -> None:
        self._state = state
        self._observations = observations
        self._forget = forget
        self._timeouts = timeouts

    def hello(self, command: HostHello, decision: Decision) -> None:
        """An agent has come (back). Raises NotFound for a host that has no business here."""
        config = decision.config
        ledger = self._state.ledger.hosts.get(command.host)
        # A host that was taken out while jobs run there is heard until they have ended: they are not lost.
        if command.host not in config.hosts and (ledger is None or not ledger.held):
            raise NotFound(f"host {command.host} is not in the Host section of lsf.cluster.{config.cluster}")
        attempt_reports.hello(command, self._observations.of(command.host), decision)
        notice_ends.hello(command, decision)
        self.observe(config, command.host)
        self._share(config, command.host, decision)

    def reported(self, command: HostReported, decision: Decision) -> bool:
        """Load, GPUs and what attempts use, as far as the report has them; whether a job may fit now that did not."""
        seen = self._observations.of(command.host)
        if not seen.connected or seen.session != command.session:
            return False
        seen.last_heard = decision.now
        for key, usage in command.usage.items():
            if self._state.ledger.holds(command.host, key):
                seen.usage[key] = usage
                self._state.touched.add(key[0])
        self._judge_idleness(command, seen, decision)
        for key, idle_s in command.service_idle.items():
            judge_service(key, command.host, idle_s, decision)
        if command.load is None and command.gpus is None:
            return False
        changed = command.gpus is not None and offer_of(command.gpus) != offer_of(seen.gpus)
        if command.load is not None:
            changed = changed or seen.load is None or command.load.external != seen.load.external
            closed_to = self._closed_to(decision.config, command.host)
            seen.load = command.load
            changed = changed or closed_to != self._closed_to(decision.config, command.host)
        if command.gpus is not None:
            seen.gpus = command.gpus
            self._judge_gpus(command.host, command.gpus, decision)
        self.observe(decision.config, command.host)
        changed = self._share(decision.config, command.host, decision) or changed
        note_lost_parts(command.host, decision)
        if command.load is not None:
            self._timeouts.relieve(decision, command.host)
        return changed

    def _judge_idleness(self, command: HostReported, seen: Observation, decision: Decision) -> None:
        """What follows from how idle the GPUs of jobs there are."""
        for key in command.usage:
            idle = command.idle.get(key)
            if idle is None or not self._state.ledger.holds(command.host, key):
                seen.idle.pop(key, None)
                continue
            seen.idle[key] = idle
            judge_idleness(key, command.host, decision)

    def _closed_to(self, config: ClusterConfig, name: str) -> frozenset[str]:
        """Queues ("" for all) whose jobs the host does not take because of its load: loadSched."""
        host = config.hosts.get(name)
        if host is None or not config.can_suspend:
            return frozenset()
        values = host_values(config, host, self._observations.of(name))
        return frozenset(busy_reasons(host, config.queues, values, config))

    def _judge_gpus(self, host: str, gpus: GpuReport, decision: Decision) -> None:
        """What follows from the host's GPUs, above all for the jobs that hold them."""
        judge_gmem(host, gpus, decision)
        note_gpu_host(host, gpus, decision)
        note_gpus(host, gpus, decision)
        judge_faults(host, gpus, decision)

    def disconnected(self, command: HostDisconnected, decision: Decision) -> bool:
        """An agent's connection has ended; says that it has, unless it has come back by another already."""
        config = decision.config
        seen = self._observations.of(command.host)
        if seen.session == command.session:
            seen.part()
            # A link that died has been silent before that was noticed; an agent that ended gets time to come back.
            seen.last_heard = max(seen.last_heard, decision.now - config.params.host_lost_after_s * NOTICED_LATE)
            self.observe(config, command.host)
            self._share(config, command.host, decision)
            return True
        return False

    def _share(self, config: ClusterConfig, host: str, decision: Decision | None = None) -> bool:
        """Look again at what the host shares with others; whether any host sees another value."""
        if not config.shared_on(host):
            return False
        told, seen = share_anew(config, host, self._observations.of)
        if decision is not None:
            for name in sorted(told):
                decision.instruct(ConfigureAgent(name, self._observations.roll.reported_by(name)))
        for name in seen:
            self._forget(name)
        self._state.touched_hosts |= seen
        return bool(seen)

    def observe(self, config: ClusterConfig, name: str) -> None:
        """Let the ledger know slots and devices of a host; a host no longer configured offers nothing."""
        ledger = self._state.ledger.host(name)
        host = config.hosts.get(name)
        seen = self._observations.of(name)
        ledger.max_slots = slot_limit(host, seen) if host is not None else 0
        ledger.shared_jobs = config.params.gpu_shared_jobs
        offered = seen.gpus if host is not None and seen.connected else None
        ledger.observe_gpus(without_closed(name, offered, self._state.closed_gpus))
        ledger.observe_processors(*affinity_processors(host, seen))
        self._forget(name)
        self._state.touched_hosts.add(name)

    def observe_all(self, config: ClusterConfig) -> None:
        """As `observe`, for all hosts, configured or still in use."""
        for name in {*config.hosts, *self._state.ledger.hosts}:
            self.observe(config, name)
        forget_others(config, self._observations.of)
        for name in config.hosts:
            self._share(config, name)
