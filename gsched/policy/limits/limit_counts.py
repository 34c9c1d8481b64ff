"""Sections of lsb.resources made ready for questions, and the count of what started jobs hold of them.

What a job takes of a section is said here once, for counting and for asking alike. It never refuses anything.
Source: lsb.resources(5), section Limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.ledgers.held_amounts import amount_of
from gsched.model.queues.guarantee import GuaranteePool
from gsched.model.queues.limit import JOBS, SLOTS, Consumers, HeldCounts, Limit
from gsched.model.queues.window import is_open
from gsched.model.scheduling.snapshot import Bucket, Running, Snapshot
from gsched.policy.guarantees.pool_units import taken_units

Member = tuple[str, str, str, str, str]
"""(user, queue, host, project, application profile) that an amount is counted for; "" where the section does not tell
them apart."""

Key = TypeVar("Key")

_CRUMB = 1e-9
"""Sums of amounts that are smaller than this are rounding."""


def budget_key(limit: Limit, user: str, queue: str, project: str) -> str:
    """Under what name a budget's use is kept: `NAME`, and `/MEMBER` for each consumer line of the PER_ kind, in the
    order user, queue, project. Hosts are not told apart.
    """
    key = limit.name
    for consumers, member in ((limit.users, user), (limit.queues, queue), (limit.projects, project)):
        if consumers is not None and consumers.per:
            key += f"/{member}"
    return key


def concerns(limit: Limit, user: str, queue: str, project: str) -> bool:
    """Whether jobs of that user, queue and project count for the limit."""
    return (
        (limit.queues is None or limit.queues.has(queue))
        and (limit.projects is None or limit.projects.has(project))
        and (limit.users is None or limit.users.has(user))
    )


class CountedSection:
    """One Limit section that sets amounts."""

    __slots__ = ("_excluded", "_hosts", "_per", "_users", "by_host", "limit", "name", "resources", "shared")

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self.name = limit.name
        self.resources = tuple(limit.amounts)
        self.shared = self.resources[0] if limit.is_shared_resource else ""
        """The resource of which it is an instance that its hosts share."""
        self.by_host = limit.hosts is not None
        """Only what jobs hold on its hosts counts."""
        kinds = (limit.users, limit.queues, limit.hosts, limit.projects, limit.applications)
        self._per = tuple(_per(each) for each in kinds)
        # Groups are listed member by member: looking through such a list for every job would be slow.
        self._users = frozenset(limit.users.names) if limit.users is not None else frozenset()
        self._hosts = frozenset(limit.hosts.names) if limit.hosts is not None else frozenset()
        self._excluded = frozenset(limit.hosts.excluded) if limit.hosts is not None else frozenset()

    @property
    def is_of_everybody(self) -> bool:
        """Whether it looks at neither user, project nor profile: what it refuses to one it refuses to all."""
        return self.limit.users is None and self.limit.projects is None and self.limit.applications is None

    @property
    def needs_a_place(self) -> bool:
        """Whether its answer depends on the place that is found: on its hosts, or on amounts."""
        return self.by_host or any(resource not in (SLOTS, JOBS) for resource in self.resources)

    def concerns(self, bucket: Bucket) -> bool:
        """Whether the bucket's jobs count for it."""
        if self.shared:
            return may_reserve(bucket.requirement.requirement, self.shared)
        limit = self.limit
        users, applications = limit.users, limit.applications
        return (
            (users is None or ((not self._users or bucket.user in self._users) and bucket.user not in users.excluded))
            and (limit.queues is None or limit.queues.has(bucket.queue))
            and (limit.projects is None or limit.projects.has(bucket.project))
            and (applications is None or (bool(bucket.application) and applications.has(bucket.application)))
        )

    def has_host(self, host: str) -> bool:
        """Whether what is held on the host counts; always so for a section without hosts."""
        return (not self._hosts or host in self._hosts) and host not in self._excluded

    def member(self, bucket: Bucket, host: str = "") -> Member:
        """Whom a job of the bucket, on that host, counts for."""
        user, queue, on_host, project, application = self._per
        return (
            bucket.user if user else "",
            bucket.queue if queue else "",
            host if on_host else "",
            bucket.project if project else "",
            bucket.application if application else "",
        )

    def allowed(self, resource: str, minute_of_week: int) -> float | None:
        """The smallest amount whose window is open; None: no limit now."""
        amounts = self.limit.amounts.get(resource, ())
        return min((each.amount for each in amounts if is_open(each.windows, minute_of_week)), default=None)

    def takes(self, bucket: Bucket, parts: Sequence[HostAllocation]) -> dict[Member, dict[str, float]]:
        """What a job with those parts takes of each of the section's amounts, by whom it counts for."""
        taken: dict[Member, dict[str, float]] = {}
        for part in parts:
            if not self.has_host(part.host):
                continue
            member = self.member(bucket, part.host)
            sums = taken.get(member)
            if sums is None:
                sums = taken[member] = dict.fromkeys(self.resources, 0.0)
            for resource in self.resources:
                sums[resource] = 1.0 if resource == JOBS else sums[resource] + amount_of(part, resource)
        return taken


def may_reserve(requirement: str, resource: str) -> bool:
    """Whether a requirement's rusage[] may name the resource; False is sure."""
    return resource in requirement.partition("rusage")[2]


class LimitCounts:
    """What started jobs hold of whatever limits can be set on, kept job by job.

    `add` with 1 when a job has been given an allocation, with -1 and an equal bucket and allocation when it has
    ended. Suspended jobs still hold. `held` is what a snapshot carries.
    """

    def __init__(
        self,
        limits: Iterable[Limit] = (),
        running: Iterable[Running] = (),
        pools: Iterable[GuaranteePool] = (),
    ) -> None:
        self.sections = [CountedSection(limit) for limit in limits if limit.amounts]
        # Jobs share GPUs, so what is used of them is no sum over jobs: PoolState counts the devices.
        self._pools = tuple(pool for pool in pools if not pool.counts_gpus)
        self.held = HeldCounts()
        for each in running:
            self.add(each, 1)

    def add(self, running: Running, sign: int) -> None:
        """Count a started job (1), or no more (-1)."""
        self.count(running.bucket, running.allocation, sign)

    def count(self, bucket: Bucket, allocation: Allocation, sign: int = 1) -> None:
        """Count a job of the bucket with that allocation (1), or no more (-1)."""
        held = self.held
        for part in allocation.hosts:
            _add(held.queue_host, (bucket.queue, part.host), sign * part.slots)
            _add(held.user_host, (bucket.user, part.host), sign * part.slots)
            _add(held.user, bucket.user, sign * part.slots)
        for section in self.sections:
            if section.concerns(bucket):
                self._count_section(section, bucket, allocation, sign)
        for pool in self._pools:
            self._count_pool(pool, bucket, allocation, sign)

    def _count_pool(self, pool: GuaranteePool, bucket: Bucket, allocation: Allocation, sign: int) -> None:
        units = self.held.pools.setdefault(pool.name, {})
        owner = bucket.service_class if bucket.service_class in pool.shares else ""
        for part in allocation.hosts:
            if pool.hosts.has(part.host):
                left = units.get((owner, part.host), 0.0) + sign * taken_units(pool, part)
                if abs(left) < _CRUMB:
                    units.pop((owner, part.host), None)
                else:
                    units[owner, part.host] = left

    def _count_section(self, section: CountedSection, bucket: Bucket, allocation: Allocation, sign: int) -> None:
        members = self.held.section.setdefault(section.name, {})
        for member, taken in section.takes(bucket, allocation.hosts).items():
            sums = members.setdefault(member, {})
            for resource, amount in taken.items():
                left = sums.get(resource, 0.0) + sign * amount
                if abs(left) < _CRUMB:
                    sums.pop(resource, None)
                else:
                    sums[resource] = left
            if not sums:
                del members[member]


class CycleCounts:
    """What is held in a cycle: by the jobs started before it, and by what it has placed (`added`)."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._base = snapshot.held
        self.added = LimitCounts(snapshot.limits)

    @property
    def base(self) -> HeldCounts:
        """Counts of the started jobs; counted here once if the core has not kept it, and only if a limit asks."""
        if self._base is None:
            seen = self._snapshot
            self._base = LimitCounts(seen.limits, seen.running.values(), seen.guarantees).held
        return self._base

    def of_user(self, user: str) -> int:
        """Slots of the user."""
        return self.base.user.get(user, 0) + self.added.held.user.get(user, 0)

    def of_queue_on(self, queue: str, host: str) -> int:
        """Slots of the queue on the host."""
        key = (queue, host)
        return self.base.queue_host.get(key, 0) + self.added.held.queue_host.get(key, 0)

    def of_user_on(self, user: str, host: str) -> int:
        """Slots of the user on the host."""
        key = (user, host)
        return self.base.user_host.get(key, 0) + self.added.held.user_host.get(key, 0)

    def of_section(self, section: str, member: Member, resource: str) -> float:
        """What the member uses of the section's amount."""
        base = self.base.section.get(section, {}).get(member, {}).get(resource, 0.0)
        return base + self.added.held.section.get(section, {}).get(member, {}).get(resource, 0.0)

    def members(self, section: str) -> list[Member]:
        """Who uses anything of the section, sorted."""
        return sorted({*self.base.section.get(section, {}), *self.added.held.section.get(section, {})})


def _per(consumers: Consumers | None) -> bool:
    return consumers is not None and consumers.per


def _add(counts: dict[Key, int], key: Key, slots: int) -> None:
    left = counts.get(key, 0) + slots
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)
