"""Limits: how much a queue, a user, a group, a project, a job group or an array may hold, altogether or on a host.

It only says no, with numbers; it never chooses. A cycle of a cluster without limits costs nothing here: what is in use
is counted only where a limit asks for it. Texts: pending reasons of LSF 10.1 (bjobs -p); sections: lsb.resources(5).

    use = LimitUse(snapshot, needs)
    use.closed_queues()                      queues that start nothing, whatever the job (for ServingOrder)
    use.reason(bucket) -> LimitDenial | None      before looking for hosts: may one more job of the bucket start at all?
    use.slots_left(bucket) -> float          most slots that its next job may take (-n min,max)
    use.has_host_limits(bucket) -> bool      whether a host's answer or the amounts of a place can matter; if so:
    use.room(bucket, host) -> float          slots that the job may take on that host
    use.host_reason(bucket, host, part) -> LimitDenial | None            with what it would get there
    use.allocation_reason(bucket, allocation) -> LimitDenial | None      all parts together, exactly; for several hosts
    use.count(bucket, allocation)            it starts
    use.views() -> list[LimitView]           glimits

`needs(requirement)`: what a job of the class takes at the least of everything but slots (`ngpus`: devices), all hosts
together. Without it only amounts of places that were found are checked.

The core keeps what the started jobs hold: `LimitCounts.of(rules)`, then `add(running, 1)` and `add(running, -1)`;
`Snapshot.held = counts.held`. At a reconfig it is made anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

from gsched.base.coded_text import AnyText, coded
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.queues.limit import Limit
from gsched.model.scheduling.snapshot import Bucket, HostSnapshot, Snapshot
from gsched.model.views.room_view import LimitView
from gsched.policy.guarantees.guarantee_use import GuaranteeUse
from gsched.policy.limits.guarantee_claims import guarantee_claims, guarantee_reason
from gsched.policy.limits.limit_claims import (
    GROUP_TEXTS,
    OF_ARRAY,
    OF_JOB_GROUP,
    OF_QUEUE,
    OF_QUEUE_USER,
    OF_USERS,
    QUEUE_TEXTS,
    QUEUE_USER_TEXTS,
    USER_TEXTS,
    LimitClaim,
    LimitCounter,
)
from gsched.policy.limits.limit_counts import CycleCounts
from gsched.policy.limits.limit_members import EVERYBODY, groups_above, limit_of
from gsched.policy.limits.limit_sections import BUCKET, CLASS, QUEUE, LimitDenial, Needs, SectionUse


class LimitUse:
    """What is in use in this cycle: what the snapshot says plus what the cycle has placed."""

    def __init__(self, snapshot: Snapshot, needs: Needs | None = None) -> None:
        self._snapshot = snapshot
        self._counts = CycleCounts(snapshot)
        self._sections = SectionUse(snapshot, self._counts, needs)
        self.guarantees = GuaranteeUse(snapshot, self._counts.base.pools if snapshot.guarantees else None)
        """What is kept free for service classes, a limit for all others."""
        self._queue: dict[str, int] = {}
        self._owner: dict[tuple[str, str], int] = {}
        self._job_groups: dict[str, int] = {}
        self._arrays: dict[int, int] = {}
        self._user_limits: dict[str, float | None] = {}
        self._processor_limits: dict[str, float | None] = {}
        self._groups_of: dict[str, list[str]] | None = None
        self._group_slots: dict[str, int] = {}
        self._has_user_limits = bool(snapshot.user_limits or snapshot.group_limits)
        self._hosts_limit_users: bool | None = None
        self._is_counting: bool | None = None

    # -- before a place is looked for -----------------------------------------------------------------------------

    def closed_queues(self) -> frozenset[str]:
        """Queues that start nothing now: inactive, or at their job slot limit. `queue_reason` says why."""
        full = {
            name
            for name, queue in self._snapshot.queues.items()
            if queue.job_limit is not None and self._queue_used(name) >= queue.job_limit
        }
        return frozenset(full | self._snapshot.inactive_queues.keys())

    def queue_reason(self, name: str, slots: int = 1) -> LimitDenial | None:
        """Why no job of so many slots may start from the queue."""
        inactive = self._snapshot.inactive_queues.get(name)
        if inactive is not None:
            return LimitDenial(inactive, scope=QUEUE)
        queue = self._snapshot.queues.get(name)
        if queue is None:
            return LimitDenial(coded("queue.gone", name), scope=QUEUE)
        if queue.job_limit is not None:
            used = self._queue_used(name)
            if used >= queue.job_limit:
                return LimitDenial(QUEUE_TEXTS[0], coded("limit.used", used, queue.job_limit), QUEUE)
            if used + slots > queue.job_limit:
                return LimitDenial(QUEUE_TEXTS[1], coded("limit.wanted", slots, used, queue.job_limit), CLASS)
        return None

    def reason(self, bucket: Bucket) -> LimitDenial | None:
        """Why the bucket's next job may not start, whatever the host; None: nothing is against it."""
        if self.says_nothing(bucket):
            return None
        slots = bucket.requirement.slots
        return (
            self.queue_reason(bucket.queue, slots) or self._slots_denial(bucket, slots) or self._sections.reason(bucket)
        )

    def section_reason(self, bucket: Bucket) -> LimitDenial | None:
        """Why the bucket's next job may not start for the sake of a section of lsb.resources, whatever the host."""
        return self._sections.reason(bucket)

    def slots_left(self, bucket: Bucket) -> float:
        """Slots that one more job of the bucket may take, all hosts together; infinite without limits."""
        if bucket.queue in self._snapshot.inactive_queues or self._counted_denial(bucket) is not None:
            return 0
        left = min((allowed - used for _, _, _, used, allowed in self._slot_limits(bucket)), default=math.inf)
        return max(0, min(left, self._sections.room(bucket)))

    def says_nothing(self, bucket: Bucket) -> bool:
        """Whether no limit at all concerns the bucket's jobs: then there is nothing to ask and nothing to count."""
        if bucket.array or bucket.job_group or bucket.application:
            return False
        return bucket.queue in self._free_queues and not self._sections.shares(bucket.requirement)

    @cached_property
    def _free_queues(self) -> frozenset[str]:
        """Queues of whose jobs no limit concerns or counts any but those of an array, a group or a profile, and those
        that take of a resource that hosts share.
        """
        snapshot = self._snapshot
        has_sections = any(not limit.is_shared_resource for limit in snapshot.limits)
        is_limited = self._has_user_limits or has_sections or snapshot.processor_limits or snapshot.guarantees
        if is_limited or self._limits_users_of_hosts():
            return frozenset()
        return frozenset(
            name
            for name, queue in snapshot.queues.items()
            if queue.job_limit is None
            and queue.user_limit is None
            and queue.host_limit is None
            and queue.processor_limit is None
            and name not in snapshot.inactive_queues
        )

    # -- where a place was found ----------------------------------------------------------------------------------

    def has_host_limits(self, bucket: Bucket) -> bool:
        """Whether `room`, `host_reason` and `allocation_reason` can say anything about jobs of the bucket."""
        return self.guarantees.concerns(bucket) or self._has_other_host_limits(bucket)

    def alike(self, bucket: Bucket, host: str) -> tuple[bool, ...] | None:
        """Hosts of which this is the same have the same `claims` for the same part; None: of no other host they are."""
        return None if self._has_other_host_limits(bucket) else self.guarantees.alike(host)

    def _has_other_host_limits(self, bucket: Bucket) -> bool:
        """Whether anything but guaranteed pools looks at single hosts."""
        queue = self._snapshot.queues.get(bucket.queue)
        if queue is not None and (queue.host_limit is not None or queue.processor_limit is not None):
            return True
        if self._snapshot.processor_limits or self._limits_users_of_hosts():
            return True
        return self._sections.need_a_place(bucket)

    def room(self, bucket: Bucket, host: str) -> float:
        """Slots that one more job of the bucket may take on the host, as far as limits of hosts go."""
        if self._foreign_denial(bucket, host) is not None:
            return 0
        left = min((allowed - used for _, _, used, allowed in self._host_slot_limits(bucket, host)), default=math.inf)
        return max(0, min(left, self._sections.room(bucket, host), self.guarantees.room(bucket, host)))

    def host_reason(self, bucket: Bucket, host: str, part: HostAllocation) -> LimitDenial | None:
        """Why a job of the bucket may not have that part on the host."""
        denial = self._foreign_denial(bucket, host)
        if denial is not None:
            return denial
        for text, _, used, allowed in self._host_slot_limits(bucket, host):
            if used + part.slots > allowed:
                return LimitDenial(text, coded("limit.wanted_on", part.slots, used, allowed, host))
        return self._sections.place_reason(bucket, (part,)) or self._guarantee_reason(bucket, (part,))

    def allocation_reason(self, bucket: Bucket, allocation: Allocation) -> LimitDenial | None:
        """Why a job of the bucket may not have the whole allocation: every limit, with what it takes in fact."""
        parts = allocation.hosts
        slots = allocation.slots
        denial = self.queue_reason(bucket.queue, slots) or self._slots_denial(bucket, slots)
        for part in parts:
            denial = denial or self.host_reason(bucket, part.host, part)
        if denial is None and len(parts) > 1:
            denial = self._sections.place_reason(bucket, parts) or self._guarantee_reason(bucket, parts)
        return denial

    def _guarantee_reason(self, bucket: Bucket, parts: Sequence[HostAllocation]) -> LimitDenial | None:
        refused = self.guarantees.refusal(bucket, parts)
        return None if refused is None else guarantee_reason(refused, bucket, self.guarantees)

    def count(self, bucket: Bucket, allocation: Allocation) -> None:
        """A job of the bucket starts with that allocation."""
        if self.says_nothing(bucket):
            return
        if bucket.job_group:
            for group in groups_above(bucket.job_group):
                self._job_groups[group] = self._job_groups.get(group, 0) + 1
        if bucket.array:
            self._arrays[bucket.array] = self._arrays.get(bucket.array, 0) + 1
        self._count_held(bucket, allocation)

    def count_growth(self, bucket: Bucket, before: Allocation, after: Allocation) -> None:
        """A job of the bucket that was counted with `before` has `after` from now on: it is no other job by that."""
        if not self.says_nothing(bucket):
            self._count_held(bucket, before, -1)
            self._count_held(bucket, after)

    def _count_held(self, bucket: Bucket, allocation: Allocation, sign: int = 1) -> None:
        slots = sign * allocation.slots
        self.guarantees.count(bucket, allocation.hosts, sign)
        self._queue[bucket.queue] = self._queue.get(bucket.queue, 0) + slots
        owner = (bucket.queue, bucket.user)
        self._owner[owner] = self._owner.get(owner, 0) + slots
        if self._counts_are_asked_for():
            self._counts.added.count(bucket, allocation, sign)
            for group in self._limited_groups(bucket.user):
                self._group_slots[group] = self._group_used(group) + slots

    def shared_use(self, name: str, resource: str) -> float:
        """How much is used of an instance of a shared resource, by started jobs and those that the cycle has placed."""
        return self._counts.of_section(name, ("", "", "", "", ""), resource)

    def views(self) -> list[LimitView]:
        """The rows of glimits: sections of lsb.resources and budgets, as they are used after this cycle."""
        return self._sections.views()

    # -- later times ----------------------------------------------------------------------------------------------

    def claims(self, bucket: Bucket, parts: Sequence[HostAllocation], minute: int) -> Iterator[LimitClaim]:
        """What a job of the bucket with those parts takes of all that is counted, with what is allowed of it at that
        minute of the week. A part without a host stands for those that are not known yet.
        """
        slots = sum(part.slots for part in parts)
        for (full, _), _, counter, used, allowed in self._slot_limits(bucket):
            yield LimitClaim(counter, slots, used, allowed, full)
        for text, counter, used, allowed in self._counted_limits(bucket):
            yield LimitClaim(counter, 1, used, allowed, text)
        for part in parts:
            for text, counter, used, allowed in self._host_slot_limits(bucket, part.host) if part.host else ():
                yield LimitClaim(counter, part.slots, used, allowed, text)
        yield from self._sections.claims(bucket, parts, minute)
        yield from guarantee_claims(self.guarantees, bucket, parts)

    def budgets(self, bucket: Bucket) -> Iterator[tuple[Limit, AnyText, float]]:
        """See SectionUse."""
        return self._sections.budgets(bucket)

    def bars(self, bucket: Bucket, host: str) -> bool:
        """Whether the host takes no job of the bucket, however little it holds."""
        return self._foreign_denial(bucket, host) is not None

    def is_stopped(self, bucket: Bucket) -> bool:
        """Whether something keeps the bucket's jobs from starting that does not end with those that run."""
        return (
            bucket.queue in self._snapshot.inactive_queues
            or bucket.queue not in self._snapshot.queues
            or self._profile_denial(bucket) is not None
            or self._sections.has_spent(bucket)
        )

    def may_share(self, one: Bucket, other: Bucket) -> bool:
        """Whether jobs of the two may count for the same limit. False is sure."""
        if self.says_nothing(one) or self.says_nothing(other):
            return False
        if one.queue == other.queue or one.user == other.user or (one.job_group and other.job_group):
            return True
        groups = [*(members for members, _ in self._snapshot.group_limits.values())]
        groups += [self._snapshot.user_groups.get(name, ()) for name in self._snapshot.processor_limits]
        if any({one.user, EVERYBODY} & {*members} and {other.user, EVERYBODY} & {*members} for members in groups):
            return True
        return self.guarantees.are_there or self._sections.may_share(one, other)

    def until_change_min(self, bucket: Bucket, minute: int) -> int | None:
        """Minutes until what is allowed of a section that concerns the bucket may change; None: it does not."""
        return self._sections.until_change_min(bucket, minute)

    # -- slots ----------------------------------------------------------------------------------------------------

    def _slots_denial(self, bucket: Bucket, slots: int) -> LimitDenial | None:
        for (full, too_few), whose, _, used, allowed in self._slot_limits(bucket):
            if used + slots > allowed:
                text = full if used >= allowed or slots == 1 else too_few
                code = "limit.wanted_by" if whose else "limit.wanted"
                return LimitDenial(text, coded(code, slots, used, allowed, *filter(None, (whose,))), BUCKET)
        return self._counted_denial(bucket)

    def _slot_limits(self, bucket: Bucket) -> Iterator[tuple[tuple[AnyText, AnyText], str, LimitCounter, float, float]]:
        """(texts: full, not enough), whose, counter, used, allowed: of the queue and of the user on all hosts."""
        queue = self._snapshot.queues.get(bucket.queue)
        if queue is not None and queue.job_limit is not None:
            yield QUEUE_TEXTS, "", LimitCounter(OF_QUEUE, queue.name), self._queue_used(queue.name), queue.job_limit
        if queue is not None and queue.user_limit is not None:
            owner = (bucket.queue, bucket.user)
            used = self._snapshot.queue_user_slots.get(owner, 0) + self._owner.get(owner, 0)
            counter = LimitCounter(OF_QUEUE_USER, queue.name, (bucket.user,))
            yield QUEUE_USER_TEXTS, bucket.user, counter, used, queue.user_limit
        if not self._has_user_limits:
            return
        limit = self._user_limit(bucket.user)
        if limit is not None:
            used, counter = self._counts.of_user(bucket.user), LimitCounter(OF_USERS, members=(bucket.user,))
            yield USER_TEXTS, bucket.user, counter, used, limit
        for group in self._limited_groups(bucket.user):
            members, limit = self._snapshot.group_limits[group]
            yield (
                GROUP_TEXTS,
                group,
                LimitCounter(OF_USERS, members=members),
                self._group_used(group),
                limit,
            )

    def _foreign_denial(self, bucket: Bucket, host: str) -> LimitDenial | None:
        """An agent that is not root's cannot start the jobs of others than its own user."""
        there = self._snapshot.hosts.get(host)
        if there is None or there.only_user in ("", bucket.user):
            return None
        return LimitDenial(coded("limit.only_user", there.only_user), coded("limit.only_user_job", bucket.user, host))

    def _host_slot_limits(self, bucket: Bucket, host: str) -> Iterator[tuple[AnyText, LimitCounter, float, float]]:
        """Text, counter, used, allowed: of the queue and of the user on the host."""
        snapshot = self._snapshot
        queue = snapshot.queues.get(bucket.queue)
        there = snapshot.hosts.get(host)
        ncpus = max(1, there.ncpus) if there is not None else 1
        if queue is not None and (queue.host_limit is not None or queue.processor_limit is not None):
            used, counter = (
                self._counts.of_queue_on(bucket.queue, host),
                LimitCounter(OF_QUEUE, bucket.queue, host=host),
            )
            if queue.host_limit is not None:
                yield coded("limit.queue_per_host"), counter, used, queue.host_limit
            if queue.processor_limit is not None:
                allowed = math.ceil(queue.processor_limit * ncpus)
                yield coded("limit.queue_per_cpu"), counter, used, allowed
        counter = LimitCounter(OF_USERS, host=host, members=(bucket.user,))
        if there is not None and there.user_limit is not None:
            used = self._counts.of_user_on(bucket.user, host)
            yield coded("limit.host_per_user"), counter, used, there.user_limit
        if snapshot.processor_limits:
            limit = self._processor_limit(bucket.user)
            if limit is not None:
                used = self._counts.of_user_on(bucket.user, host)
                yield coded("limit.user_per_cpu"), counter, used, math.ceil(limit * ncpus)
            yield from self._group_processor_limits(bucket.user, host, ncpus)

    def _group_processor_limits(
        self, user: str, host: str, ncpus: int
    ) -> Iterator[tuple[AnyText, LimitCounter, float, float]]:
        for group, limit in self._snapshot.processor_limits.items():
            members = self._snapshot.user_groups.get(group, ())
            if user in members:
                used = sum(self._counts.of_user_on(each, host) for each in members)
                counter = LimitCounter(OF_USERS, host=host, members=tuple(members))
                yield coded("limit.group_per_cpu"), counter, used, math.ceil(limit * ncpus)

    # -- jobs: job groups and arrays ------------------------------------------------------------------------------

    def _profile_denial(self, bucket: Bucket) -> LimitDenial | None:
        profiles = self._snapshot.applications
        if not bucket.application or profiles is None or bucket.application in profiles:
            return None
        return LimitDenial(coded("application.gone", bucket.application))

    def _counted_denial(self, bucket: Bucket) -> LimitDenial | None:
        gone = self._profile_denial(bucket)
        if gone is not None:
            return gone
        for text, counter, started, limit in self._counted_limits(bucket):
            if started >= limit:
                of = coded("limit.elements") if counter.kind == OF_ARRAY else coded("limit.jobs_in", counter.name)
                return LimitDenial(text, coded("limit.started", started, limit, of))
        return None

    def _counted_limits(self, bucket: Bucket) -> Iterator[tuple[AnyText, LimitCounter, int, int]]:
        """Text, counter, started, allowed: of the array and the job groups."""
        snapshot = self._snapshot
        array = snapshot.array_limits.get(bucket.array) if bucket.array else None
        if array is not None:
            started = snapshot.array_jobs.get(bucket.array, 0) + self._arrays.get(bucket.array, 0)
            yield (
                coded("limit.array_full"),
                LimitCounter(OF_ARRAY, str(bucket.array)),
                started,
                array,
            )
        if bucket.job_group and snapshot.job_group_limits:
            for group in groups_above(bucket.job_group):
                limit = snapshot.job_group_limits.get(group)
                if limit is not None:
                    started = snapshot.job_group_jobs.get(group, 0) + self._job_groups.get(group, 0)
                    counter = LimitCounter(OF_JOB_GROUP, group)
                    yield coded("limit.job_group_full"), counter, started, limit

    # -- what is in use -------------------------------------------------------------------------------------------

    def _queue_used(self, queue: str) -> int:
        return self._snapshot.queue_slots.get(queue, 0) + self._queue.get(queue, 0)

    def _group_used(self, group: str) -> int:
        used = self._group_slots.get(group)
        if used is None:
            slots = self._counts.base.user
            members = self._snapshot.group_limits[group][0]
            everybody = EVERYBODY in members
            used = sum(slots.values()) if everybody else sum(slots.get(user, 0) for user in members)
            self._group_slots[group] = used
        return used

    def _user_limit(self, user: str) -> float | None:
        if user not in self._user_limits:
            self._user_limits[user] = limit_of(self._snapshot.user_limits, self._snapshot.user_groups, user)
        return self._user_limits[user]

    def _processor_limit(self, user: str) -> float | None:
        if user not in self._processor_limits:
            limits, groups = self._snapshot.processor_limits, self._snapshot.user_groups
            self._processor_limits[user] = limit_of(limits, groups, user)
        return self._processor_limits[user]

    def _limited_groups(self, user: str) -> list[str]:
        if self._groups_of is None:
            self._groups_of = {}
            for group, (members, _) in self._snapshot.group_limits.items():
                for member in members:
                    self._groups_of.setdefault(member, []).append(group)
        return list(dict.fromkeys([*self._groups_of.get(user, ()), *self._groups_of.get(EVERYBODY, ())]))

    def _limits_users_of_hosts(self) -> bool:
        if self._hosts_limit_users is None:
            hosts, columns = self._snapshot.hosts, self._snapshot.columns
            if columns is None:
                self._hosts_limit_users = any(_limits_users(host) for host in hosts.values())
            else:
                self._hosts_limit_users = bool(columns.standing("user_limit", _limits_users).any())
        return self._hosts_limit_users

    def _counts_are_asked_for(self) -> bool:
        """Whether any limit looks at what is counted job by job; without one nothing is counted."""
        if self._is_counting is None:
            snapshot = self._snapshot
            self._is_counting = (
                self._has_user_limits
                or bool(snapshot.limits or snapshot.processor_limits)
                or any(q.host_limit is not None or q.processor_limit is not None for q in snapshot.queues.values())
                or self._limits_users_of_hosts()
            )
        return self._is_counting


def _limits_users(host: HostSnapshot) -> bool:
    return host.user_limit is not None or bool(host.only_user)
