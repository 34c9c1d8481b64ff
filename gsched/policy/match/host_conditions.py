"""Is a host one for jobs of a class in their queue, whatever is free there? See gsched.policy.match.fit_condition."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from typing import ClassVar

import numpy as np

from gsched.base.coded_text import coded
from gsched.model.jobs.reason import PendingReason
from gsched.model.queues.container import RUNTIMES_RESOURCE
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.column_part import Flags, HostNumbers
from gsched.model.scheduling.columns import HostColumns
from gsched.model.scheduling.snapshot import HostSnapshot
from gsched.policy.match.fit_condition import (
    HostCondition,
    HostsView,
)
from gsched.policy.match.host_now import FitRules, HostNow
from gsched.policy.requirement.demand import Demand
from gsched.policy.requirement.reasons import Reason

RECENT = Reason(coded("pending.recent"))


class _NamedHosts(HostCondition):
    """Some hosts by name are for such jobs, or are not."""

    is_fixed = True
    reason: ClassVar[Reason]
    are_meant: ClassVar[bool] = True
    """Whether the names are of those that are."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def refusal(self, now: HostNow) -> Reason | None:
        return None if (now.host.name in self._names) is self.are_meant else self.reason

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        found = np.full(columns.size, self.are_meant, dtype=np.bool_)
        found[columns.rows_of(self._names)] = not self.are_meant
        return view.of(found)


class HostOfQueue(_NamedHosts):
    """HOSTS of the queue."""

    reason = Reason(coded("pending.not_in_queue"), candidate=False)

    @classmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        members = rules.queue_hosts.get(queue.name)
        if members is not None:
            yield cls(members)


class AskedHost(_NamedHosts):
    """-m, and the first execution hosts that it names."""

    reason = Reason(coded("pending.not_asked"), candidate=False)

    @classmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        if demand.asked_hosts and not demand.other_hosts:
            yield cls((*demand.asked_hosts, *demand.first_hosts))
        if on_first:
            yield cls(demand.first_hosts)


class HostNotExcluded(_NamedHosts):
    """Hosts that an exclusive requeue exit value keeps the job from."""

    reason = Reason(coded("pending.excluded"), candidate=False)
    are_meant = False

    @classmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        if demand.excluded_hosts:
            yield cls(demand.excluded_hosts)


class HasContainerRuntime(HostCondition):
    """One of the programs that can run the job's container is there."""

    def __init__(self, runtimes: tuple[str, ...]) -> None:
        self._runtimes = runtimes

    @classmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        if demand.container_runtimes:
            yield cls(demand.container_runtimes)

    @property
    def key(self) -> Hashable:
        return self._runtimes

    def _is_met(self, host: HostSnapshot) -> bool:
        there = host.values.get(RUNTIMES_RESOURCE)
        return isinstance(there, str) and not set(self._runtimes).isdisjoint(there.split())

    def refusal(self, now: HostNow) -> Reason | None:
        if self._is_met(now.host):
            return None
        return Reason(coded("pending.no_container_runtime", " or ".join(self._runtimes)), candidate=False)

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        met = columns.standing((type(self), self.key), self._is_met)
        found: Flags = view.of(met) == 0
        return found


class SaidByHost(HostCondition):
    """Each host says itself why it does not meet it."""

    @abstractmethod
    def said(self, host: HostSnapshot) -> PendingReason | None:
        """The reason; None when it meets it."""

    def refusal(self, now: HostNow) -> Reason | None:
        reason = self.said(now.host)
        return None if reason is None else Reason(reason.text, reason.detail)

    def column(self, columns: HostColumns) -> HostNumbers:
        """1 for hosts that say something."""
        return columns.standing((type(self), self.key), lambda host: bool(self.said(host)))

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        found: Flags = view.of(self.column(columns)) > 0
        return found


class HostOpen(SaidByHost):
    """The host takes jobs at all."""

    @classmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        yield cls()

    @property
    def key(self) -> Hashable:
        return ()

    def said(self, host: HostSnapshot) -> PendingReason | None:
        return PendingReason(host.closed) if host.closed else None


class HostNotBusy(SaidByHost):
    """Its load lets jobs of the queue start."""

    def __init__(self, queue: str) -> None:
        self._queue = queue

    @classmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        yield cls(queue.name)

    @property
    def key(self) -> Hashable:
        return self._queue

    def said(self, host: HostSnapshot) -> PendingReason | None:
        return host.busy.get(self._queue) or host.busy.get("")


class AcceptInterval(HostCondition):
    """JOB_ACCEPT_INTERVAL has passed since the last job was started there.

    It is a matter of a moment, so that plans may count on the host. Hosts that the cycle itself uses are marked beside.
    """

    def __init__(self, queue: Queue, rules: FitRules) -> None:
        self._interval_s = rules.interval_of(queue)
        self._now = rules.now

    @classmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        if rules.interval_of(queue) > 0:
            yield cls(queue, rules)

    def refusal(self, now: HostNow) -> Reason | None:
        return RECENT if self._now < now.host.last_dispatch + self._interval_s else None

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        last = columns.standing("last_dispatch", lambda host: host.last_dispatch)
        found: Flags = view.of(last) + self._interval_s > self._now
        return found


HOST_CONDITIONS: list[type[HostCondition]] = [
    HostOfQueue,
    AskedHost,
    HostNotExcluded,
    HasContainerRuntime,
    HostOpen,
    HostNotBusy,
]
"""AcceptInterval comes after them and is none of them: plans may count on a host that takes no job for the moment."""


def host_conditions(queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool = False) -> list[HostCondition]:
    """What makes a host one for jobs of a class in the queue, AcceptInterval aside."""
    return [each for kind in HOST_CONDITIONS for each in kind.of(queue, demand, rules, on_first=on_first)]


def closed_hosts(columns: HostColumns) -> HostNumbers:
    """1 for hosts that say themselves that they take nothing."""
    return HostOpen().column(columns)
