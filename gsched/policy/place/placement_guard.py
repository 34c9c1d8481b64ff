"""What beside free room keeps a job from a place: limits of hosts, and what is planned for others. It only says no."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.scheduling.snapshot import Bucket, RequirementClass, Snapshot
from gsched.policy.backfill.reservations import Reservations
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.limits.limit_sections import LimitDenial
from gsched.policy.requirement.reasons import Reason


class PlaceGuard:
    """Asked about each place that is found, in one cycle."""

    def __init__(self, snapshot: Snapshot, now: float, limits: LimitUse, reservations: Reservations) -> None:
        self._now = now
        self._limits = limits
        self._reservations = reservations
        self.own: dict[Bucket, dict[int, Reason]] = {}
        """Rows that a bucket may not use in this cycle for a limit's sake."""
        self._shunned: dict[Bucket, frozenset[str]] = {}
        """Hosts of pools of which a bucket's job on several hosts gets too little."""
        self.limited_buckets: set[Bucket] = set()
        """Buckets to which limits of hosts have said no."""
        self.refused_for_time: set[Bucket] = set()
        """Buckets whose jobs run too long beside what is planned, where other users' of the class may not."""
        self._ends: dict[int, tuple[Bucket, float]] = {}
        """Identity of a bucket, which costs less than its hash -> `ends_at`."""
        self.alike_hosts: tuple[str, ...] = ()
        """Hosts where the part that was refused last would be refused for the same reason."""
        self.guarded = reservations.hosts()
        """Hosts where something is planned for others."""
        self.beside_planned = True
        """Whether jobs for which a start is planned count; what of their places is taken has to be found out then."""
        self._limited: dict[int, tuple[Bucket, bool]] = {}
        """Identity of a bucket, which costs less than its hash -> whether limits of hosts can say anything to it."""

    def renew(self) -> None:
        """Something was planned."""
        self.guarded = self._reservations.hosts()

    def only(self, bucket: Bucket) -> frozenset[str] | None:
        """The hosts that -U binds the job to; None when it does not."""
        return self._reservations.guard.only_hosts(bucket) if bucket.requirement.reservation else None

    def ends_at(self, bucket: Bucket) -> float:
        """Expected end of a job of the bucket that starts now, UTC seconds; infinite when nobody knows."""
        found = self._ends.get(id(bucket))
        if found is None:
            found = self._ends[id(bucket)] = (bucket, self._now + self._reservations.future.run_s(bucket))
        return found[1]

    def is_end_by_user(self, bucket: Bucket) -> bool:
        """Whether `ends_at` may be another for other users' jobs of the class."""
        return self._reservations.future.estimates.is_by_user(bucket)

    def is_promised(self, queue: str, requirement: RequirementClass) -> bool:
        """Whether something is planned for a job of the class since the cycle before."""
        return self._reservations.awaits(queue, requirement)

    def ready(self, bucket: Bucket) -> Allocation | None:
        """The place that was planned for a job of such a class, if it is free by now."""
        found = self._reservations.ready(bucket, self.ends_at(bucket))
        return None if found is None or self.forbids(bucket, found) is not None else found

    def lets_pass(self, bucket: Bucket, part: HostAllocation) -> bool:
        """Whether nothing at all can be against the part: nothing is planned for the host, and there are no limits."""
        return (
            part.host not in self.guarded and not bucket.requirement.reservation and self._limits.says_nothing(bucket)
        )

    def planned(self, bucket: Bucket, part: HostAllocation, *, is_whole: bool = False) -> Reason | None:
        """Why what is planned for others forbids the part. `is_whole`: it is all that the job takes."""
        if part.host not in self.guarded and not bucket.requirement.reservation:
            return None
        found = self._reservations.allows(
            part, self.ends_at(bucket), bucket, is_whole=is_whole, beside_planned=self._heeds_plans(bucket, part)
        )
        if is_whole and found is None:
            self.renew()  # another may be planned elsewhere for its sake
        return found if found is None else self._refused(bucket, found)

    def _heeds_plans(self, bucket: Bucket, part: HostAllocation) -> bool:
        """Whether planned jobs stand against the part: none does that has no guarantee there against one that has."""
        guarantees = self._limits.guarantees
        if not self.beside_planned or not guarantees.is_within(bucket, part):
            return self.beside_planned
        planned = self._reservations.future.booked(part.host)
        return any(guarantees.is_owner_on(each.bucket, part.host) for each in planned)

    def _refused(self, bucket: Bucket, reason: Reason) -> Reason:
        if self._reservations.future.estimates.is_less_known(bucket):
            self.refused_for_time.add(bucket)
        return reason

    def is_refused_for_time(self, bucket: Bucket) -> bool:
        """Whether the bucket was refused for how long its jobs run, and for nothing else of its own."""
        return bucket in self.refused_for_time and bucket not in self.limited_buckets

    def is_own(self, bucket: Bucket) -> bool:
        """Whether what was said against the bucket says nothing about others of its class."""
        return bucket in self.limited_buckets or bucket in self.refused_for_time

    def limited(self, bucket: Bucket, part: HostAllocation) -> Reason | None:
        """Why limits forbid the part: those of the host, or what planned jobs will need of any."""
        if self._limits.says_nothing(bucket):
            return None
        denial = self._limits.host_reason(bucket, part.host, part) if self._has_limits(bucket) else None
        return self._denied(bucket, denial, (part,))

    def forbids(self, bucket: Bucket, allocation: Allocation) -> Reason | None:
        """Why limits forbid the allocation as a whole, now or for what planned jobs will need of them."""
        if self._limits.says_nothing(bucket):
            return None
        denial = self._limits.allocation_reason(bucket, allocation) if self._has_limits(bucket) else None
        return self._denied(bucket, denial, allocation.hosts)

    def _denied(self, bucket: Bucket, denial: LimitDenial | None, parts: Sequence[HostAllocation]) -> Reason | None:
        if denial is None:
            reason = self._reservations.keeps_limits(parts, self.ends_at(bucket), bucket)
        else:
            reason = Reason(denial.text, denial.detail)
            self.alike_hosts = denial.hosts
        if reason is not None:
            self.limited_buckets.add(bucket)
        return reason

    def left(self, bucket: Bucket, slots: int) -> Reason | None:
        """Why no place for so many slots is to be looked for: planned jobs will need what is left of a limit."""
        if self._limits.says_nothing(bucket):
            return None
        return self._denied(bucket, None, (HostAllocation(host="", slots=slots),))

    def _has_limits(self, bucket: Bucket) -> bool:
        found = self._limited.get(id(bucket))
        if found is None:
            found = (bucket, self._limits.has_host_limits(bucket))
            self._limited[id(bucket)] = found
        return found[1]

    def refuse(self, bucket: Bucket, row: int, reason: Reason) -> None:
        """The bucket may not use the host in this cycle."""
        self.own.setdefault(bucket, {})[row] = reason

    def shut_hosts(self, bucket: Bucket) -> frozenset[str]:
        """Hosts of guaranteed pools of which a job of the bucket gets nothing now."""
        guarantees = self._limits.guarantees
        if not guarantees.concerns(bucket):
            return frozenset()
        return guarantees.shut_hosts(bucket) | self._shunned.get(bucket, frozenset())

    def held_back(self, bucket: Bucket, slots: int) -> Reason | None:
        """Why a job of the bucket gets no slots of pools that have some free; None where pools are not against it."""
        for host in sorted(self.shut_hosts(bucket)):
            denial = self._limits.host_reason(bucket, host, HostAllocation(host=host, slots=slots))
            if denial is not None:
                self.limited_buckets.add(bucket)
                return Reason(denial.text, denial.detail)
        return None

    def shun_pools(self, bucket: Bucket) -> bool:
        """Leave out all hosts of pools that keep something from the bucket's next job; whether there are any."""
        guarantees = self._limits.guarantees
        if not guarantees.concerns(bucket) or bucket in self._shunned:
            return False
        self._shunned[bucket] = guarantees.foreign_hosts(bucket)
        return bool(self._shunned[bucket])

    def forget(self, buckets: Iterable[Bucket]) -> None:
        """Limits may let them in now where they have refused them."""
        for bucket in buckets:
            self.own.pop(bucket, None)
            self._shunned.pop(bucket, None)
            self.limited_buckets.discard(bucket)
