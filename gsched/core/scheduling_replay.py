"""A master's scheduler once more: its state by what was recorded, its plans made anew.

Whoever drives it tells each recorded event, what was seen of hosts, and which configuration was applied, in their
order, and asks what a cycle would decide at a moment. Nothing comes of a plan but what is planned for later; what the
record says is what happens. It must never carry a plan out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from gsched.core.dispatch.snapshot_builder import SnapshotBuilder
from gsched.core.hosts.host_reports import HostReports
from gsched.core.hosts.restart_grace import RestartGrace
from gsched.core.hosts.timeouts import Timeouts
from gsched.core.resources.kept_observations import KeptObservation, restore
from gsched.core.resources.observed_hosts import Observations
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig
from gsched.model.event import AnyEvent, GpuClosed, GpuOpened, HostClosed, HostOpened, JobDispatched
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.ledgers.allocation import Allocation
from gsched.model.scheduling.snapshot import Plan, Preempted
from gsched.policy.backfill.reserved_start import looked_at_by_nobody
from gsched.policy.cycle import schedule

_NO_LOAD = {"r15s": -1.0, "pg": -1.0}
"""Below any load there is."""


@dataclass(frozen=True, slots=True)
class CycleChoices:
    """What a cycle decides."""

    places: Mapping[int, Allocation]
    """Job -> where it starts."""
    preempted: frozenset[Preempted] = frozenset()
    is_cut: bool = False
    """It came to the end of what one cycle may look at."""


class SchedulingReplay:
    """For one thread. Times are UTC seconds."""

    def __init__(self, state: ClusterState, config: ClusterConfig, now: float) -> None:
        self.state = state
        self.config = config
        self.begin(now)

    def begin(self, now: float) -> None:
        """A master starts: nothing is known of any host, and nothing is planned."""
        self._observations = Observations(now)
        self._snapshots = SnapshotBuilder(self.state, self._observations)
        timeouts = Timeouts(self.state, self._observations)
        self._reports = HostReports(self.state, self._observations, self._snapshots.forget, timeouts)
        self._grace = RestartGrace(self.state, self._observations)
        self._planned: Mapping[int, PlannedStart] = {}
        self._reports.observe_all(self.config)
        self.state.give_back(now)
        self.state.given_up.clear()

    # -- what was recorded ----------------------------------------------------------------------------------------

    def configure(self, config: ClusterConfig) -> None:
        """Another configuration was applied."""
        self.config = config
        self._planned = looked_at_by_nobody(self._planned)
        self._reports.observe_all(config)

    def see(self, host: str, kept: KeptObservation, at: float) -> None:
        """The host was seen so."""
        seen = self._observations.of(host)
        seen.kept_values = None
        restore(kept, seen, at)
        self._reports.observe(self.config, host)

    def apply(self, event: AnyEvent) -> None:
        """This happened. Raises IllegalEvent for what cannot follow, and then changes nothing."""
        self.state.apply(event)
        match event:
            case JobDispatched():
                for part in event.allocation.hosts:
                    self._observations.dispatched(part.host, event.at)
                    self._snapshots.forget(part.host)
            case GpuClosed() | GpuOpened():
                self._reports.observe(self.config, event.host)
            case HostClosed() | HostOpened():
                self._snapshots.forget(event.host)

    # -- what is decided anew -------------------------------------------------------------------------------------

    def has_work(self) -> bool:
        """Whether a cycle would look at any job."""
        return bool(self.state.pending or self.state.suspended)

    def is_forced(self, job_id: int) -> bool:
        """Whether somebody has said where, or that, the job is to start."""
        return job_id in self.state.waits.forced

    def decide(self, now: float) -> CycleChoices:
        """What a cycle decides now; what it plans for later is kept for the next."""
        self.state.give_back(now)
        self.state.let_go_on(now)
        if not self.has_work():
            self._planned = {}
            return CycleChoices({})
        if self._grace.awaited(self.config, now):
            return CycleChoices({})
        plan = self._plan(now)
        self._planned = plan.planned
        return self._choices(plan)

    def look(self, now: float) -> CycleChoices:
        """The same at a moment of which no start is recorded: where it would start something there was no cycle, so
        that nothing it plans is kept.
        """
        planned = self._planned
        found = self.decide(now)
        if found.places:
            self._planned = planned
        return found

    def would_decide(self, now: float) -> CycleChoices:
        """The same, of which nothing is kept."""
        planned = self._planned
        try:
            return self.decide(now)
        finally:
            self._planned = planned

    def decide_by_load(self, now: float, hosts: Iterable[str]) -> CycleChoices:
        """The same where these hosts had less to do than all others; nothing is kept of it."""
        names = sorted(set(hosts))
        kept = {name: self._observations.of(name).load for name in names}
        try:
            for name, load in kept.items():
                if load is not None:
                    low = msgspec.structs.replace(load, indices={**load.indices, **_NO_LOAD})
                    self._observations.of(name).load = low
                    self._snapshots.forget(name)
            return self._choices(self._plan(now))
        finally:
            for name, load in kept.items():
                self._observations.of(name).load = load
                self._snapshots.forget(name)

    def reasons(self, now: float, job_id: int) -> tuple[PendingReason, ...]:
        """Why the waiting job does not start now; empty where a cycle does not say."""
        job = self.state.jobs.get(job_id)
        if job is None or not self.has_work():
            return ()
        found = self._plan(now, explains=True).reasons
        bucket = job.bucket()
        return found.get(bucket) or found.get((bucket.queue, bucket.requirement)) or ()

    def _plan(self, now: float, *, explains: bool = False) -> Plan:
        seen = self._snapshots.snapshot(self.config, now, (), self._planned)
        return schedule(replace(seen, are_reasons_read=explains), now)

    def _choices(self, plan: Plan) -> CycleChoices:
        most = self.config.params.max_dispatch_per_cycle
        placed = {each.job_id: each.allocation for each in plan.placements[:most]}
        return CycleChoices(placed, frozenset(plan.preempted), plan.truncated)
