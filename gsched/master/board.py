"""What readers see: views of committed state, replaced after each commit and never before.

The engine's thread publishes, any thread reads. A reader never waits for a scheduling cycle or for the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from gsched.core.engine import Engine
from gsched.core.select_jobs import admits
from gsched.core.views import host_view, queue_views
from gsched.model.config import ClusterConfig
from gsched.model.job import FINISHED, PENDING, JobState
from gsched.model.snapshot import Bucket, RequirementClass
from gsched.model.view import HostView, JobFilter, JobView, QueueView
from gsched.policy.explain import SUSPENDED, WAITING, waiting_to_retry


@dataclass(frozen=True, slots=True)
class _Shared:
    """Everything but the jobs; swapped whole, so that a reader sees one moment."""

    config: ClusterConfig
    reasons: dict[Bucket, tuple[str, ...]] = field(default_factory=dict)
    delayed: frozenset[int] = frozenset()
    avoiding: dict[int, str] = field(default_factory=dict)
    """Pending jobs whose last start failed -> the host where it did."""
    summary: str = ""
    quarantined: tuple[str, ...] = ()


class Board:
    """Published views."""

    def __init__(self, config: ClusterConfig) -> None:
        self._jobs: dict[int, JobView] = {}
        self._hosts: dict[str, HostView] = {}
        self._shared = _Shared(config)

    # -- the engine's thread --------------------------------------------------------------------------------------

    def publish(self, engine: Engine) -> None:
        """Take over what changed since the last call; called after a commit only."""
        state = engine.state
        jobs, hosts = state.take_touched()
        for job_id in jobs:
            job = state.jobs.get(job_id)
            if job is None:
                self._jobs.pop(job_id, None)
                continue
            usage = None
            if job.allocation is not None:
                usage = engine.observations.of(job.allocation.first_host).usage.get(job.key)
            self._jobs[job_id] = job.view(usage)
        config = engine.config
        if config is not self._shared.config:
            hosts.update(config.hosts)
            self._hosts = {name: view for name, view in self._hosts.items() if name in config.hosts}
        for name in hosts:
            if name in config.hosts:
                self._hosts[name] = host_view(config.hosts[name], config, state, engine.observations.of(name))
        self._shared = _Shared(
            config=config,
            reasons=engine.reasons,
            delayed=frozenset(state.delayed),
            avoiding=dict(state.avoiding),
            summary=engine.summary,
            quarantined=tuple(f"Job <{job_id}>: {text}" for job_id, text in state.quarantined.items()),
        )

    # -- any thread -----------------------------------------------------------------------------------------------

    @property
    def config(self) -> ClusterConfig:
        return self._shared.config

    @property
    def summary(self) -> str:
        """One sentence about the last scheduling cycle."""
        return self._shared.summary

    @property
    def quarantined(self) -> tuple[str, ...]:
        return self._shared.quarantined

    def job(self, job_id: int) -> JobView | None:
        """One job, or None if it is not in memory."""
        return self._jobs.get(job_id)

    def jobs(self, wanted: JobFilter) -> list[JobView]:
        """Jobs that the filter admits: started ones by id, then pending ones in serving order, then finished ones."""
        source: Iterable[JobView]
        if wanted.ids:
            found = (self._jobs.get(job_id) for job_id in dict.fromkeys(wanted.ids))
            source = [job for job in found if job is not None]
        else:
            source = list(self._jobs.values())
        shared = self._shared
        chosen = [job for job in source if admits(wanted, job)]
        chosen.sort(key=_order(shared.config))
        return [self._complete(job, shared) for job in chosen]

    def hosts(self) -> list[HostView]:
        """All hosts, in lsf.cluster's order."""
        hosts = self._hosts
        return [hosts[name] for name in self._shared.config.hosts if name in hosts]

    def queues(self) -> list[QueueView]:
        """All queues by descending priority."""
        return queue_views(self._shared.config, list(self._jobs.values()))

    def _complete(self, job: JobView, shared: _Shared) -> JobView:
        queue = shared.config.queues.get(job.spec.queue)
        reasons: tuple[str, ...] = ()
        if job.state in PENDING:
            reasons = self._reasons(job, shared)
        return msgspec.structs.replace(job, pending_reasons=reasons, queue_priority=queue.priority if queue else 0)

    def _reasons(self, job: JobView, shared: _Shared) -> tuple[str, ...]:
        if job.state == JobState.PSUSP:
            return (SUSPENDED,)
        spec, avoided = job.spec, shared.avoiding.get(job.job_id, "")
        if job.job_id in shared.delayed:
            return (waiting_to_retry(avoided),)
        requirement = RequirementClass(spec.combined_req, spec.slots, spec.hosts, avoided, spec.auto_gpu)
        return shared.reasons.get(Bucket(spec.queue, spec.user, requirement), (WAITING,))


def _order(config: ClusterConfig) -> Callable[[JobView], tuple[int, float, int]]:
    def key(job: JobView) -> tuple[int, float, int]:
        if job.state in PENDING:
            queue = config.queues.get(job.spec.queue)
            return (1, -float(queue.priority if queue else 0), job.job_id)
        if job.state in FINISHED:
            return (2, job.finished_at or 0.0, job.job_id)
        return (0, 0.0, job.job_id)

    return key
