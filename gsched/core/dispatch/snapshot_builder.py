"""Makes the snapshot that a scheduling cycle works on, at a cost of what has changed, never of jobs.

What a host looks like is kept until its agent, an administrator or the configuration says something new. It changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gsched.base.coded_text import AnyText, coded
from gsched.core.dispatch.host_queue_views import closed_reason
from gsched.core.dispatch.load_control import busy_reasons
from gsched.core.resources.observed_hosts import Observations
from gsched.core.resources.resource_values import LOCAL_TYPE, gpu_values, host_type, host_values
from gsched.core.resources.shared_ledger import SharedLedger
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig, GpuPlacement
from gsched.model.hosts.host import HostConfig
from gsched.model.hosts.reported_resources import ProvidedValue, gpu_names_in
from gsched.model.hosts.resource import BUILTIN
from gsched.model.jobs.reason import PlannedStart
from gsched.model.ledgers.ledger import Ledger
from gsched.model.queues.fairshare_factors import factors_of
from gsched.model.queues.limit import Limit
from gsched.model.queues.preempt_sparing import NOBODY_SPARED, Sparing
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import UserLimits
from gsched.model.queues.window import is_open, minute_of_week
from gsched.model.scheduling.columns import HostColumns
from gsched.model.scheduling.run_kind import run_kind
from gsched.model.scheduling.snapshot import (
    AdvanceReservation,
    Bucket,
    HostSnapshot,
    JobLine,
    RequirementClass,
    Running,
    Snapshot,
)
from gsched.policy.limits.limit_counts import LimitCounts

MOST_TEXTS = 100_000
"""Requirements that are remembered as searched."""


@dataclass(frozen=True, slots=True)
class _Fixed:
    """What follows from a configuration alone."""

    increasing: frozenset[str]
    local_type: str
    budgets: tuple[Any, ...]
    user_limits: Mapping[str, float]
    processor_limits: Mapping[str, float]
    group_limits: Mapping[str, tuple[tuple[str, ...], int]]
    user_groups: Mapping[str, tuple[str, ...]]
    timed_hosts: frozenset[str]
    """Hosts that time alone may close: those with dispatch windows."""


class SnapshotBuilder:
    """What the policy gets to see of state, configuration and observations."""

    def __init__(self, state: ClusterState, observations: Observations) -> None:
        self._state = state
        self._observations = observations
        self._hosts: dict[str, HostSnapshot] = {}
        self._columns: HostColumns | None = None
        self._renewed: list[HostSnapshot] = []
        """Hosts that the columns do not show as they are yet."""
        self._config: ClusterConfig | None = None
        self._fixed: _Fixed | None = None
        self._stale: set[str] = set()
        self._counts: LimitCounts | None = None
        self._counted: dict[int, Running] = {}
        self._shared: SharedLedger | None = None
        self._texts: set[str] = set()
        """Requirements that have been searched for names of GPUs' resources."""

    def forget(self, host: str) -> None:
        """There is something new about the host."""
        self._stale.add(host)

    def snapshot(
        self,
        config: ClusterConfig,
        now: float,
        leave_out: Container[Bucket | tuple[str, RequirementClass]] = (),
        planned: Mapping[int, PlannedStart] | None = None,
    ) -> Snapshot:
        """What a cycle sees at `now`. Buckets in `leave_out` and all of a (queue, class) in it are not in it."""
        state, params = self._state, config.params
        self._look_for_gpu_names(config)
        self._note_moved()
        fixed = self._refresh(config, now)
        shared = self._shared_limits()
        ledger, minute = state.ledger.fork(), minute_of_week(now)
        return Snapshot(
            queues=config.queues,
            hosts=self._hosts,
            ledger=ledger,
            columns=self._in_columns(ledger),
            pending=_without(state.pending, leave_out) if leave_out else state.pending,
            queue_slots=state.tally.queue_slots,
            queue_user_slots=state.tally.queue_user_slots,
            running=state.running,
            inactive_queues=self._inactive(config, minute),
            applications=config.applications.keys(),
            application_tasks=_application_tasks(config) if state.growing else {},
            limits=config.limits + shared,
            guarantees=config.pools,
            gpu_seconds=state.accounts.gpu_seconds(config.limits, now) if fixed.budgets else {},
            minute_of_week=minute,
            user_limits=fixed.user_limits,
            processor_limits=fixed.processor_limits,
            group_limits=fixed.group_limits,
            user_groups=fixed.user_groups,
            job_group_limits=_job_group_limits(state),
            job_group_jobs=state.tally.group_jobs,
            array_limits=_array_limits(state),
            array_jobs=state.tally.array_jobs,
            shares={queue.name: state.accounts.shares(queue.name, now) for queue in _fair(config)},
            factors={queue.name: factors_of(params.factors, queue, state.gpu_hosts) for queue in _fair(config)},
            group_shares={name: group.shares for name, group in config.user_groups.items() if group.shares},
            held=self._counts.held if self._counts is not None else None,
            reservations=tuple(_reservations(state, config)),
            planned=planned or {},
            usual_run_s=state.run_times.usual,
            increasing=fixed.increasing,
            local_type=fixed.local_type,
            job_accept_interval_s=params.job_accept_interval_s,
            reserve_cores_per_gpu=params.reserve_cores_per_gpu,
            mix=state.seen.mix() if params.gpu_placement is GpuPlacement.SCARCE else (),
            min_run_before_preempt_s=params.min_run_before_preempt_s,
            preempt_requeue=params.preempt_requeue,
            sparing=params.sparing,
            application_sparing=_application_sparing(config),
            compute_units=config.compute_units,
            terminate_s=2.0 * params.job_terminate_interval_s + 1.0,
            growing=tuple(sorted(state.growing)) if state.growing else (),
            elastic=tuple(sorted(state.elastic)) if state.elastic else (),
            gpu_grow_interval_s=params.gpu_grow_interval_s,
        )

    def _shared_limits(self) -> tuple[Limit, ...]:
        """What may be held of resources that hosts share; to be asked before the columns forget which hosts changed."""
        if self._shared is None or self._counts is None:
            return ()
        ledger = self._state.ledger
        self._shared.follow(ledger, ledger.changed, self._counts.held)
        return self._shared.limits(self._observations.roll.shared)

    def _refresh(self, config: ClusterConfig, now: float) -> _Fixed:
        """Bring the hosts up to date; all of them after a reconfig, or where time alone may change them."""
        if config is not self._config or self._fixed is None:
            self._config, self._fixed = config, _fixed(config, self._observations.roll.gpu_names)
            self._hosts, self._columns = {}, None
            self._stale.update(config.hosts)
            self._counts, self._counted = _counts(config), {}
            self._shared = SharedLedger(config) if config.shared_limits else None
            if self._shared is not None and self._counts is not None:
                self._shared.follow(self._state.ledger, config.hosts, self._counts.held)
            self._state.running_changed.update(self._state.running)
        self._count()
        timed = self._fixed.timed_hosts
        for name in sorted(self._stale.union(timed)) if timed else sorted(self._stale):
            host = config.hosts.get(name)
            if host is not None:
                self._renew(self._host(host, config, now))
        self._stale.clear()
        return self._fixed

    def with_gpu_names(self, seen: Snapshot, config: ClusterConfig, requirement: str) -> Snapshot:
        """The snapshot with what this requirement asks about GPUs as well: in a copy, so that nothing is kept of a job
        that does not wait.
        """
        names = gpu_names_in(requirement) - self._observations.roll.gpu_names
        if not names:
            return seen
        hosts = {
            name: replace(host, values={**host.values, **self._gpu_values(host, names)})
            for name, host in seen.hosts.items()
        }
        increasing = _increasing(config, self._observations.roll.gpu_names | names)
        return replace(seen, hosts=hosts, columns=None, increasing=increasing)

    def _gpu_values(self, host: HostSnapshot, names: Iterable[str]) -> dict[str, ProvidedValue]:
        found = gpu_values(self._observations.of(host.name), names)
        return {name: value for name, value in found.items() if host.values.get(name) is None}

    def _look_for_gpu_names(self, config: ClusterConfig) -> None:
        """What pending jobs ask about GPUs is worked out for all hosts from now on."""
        known, roll = self._texts, self._observations.roll
        waiting = (requirement.requirement for requirement in self._state.pending)
        new = {text for text in waiting if text not in known}
        if not new:
            return
        if len(known) > MOST_TEXTS:
            known.clear()
        known.update(new)
        names = frozenset(name for text in new for name in gpu_names_in(text))
        if not names <= roll.gpu_names:
            roll.gpu_names |= names
            self._stale.update(config.hosts)
            if self._fixed is not None:
                self._fixed = replace(self._fixed, increasing=_increasing(config, roll.gpu_names))

    def _note_moved(self) -> None:
        """Where jobs are expected to end at another time than before, what is kept of the hosts' future must be read
        again.
        """
        state = self._state
        kinds, state.run_times.moved = state.run_times.moved, set()
        if not kinds:
            return
        users = {kind.user for kind in kinds}
        for running in state.running.values():
            bucket = running.bucket
            if bucket.user in users and bucket.requirement.run_s is None and run_kind(bucket) in kinds:
                state.ledger.changed.update(part.host for part in running.allocation.parts)

    def _renew(self, host: HostSnapshot) -> None:
        if host != self._hosts.get(host.name):
            self._hosts[host.name] = host
            self._renewed.append(host)

    def _in_columns(self, ledger: Ledger) -> HostColumns:
        """The hosts and this ledger in columns; only hosts that have changed are looked at."""
        changed = self._state.ledger.changed
        if self._columns is None:
            self._columns = HostColumns(self._hosts, ledger)
        else:
            self._columns.show(ledger, changed)
            for host in self._renewed:
                self._columns.renew(host)
        self._renewed.clear()
        changed.clear()
        return self._columns

    def _count(self) -> None:
        """Keep what limits count in step with the started jobs; nothing is counted where no limit asks for it."""
        changed, self._state.running_changed = self._state.running_changed, set()
        if self._counts is None:
            return
        for job_id in changed:
            before, after = self._counted.pop(job_id, None), self._state.running.get(job_id)
            if before is not None:
                self._counts.add(before, -1)
            if after is not None:
                self._counts.add(after, 1)
                self._counted[job_id] = after

    def _host(self, host: HostConfig, config: ClusterConfig, now: float) -> HostSnapshot:
        seen = self._observations.of(host.name)
        values = host_values(config, host, seen)
        closed = closed_reason(host, self._state, seen)
        if not closed and not is_open(host.dispatch_window, minute_of_week(now)):
            closed = coded("host.window_closed")
        return HostSnapshot(
            name=host.name,
            values=values,
            closed=closed,
            user_limit=host.user_slots,
            # A private cluster has no other user.
            only_user=seen.only_user if config.is_shared else "",
            last_dispatch=seen.last_dispatch,
            busy=busy_reasons(host, config.queues, values, config),
            exclusive_resources=host.exclusive_resources,
            ncpus=seen.load.ncpus if seen.load is not None else 0,
        )

    def _inactive(self, config: ClusterConfig, minute: int) -> dict[str, AnyText]:
        """Queues that start nothing now, with LSF's reason."""
        pending = self._state.pending
        waiting = {queue for requirement in pending for queue in pending.queues_of(requirement)}
        found: dict[str, AnyText] = {name: coded("queue.gone", name) for name in waiting - config.queues.keys()}
        for name, queue_state in self._state.queue_states.items():
            if not queue_state.is_active:
                comment = queue_state.comment
                found[name] = coded("queue.inactivated_why", comment) if comment else coded("queue.inactivated")
        for queue in config.queues.values():
            if not (is_open(queue.run_window, minute) and is_open(queue.dispatch_window, minute)):
                found.setdefault(queue.name, coded("queue.window_closed"))
        return found


def _without(
    pending: Mapping[RequirementClass, Mapping[Bucket, JobLine]],
    leave_out: Container[Bucket | tuple[str, RequirementClass]],
) -> dict[RequirementClass, dict[Bucket, JobLine]]:
    kept: dict[RequirementClass, dict[Bucket, JobLine]] = {}
    for requirement, buckets in pending.items():
        left = {
            bucket: line
            for bucket, line in buckets.items()
            if bucket not in leave_out and (bucket.queue, requirement) not in leave_out
        }
        if left:
            kept[requirement] = left
    return kept


def _application_sparing(config: ClusterConfig) -> dict[str, Sparing]:
    return {name: each.sparing for name, each in config.applications.items() if each.sparing != NOBODY_SPARED}


def _fair(config: ClusterConfig) -> list[Queue]:
    """Queues whose users have shares."""
    return [queue for queue in config.queues.values() if queue.fairshare is not None]


def _application_tasks(config: ClusterConfig) -> dict[str, int]:
    return {name: each.task_limit[2] for name, each in config.applications.items() if each.task_limit is not None}


def _job_group_limits(state: ClusterState) -> dict[str, int]:
    return {name: group.job_limit for name, group in state.groups.items() if group.job_limit is not None}


def _array_limits(state: ClusterState) -> dict[int, int]:
    return {number: array.spec.array_limit for number, array in state.arrays.items() if array.spec.array_limit}


def _reservations(state: ClusterState, config: ClusterConfig) -> Iterator[AdvanceReservation]:
    """All advance reservations by name, user groups resolved."""
    for name, made in sorted(state.reservations.items()):
        users = tuple(config.members_of(made.users))
        yield AdvanceReservation(name, users, made.start, made.end, made.slots, made.gpus)


def _increasing(config: ClusterConfig, gpu_names: Iterable[str]) -> frozenset[str]:
    """Resources of which less is better; of those of GPUs the named ones."""
    known = (config.resource(name) for name in (*BUILTIN, *config.resources, *gpu_names))
    return frozenset(each.name for each in known if each is not None and each.increasing)


def local_type_of(config: ClusterConfig) -> str:
    """What `type==local` stands for."""
    master = config.hosts.get(config.master_host)
    return LOCAL_TYPE if master is None else host_type(master)


def _fixed(config: ClusterConfig, gpu_names: Iterable[str]) -> _Fixed:
    groups = config.user_groups
    return _Fixed(
        local_type=local_type_of(config),
        increasing=_increasing(config, gpu_names),
        budgets=tuple(limit for limit in config.limits if limit.gpu_hours is not None),
        user_limits=_rows(config, lambda row: row.max_jobs),
        processor_limits=_rows(config, lambda row: row.max_jobs_per_processor)
        | {
            name: user.max_jobs_per_processor
            for name, user in config.users.items()
            if name in groups and user.max_jobs_per_processor is not None
        },
        group_limits={
            name: (groups[name].users, user.max_jobs)
            for name, user in config.users.items()
            if name in groups and user.max_jobs is not None
        },
        user_groups={name: group.users for name, group in groups.items()},
        timed_hosts=frozenset(host.name for host in config.hosts.values() if host.dispatch_window),
    )


def _counts(config: ClusterConfig) -> LimitCounts | None:
    """The count of what started jobs hold of limits and pools, with none of them; None where nothing asks for it."""
    return LimitCounts(config.limits, pools=config.pools) if has_limits(config) else None


def has_limits(config: ClusterConfig) -> bool:
    """Whether anything is configured for which it must be known who holds what where."""
    on_queues = any(q.host_limit is not None or q.processor_limit is not None for q in config.queues.values())
    on_users = any(user.max_jobs is not None or user.max_jobs_per_processor for user in config.users.values())
    has_sections = bool(config.limits or config.shared_limits or config.pools)
    return has_sections or on_queues or on_users or any(h.user_slots is not None for h in config.hosts.values())


def _rows(config: ClusterConfig, limit: Callable[[UserLimits], float | None]) -> dict[str, float]:
    """User, `group@` or "default" -> limit, where any row has one. A row that sets none is infinite: it exempts from
    the default.
    """
    rows = {name: limit(row) for name, row in config.users.items() if name not in config.user_groups}
    if all(amount is None for amount in rows.values()):
        return {}
    return {name: float("inf") if amount is None else amount for name, amount in rows.items()}
