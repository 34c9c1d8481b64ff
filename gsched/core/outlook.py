"""Makes the snapshot that a scheduling cycle works on, at a cost of hosts and kinds of jobs, never of jobs.

What a host's values are is kept until its agent or the configuration says something new. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from gsched.core.cluster import ClusterState
from gsched.core.observed import Observations
from gsched.core.values import LOCAL_TYPE, host_values
from gsched.core.views import closed_reason
from gsched.model.config import ClusterConfig
from gsched.model.host import HostConfig
from gsched.model.resource import BUILTIN
from gsched.model.snapshot import Bucket, HostSnapshot, HostValues, Snapshot


class Outlook:
    """What the policy gets to see of state, configuration and observations."""

    def __init__(self, state: ClusterState, observations: Observations) -> None:
        self._state = state
        self._observations = observations
        self._values: dict[str, HostValues] = {}

    def forget(self, host: str) -> None:
        """There is something new about the host."""
        self._values.pop(host, None)

    def snapshot(self, config: ClusterConfig, now: float, leave_out: Container[Bucket] = ()) -> Snapshot:
        """What a cycle sees at `now`. Jobs of the buckets in `leave_out`, and those delayed, are not in it."""
        state = self._state
        counts_queues = any(queue.host_limit is not None for queue in config.queues.values())
        resources = [*BUILTIN.values(), *config.resources.values()]
        return Snapshot(
            queues=config.queues,
            hosts={host.name: self._host(host, config, counts_queues) for host in config.hosts.values()},
            ledger=state.ledger.fork(),
            pending=self._pending(now, leave_out),
            queue_slots=state.queue_slots,
            queue_user_slots=state.queue_user_slots,
            increasing=frozenset(resource.name for resource in resources if resource.increasing),
            local_type=LOCAL_TYPE,
            job_accept_interval_s=config.params.job_accept_interval_s,
        )

    def _host(self, host: HostConfig, config: ClusterConfig, counts_queues: bool) -> HostSnapshot:
        seen = self._observations.of(host.name)
        values = self._values.get(host.name)
        if values is None:
            values = self._values[host.name] = host_values(config, host, seen)
        by_queue: Mapping[str, int] = {}
        by_user: Mapping[str, int] = {}
        if counts_queues or host.user_slots is not None:
            by_queue, by_user = self._slots_on(host.name)
        return HostSnapshot(
            name=host.name,
            values=values,
            closed=closed_reason(host, self._state, seen),
            queue_slots=by_queue,
            user_slots=by_user,
            user_limit=host.user_slots,
            last_dispatch=seen.last_dispatch,
        )

    def _slots_on(self, host: str) -> tuple[dict[str, int], dict[str, int]]:
        """Slots held on the host by queue and by user; only looked at where a limit needs them."""
        by_queue: dict[str, int] = {}
        by_user: dict[str, int] = {}
        for (job_id, _), part in self._state.ledger.host(host).held.items():
            job = self._state.jobs.get(job_id)
            if job is not None:
                by_queue[job.spec.queue] = by_queue.get(job.spec.queue, 0) + part.slots
                by_user[job.spec.user] = by_user.get(job.spec.user, 0) + part.slots
        return by_queue, by_user

    def _pending(self, now: float, leave_out: Container[Bucket]) -> Mapping[Bucket, Iterable[int]]:
        pending = self._state.pending
        delayed = {job_id for job_id, at in self._state.delayed.items() if at > now}
        if not delayed and not leave_out:
            return pending
        chosen: dict[Bucket, Iterable[int]] = {
            bucket: ids for bucket, ids in pending.items() if bucket not in leave_out
        }
        for bucket in {self._state.jobs[job_id].bucket() for job_id in delayed} & chosen.keys():
            chosen[bucket] = [job_id for job_id in chosen[bucket] if job_id not in delayed]
        return chosen
