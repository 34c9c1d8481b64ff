"""All guaranteed pools of one cycle: whether a job may have a place, and what it leaves to the owners.

    use = GuaranteeUse(snapshot, held)
    use.concerns(bucket)                 whether anything is ever said about, or counted of, jobs of the bucket
    use.refusal(bucket, parts)           why a job may not have these parts, one or all of its hosts
    use.room(bucket, host)               slots that it may take there
    use.is_within(bucket, part)          it is guaranteed: no plan for another job stands in its way
    use.count(bucket, parts)             it starts
    use.lend(waiting)                    the owners have been served: from now on loans are made

A job that may borrow is told to wait until then, so that no loan comes before an owner who could start now.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.queues.guarantee import SLOTS_OF
from gsched.model.queues.limit import GPUS
from gsched.model.scheduling.snapshot import Bucket, Snapshot
from gsched.policy.guarantees.pool_state import PoolRefusal, PoolState

HeldUnits = Mapping[str, Mapping[tuple[str, str], float]]
"""Pool -> (owner or "", host) -> units of started jobs."""


class GuaranteeUse:
    """See the module."""

    def __init__(self, snapshot: Snapshot, held: HeldUnits | None = None) -> None:
        self._snapshot = snapshot
        self._held: HeldUnits = held or {}
        self._lends = False
        self._demanding: Mapping[str, frozenset[str]] = {}
        """Pool -> owners of whom jobs wait that could use it."""
        self._alike: dict[str, tuple[bool, ...]] = {}
        self.deferred: dict[Bucket, None] = {}
        """Whose jobs may borrow what they were refused, when the owners have been served."""

    @property
    def are_there(self) -> bool:
        """Whether there is any pool."""
        return bool(self._snapshot.guarantees)

    @cached_property
    def count_gpus(self) -> bool:
        """Whether any pool counts GPUs."""
        return any(GPUS in pool.unit for pool in self._snapshot.guarantees)

    @cached_property
    def pools(self) -> tuple[PoolState, ...]:
        """In the order of their configuration."""
        return tuple(
            PoolState(pool, self._snapshot, self._held.get(pool.name, {})) for pool in self._snapshot.guarantees
        )

    def concerns(self, bucket: Bucket) -> bool:
        """Whether guarantees keep anything from jobs of the bucket."""
        if not self._snapshot.guarantees:
            return False
        queue = self._snapshot.queues.get(bucket.queue)
        return queue is None or not queue.ignores_guarantees

    def refusal(self, bucket: Bucket, parts: Sequence[HostAllocation]) -> PoolRefusal | None:
        """Why a job of the bucket may not have those parts."""
        if not self.concerns(bucket):
            return None
        for pool in self.pools:
            refused = pool.refusal(bucket, parts, lends=self._lends, demanding=self._demanding_of(pool))
            if refused is not None:
                if refused.may_borrow:
                    self.deferred[bucket] = None
                return refused
        return None

    def room(self, bucket: Bucket, host: str) -> float:
        """Slots that one more job of the bucket may take on the host, as far as pools of slots go."""
        if not self.concerns(bucket):
            return math.inf
        left = math.inf
        for pool in self.pools:
            if pool.pool.unit == SLOTS_OF and host in pool.hosts:
                slots = int(pool.units_of(host)[1])
                while slots and self.refusal(bucket, (HostAllocation(host=host, slots=slots),)) is not None:
                    slots -= 1
                left = min(left, slots)
        return left

    def shut_hosts(self, bucket: Bucket) -> frozenset[str]:
        """Hosts of pools of slots of which not even one slot is left to the bucket's jobs."""
        shut: set[str] = set()
        for pool in self.pools:
            if pool.pool.unit == SLOTS_OF:
                shut.update(self._shut_of(pool, bucket))
        return frozenset(shut)

    def _shut_of(self, pool: PoolState, bucket: Bucket) -> Iterator[str]:
        """The pool answers for all of its hosts alike; SLOTS_PER_HOST for each host by itself."""
        for name in pool.hosts:
            if pool.units_of(name)[1] < 1:
                continue
            part = HostAllocation(host=name, slots=1)
            refused = pool.refusal(bucket, (part,), lends=self._lends, demanding=self._demanding_of(pool))
            if refused is not None and refused.is_of_one_host:
                yield name
                continue
            if refused is not None:
                yield from pool.hosts
            if refused is not None or pool.pool.slots_per_host is None:
                return

    def foreign_hosts(self, bucket: Bucket) -> frozenset[str]:
        """Hosts of pools of which something is guaranteed to others that do not use it."""
        pools = (
            pool for pool in self.pools if pool.owed > (pool.unmet(owner) if (owner := pool.owner_of(bucket)) else 0)
        )
        return frozenset(name for pool in pools for name in pool.hosts)

    def alike(self, host: str) -> tuple[bool, ...]:
        """Hosts of which this is the same are alike to pools, for a job that would get the same there."""
        found = self._alike.get(host)
        if found is None:
            found = self._alike[host] = tuple(
                answer for pool in self.pools for answer in (host in pool.hosts, pool.is_used_whole(host))
            )
        return found

    def is_within(self, bucket: Bucket, part: HostAllocation) -> bool:
        """Whether a pool guarantees the part to the job, and none refuses it."""
        if not bucket.service_class or not self.are_there:
            return False
        within = [pool.is_within(bucket, (part,)) for pool in self.pools if pool.has_part((part,))]
        return bool(within) and all(within)

    def is_owner_on(self, bucket: Bucket, host: str) -> bool:
        """Whether anything is guaranteed on the host to jobs of the bucket."""
        return any(pool.owner_of(bucket) for pool in self.pools if host in pool.hosts)

    def count(self, bucket: Bucket, parts: Sequence[HostAllocation], sign: int = 1) -> None:
        """A job of the bucket starts with those parts, which the cycle's ledger shows; or (-1) has them no more."""
        for pool in self.pools if self.are_there else ():
            pool.count(bucket, parts, sign)
        self._alike.clear()

    def hand_out(self, part: HostAllocation) -> None:
        """A job that grows gets this beside what it has, and is counted next: the cycle's ledger does not show it."""
        for pool in self.pools if self.are_there else ():
            pool.hand_out(part)

    def lend(self, waiting: Mapping[str, frozenset[str]]) -> None:
        """From now on loans are made. `waiting`: pool -> service classes of which jobs wait still that could use it."""
        self._lends, self._demanding = True, waiting

    def _demanding_of(self, pool: PoolState) -> frozenset[str]:
        return self._demanding.get(pool.pool.name, frozenset())
