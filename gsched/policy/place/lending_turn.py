"""The second part of a cycle, in which what is guaranteed and not in use is lent.

Who may borrow is refused at first, so that owners and all who need no loan come before him; then those jobs alone are
served once more, in the same order. It decides nothing about a place.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from dataclasses import replace

from gsched.base.errors import RequirementError
from gsched.model.scheduling.snapshot import Bucket, JobLine, Placement, RequirementClass, Snapshot
from gsched.policy.backfill.reservations import Reservations
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.order.serving_order import ServingOrder
from gsched.policy.place.placement_guard import PlaceGuard
from gsched.policy.requirement.demand_cache import Demands


class LendingTurn:
    """See the module; for one cycle."""

    def __init__(
        self,
        snapshot: Snapshot,
        limits: LimitUse,
        guard: PlaceGuard,
        placements: Sequence[Placement],
        reservations: Reservations,
        demands: Demands,
    ) -> None:
        """`placements`: what the cycle has placed, as it grows."""
        self._reservations = reservations
        self._demands = demands
        self._snapshot = snapshot
        self._guarantees = limits.guarantees
        self._guard = guard
        self._placements = placements
        self._order: ServingOrder | None = None
        self._placed: set[int] = set()
        self.borrowers: tuple[Bucket, ...] = ()
        """Who is served in this part."""

    def is_placed(self, job_id: int) -> bool:
        """Whether the job was placed in the first part."""
        return bool(self._placed) and job_id in self._placed

    def awaits(self, bucket: Bucket) -> bool:
        """Whether the bucket's jobs are served once more: no start is planned for them before."""
        return self._order is None and bucket in self._guarantees.deferred

    def are_due(self) -> bool:
        """Whether anybody may borrow now."""
        return bool(self._guarantees.deferred)

    def order(self, before: ServingOrder, closed: Collection[str]) -> ServingOrder:
        """Those who may borrow, in the order in which they are served; `before`: that of the first part."""
        deferred = self.borrowers = tuple(self._guarantees.deferred)
        self._placed = {each.job_id for each in self._placements}
        self._guarantees.lend(self._waiting())
        self._guard.forget(deferred)
        pending: dict[RequirementClass, dict[Bucket, JobLine]] = {}
        for bucket in deferred:
            line = self._snapshot.pending.get(bucket.requirement, {}).get(bucket)
            if line is not None:
                pending.setdefault(bucket.requirement, {})[bucket] = line
        self._order = ServingOrder(replace(self._snapshot, pending=pending), None, closed, before.trees)
        return self._order

    def _waiting(self) -> dict[str, frozenset[str]]:
        """Of each pool that is closed on demand: service classes with a guarantee of which a job waits that was not
        placed and that could use the pool, if nothing ran there.
        """
        closing = [
            each for each in self._guarantees.pools if each.pool.loans is not None and each.pool.loans.close_on_demand
        ]
        if not closing:
            return {}
        found: dict[str, set[str]] = {each.pool.name: set() for each in closing}
        for buckets in self._snapshot.pending.values():
            for bucket, line in buckets.items():
                for pool in closing:
                    owner, known = pool.owner_of(bucket), found[pool.pool.name]
                    if not owner or owner in known or all(job in self._placed for _, job in line):
                        continue
                    if self._may_use(bucket, pool.hosts):
                        known.add(owner)
        return {name: frozenset(owners) for name, owners in found.items()}

    def _may_use(self, bucket: Bucket, hosts: Collection[str]) -> bool:
        demand = self._demands.of(bucket.requirement)
        return not isinstance(demand, RequirementError) and self._reservations.may_use(bucket, demand, hosts)

    def unserved(self, served: Container[object]) -> frozenset[Bucket]:
        """Who may borrow and was not served in this part, as it was not come to, or not to its end. `served`: whose
        reasons were found in it.
        """
        return frozenset(each for each in self._guarantees.deferred if self._order is None or each not in served)

    def close(self) -> None:
        """End it."""
        if self._order is not None:
            self._order.close()
            self._order = None
