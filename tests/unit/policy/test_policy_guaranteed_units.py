"""Guaranteed pools of GPUs and packages: an oracle of its own judges each start on random clusters with shared GPUs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from guaranteed_pools import OWNERS, QUEUES, job
from hypothesis import given, settings
from hypothesis import strategies as st
from placing_cluster import SHARED, hosts

from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.queues.guarantee import GuaranteePool, Portion
from gsched.model.queues.limit import Consumers
from gsched.model.scheduling.snapshot import Bucket
from gsched.policy.guarantees.pool_views import pool_views
from gsched.policy.limits.job_limits import LimitUse
from tests.support.property_examples import examples

UNITS = ({"ngpus": 1.0}, {"slots": 2.0, "ngpus": 1.0}, {"slots": 1.0, "ngpus": 2.0}, {"slots": 2.0})
SLOTS_THERE, GPUS_THERE = 6, 3
MEMBERS = st.sampled_from(((), ("h0", "h1")))


@dataclass(frozen=True)
class UnitCase:
    """One random cluster of hosts that are alike, a pool of GPUs or packages, and jobs that come in steps."""

    hosts: int
    pool: GuaranteePool
    steps: tuple[tuple[tuple[Bucket, int], ...], ...]


@st.composite
def unit_cases(draw: st.DrawFn) -> UnitCase:
    shares = {owner: Portion(float(draw(st.integers(0, 3)))) for owner in OWNERS}
    unit = draw(st.sampled_from(UNITS))
    made = GuaranteePool(
        name="p", kind="package", unit=unit, shares=shares, hosts=Consumers(draw(st.just(()) | MEMBERS))
    )
    buckets = st.builds(
        job,
        st.sampled_from(("", "", *OWNERS)),
        slots=st.integers(1, 2),
        text=st.sampled_from(("", "rusage[ngpus_shared=1]", "rusage[ngpus_shared=1]", "rusage[ngpus_shared=2]")),
    )
    step = st.lists(st.tuples(buckets, st.integers(1, 3)), max_size=4).map(tuple)
    return UnitCase(draw(st.integers(1, 3)), made, tuple(draw(st.lists(step, min_size=1, max_size=4))))


class UnitOracle:
    """The rule in sums over what jobs hold, made anew each time: (owner, part) of each job."""

    def __init__(self, case: UnitCase) -> None:
        names = [f"h{number}" for number in range(case.hosts)]
        chosen = case.pool.hosts.names
        self.members = [name for name in names if not chosen or name in chosen]
        self.unit, self.shares = case.pool.unit, case.pool.shares
        self.held: list[tuple[str, HostAllocation]] = []

    def free(self, held: list[tuple[str, HostAllocation]]) -> float:
        whole = 0.0
        for name in self.members:
            there = [part for _, part in held if part.host == name]
            devices = {gpu.uuid for part in there for gpu in part.gpus}
            left = {"slots": SLOTS_THERE - sum(part.slots for part in there), "ngpus": GPUS_THERE - len(devices)}
            whole += math.floor(min(max(0, left[each]) / amount for each, amount in self.unit.items()))
        return whole

    def used(self, owner: str, held: list[tuple[str, HostAllocation]]) -> float:
        units = 0.0
        for name in self.members:
            mine = [part for whose, part in held if whose == owner and part.host == name]
            if "ngpus" not in self.unit:
                units += sum(math.ceil(part.slots / self.unit["slots"]) for part in mine)
                continue
            has = {
                "slots": sum(part.slots for part in mine),
                "ngpus": len({gpu.uuid for part in mine for gpu in part.gpus}),
            }
            units += math.ceil(max(has[each] / amount for each, amount in self.unit.items()))
        return units

    def may_start(self, owner: str, parts: tuple[HostAllocation, ...]) -> bool:
        after = [*self.held, *((owner, part) for part in parts)]
        if owner and self.used(owner, after) <= self.shares[owner].amount:
            return True
        if self.free(after) >= self.free(self.held):
            return True
        owed = sum(max(0.0, share.amount - self.used(name, after)) for name, share in self.shares.items())
        return self.free(after) >= owed


@settings(max_examples=examples(60), deadline=None)
@given(unit_cases())
def test_no_start_takes_gpus_or_packages_that_are_owed_to_another(case: UnitCase) -> None:
    names = [f"h{number}" for number in range(case.hosts)]
    some, oracle = hosts(*names, slots=SLOTS_THERE, queues=QUEUES, guarantees=(case.pool,)), UnitOracle(case)
    for name in names:
        some.devices(name, GPUS_THERE, SHARED, shared_jobs=2)
    for step in case.steps:
        for bucket, count in step:
            some.add(bucket, count)
        owners = {each: bucket.service_class for bucket, ids in some.pending.items() for each in ids}
        plan = some.plan()
        for placed in plan.placements:
            owner, parts = owners[placed.job_id], placed.allocation.hosts
            assert oracle.may_start(owner, parts), placed
            oracle.held += [(owner, part) for part in parts]
        some.carry_out(plan)
        (view,) = pool_views(LimitUse(some.snapshot()).guarantees)
        assert view.free == oracle.free(oracle.held)
        assert {each.name: each.used for each in view.owners} == {
            name: oracle.used(name, oracle.held) for name in OWNERS
        }
