"""Guaranteed pools: what is owed to service classes is never given away, and what is lent comes back in time.

An oracle of its own, in plain sums over slots and devices, judges each start of random clusters and histories.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from guaranteed_pools import OWNERS, QUEUES, TEN_MIN, job, pool
from hypothesis import given, settings
from hypothesis import strategies as st
from placing_cluster import NOW, SHARED, Cluster, host, hosts, places, told

from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.queues.guarantee import GuaranteePool, LoanPolicy, Portion
from gsched.model.queues.limit import Consumers
from gsched.model.queues.queue import Preemption, Queue
from gsched.model.scheduling.snapshot import Bucket, Plan, Running
from gsched.policy.cycle import schedule
from gsched.policy.guarantees.pool_views import pool_views
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.limits.limit_claims import LimitClaim
from tests.support.property_examples import examples


def lending(**changes: Any) -> LoanPolicy:
    return LoanPolicy(**{"queues": ("short",), "duration_s": TEN_MIN, **changes})


def cluster(*pools: GuaranteePool, slots: int = 4, names: tuple[str, ...] = ("a", "b")) -> Cluster:
    return hosts(*names, slots=slots, queues=QUEUES, guarantees=pools)


# -- one rule each ----------------------------------------------------------------------------------------------------


def test_what_is_guaranteed_stays_free_and_the_reason_says_so() -> None:
    some = cluster(pool())
    some.add(job(), 8)
    plan = some.plan()
    assert len(plan.placements) == 5
    (reasons,) = told(plan)
    assert reasons[0].startswith("Held back for guarantee p of service class gold: 1 host (1 wanted, 3 slots free, ")
    assert "3 guaranteed and not in use; nothing is lent" in reasons[0]


def test_owners_get_it_and_beyond_it_what_is_left() -> None:
    some = cluster(pool(shares={"gold": 3, "silver": 2}))
    some.add(job("gold"), 9)
    assert len(some.plan().placements) == 6, "8 slots, of which 2 are silver's"


def test_a_queue_may_ignore_guarantees() -> None:
    some = cluster(pool())
    some.add(job(queue="free"), 9)
    assert len(some.plan().placements) == 8


def test_short_jobs_borrow_and_others_do_not() -> None:
    some = cluster(pool(loans=lending()))
    some.add(job(), 5)
    some.add(job(queue="short", run_s=TEN_MIN + 1), 1)
    some.add(job(queue="short"), 1)
    some.add(job(run_s=60.0), 1)
    some.add(job(queue="short", run_s=TEN_MIN), 4)
    plan = some.plan()
    assert sorted(places(plan)) == [1, 2, 3, 4, 5, 9, 10, 11]
    texts = " ".join(reason for reasons in told(plan) for reason in reasons)
    assert "lent only to jobs with a run limit of at most 10 minutes" in texts
    assert "lent only to jobs of queue short" in texts


def test_a_loan_waits_until_owners_have_been_served() -> None:
    first = (Queue(name="q", priority=1), Queue(name="short", priority=9))
    some = hosts("a", slots=2, queues=first, guarantees=(pool(shares={"gold": 2}, loans=lending()),))
    some.add(job(queue="short", run_s=60.0), 2)
    some.add(job("gold"), 1)
    assert sorted(places(some.plan())) == [1, 3]
    at_once = pool(shares={"gold": 2}, loans=lending(at_once=("short",)))
    some.options["guarantees"] = (at_once,)
    assert sorted(places(some.plan())) == [1, 2]


@pytest.mark.parametrize(
    ("loans", "lent"),
    [
        ({}, 4),
        ({"idle_buffer": Portion(25.0, is_percent=True)}, 3),
        ({"idle_buffer": Portion(3.0)}, 1),
        ({"retain": Portion(50.0, is_percent=True)}, 2),
        ({"retain": Portion(1.0)}, 2),
    ],
)
def test_some_may_stay_idle_for_owners(loans: dict[str, Any], lent: int) -> None:
    some = hosts(
        "a", slots=4, queues=QUEUES, guarantees=(pool(shares={"gold": 2, "silver": 2}, loans=lending(**loans)),)
    )
    some.add(job(queue="short", run_s=60.0), 9)
    assert len(some.plan().placements) == lent


def test_nothing_is_lent_while_an_owner_waits() -> None:
    closing = pool(shares={"gold": 4}, loans=lending(close_on_demand=True))
    some = hosts("a", slots=4, queues=QUEUES, guarantees=(closing,))
    some.add(job(queue="short", run_s=60.0), 4)
    assert len(some.plan().placements) == 4
    some = hosts("a", slots=4, queues=QUEUES, guarantees=(closing,))
    some.add(job("gold", slots=3), 1)
    some.carry_out(some.plan())
    some.add(job("gold", slots=2), 1)  # waits for the one that runs
    some.add(job(queue="short", run_s=60.0), 1)
    assert places(some.plan()) == {}


@pytest.mark.parametrize(
    "asked", [{"slots": 8, "text": "span[hosts=1]"}, {"asked_hosts": ("b",)}, {"text": "rusage[ngpus_excl_p=1]"}]
)
def test_an_owners_job_that_could_never_use_the_pool_closes_nothing(asked: dict[str, Any]) -> None:
    closing = pool(shares={"gold": 4}, loans=lending(close_on_demand=True), hosts=Consumers(("a",)))
    some = cluster(closing)
    some.add(job(slots=4, text="span[hosts=1]"), 1)  # takes b
    some.carry_out(some.plan())
    some.add(job("gold", **asked), 1)
    some.add(job(queue="short", run_s=60.0), 4)
    assert len(some.plan().placements) == 4


def test_a_part_of_a_pool_follows_its_hosts() -> None:
    half = pool(shares={})
    half = GuaranteePool(name="p", kind="slots", unit=half.unit, shares={"gold": Portion(50.0, is_percent=True)})
    some = Cluster(host("a"), host("b", closed="closed by administrator"), slots=4, queues=QUEUES, guarantees=(half,))
    some.add(job(), 9)
    assert len(some.plan().placements) == 2


def test_hosts_outside_a_pool_are_everybodys() -> None:
    some = cluster(pool(hosts=Consumers(("a",)), shares={"gold": 4}))
    some.add(job(slots=4), 3)
    assert set(places(some.plan()).values()) == {"b"}


def test_a_host_that_is_full_for_owners_shuts_no_other() -> None:
    some = cluster(pool(shares={"gold": 12}, slots_per_host=2), names=("a", "b", "c"))
    some.add(job("gold"), 2)
    plan = some.plan()
    assert set(places(plan).values()) == {"a"}
    some.carry_out(plan)
    some.add(job("gold", slots=2, text="span[ptile=1]"), 1)
    (spread,) = some.plan().placements
    assert [part.host for part in spread.allocation.hosts] == ["b", "c"]


def test_a_parallel_job_goes_round_a_pool() -> None:
    some = cluster(pool(hosts=Consumers(("a", "b")), shares={"gold": 5}), names=("a", "b", "c"))
    some.add(job(slots=4), 1)
    (placed,) = some.plan().placements
    assert [part.host for part in placed.allocation.hosts] == ["c"]
    some.add(job(slots=7), 1)
    assert len(some.plan().placements) == 1
    assert len(told(some.plan())) == 1


def test_whole_hosts_belong_to_whom_they_are_guaranteed() -> None:
    some = cluster(pool({}, shares={"gold": 1}), names=("a", "b"))
    some.add(job(), 5)
    plan = some.plan()
    assert len(set(places(plan).values())) == 1 and len(plan.placements) == 4
    some.carry_out(plan)
    some.add(job("gold"), 1)
    plan = some.plan()
    assert len(plan.placements) == 1
    some.carry_out(plan)
    some.add(job("", user="bob"), 1)
    plan = some.plan()
    assert places(plan) == {}
    assert any("in use as one that pool p guarantees to service class gold" in each for each in told(plan)[-1])


def test_gpus_are_guaranteed_and_jobs_without_one_are_not_kept_out() -> None:
    some = cluster(pool({"ngpus": 1.0}, shares={"gold": 3}), slots=8).devices("a").devices("b")
    gpu = "select[ngpus_excl_p>0] rusage[ngpus_excl_p=1]"
    some.add(job(text=gpu), 8)
    some.add(job(user="cpu"), 3)
    plan = some.plan()
    assert sum(bool(each.allocation.hosts[0].gpus) for each in plan.placements) == 5
    assert len(plan.placements) == 8


def _on_gpus(some: Cluster, service_class: str, *devices: int) -> None:
    """Running jobs of the class, one for each number of a shared GPU."""
    for number in devices:
        gpu = HeldGpu(uuid=f"a{number}", index=number, claim="ngpus_shared")
        allocation = Allocation(hosts=(HostAllocation(host="a", slots=1, gpus=(gpu,)),))
        some.last += 1
        some.ledger.take((some.last, 1), allocation)
        some.running[some.last] = Running(some.last, 1, job(service_class), allocation, "RUN", NOW, math.inf)


def test_a_gpu_that_an_owners_jobs_share_counts_once() -> None:
    gpus = pool({"ngpus": 1.0}, shares={"gold": 2})
    some = hosts("a", slots=9, queues=QUEUES, guarantees=(gpus,)).devices("a", 3, SHARED, shared_jobs=4)
    _on_gpus(some, "gold", 0, 0, 0)
    (view,) = pool_views(LimitUse(some.snapshot()).guarantees)
    assert view.owners[0].used == 1 and view.free == 2
    some.add(job(text="rusage[ngpus_shared=1]"), 1)
    some.add(job("gold", text="rusage[ngpus_shared=1]"), 1)
    plan = some.plan()
    assert len(plan.placements) == 2, "one GPU is owed, one is free for all"
    some.carry_out(plan)
    (view,) = pool_views(LimitUse(some.snapshot()).guarantees)
    assert view.owners[0].used == 2 and view.free == 0


def test_strangers_share_one_gpu_and_leave_those_that_are_owed() -> None:
    gpus = pool({"ngpus": 1.0}, shares={"gold": 2})
    some = hosts("a", slots=9, queues=QUEUES, guarantees=(gpus,)).devices("a", 3, SHARED, shared_jobs=4)
    _on_gpus(some, "gold", 0, 0, 0)
    some.add(job(text="rusage[ngpus_shared=2]"), 1)
    (placed,) = some.plan().placements
    taken = [gpu.uuid for gpu in placed.allocation.hosts[0].gpus]
    assert len(taken) == 2 and "a0" in taken, "of two idle GPUs one is owed"
    some.add(job(text="rusage[ngpus_shared=3]"), 1)
    assert len(some.plan().placements) == 1, "all three would leave none"


def test_a_job_on_gpus_in_use_takes_none_that_are_owed() -> None:
    gpus = pool({"ngpus": 1.0}, shares={"gold": 1})
    some = hosts("a", slots=9, queues=QUEUES, guarantees=(gpus,)).devices("a", 1, SHARED, shared_jobs=4)
    _on_gpus(some, "", 0)
    some.add(job(text="rusage[ngpus_shared=1]"), 2)
    assert len(some.plan().placements) == 2


@pytest.mark.parametrize("unit", [{"ngpus": 1.0}, {"slots": 1.0, "ngpus": 1.0}])
def test_a_shared_gpu_in_use_is_tried_where_idle_ones_are_owed(unit: dict[str, float]) -> None:
    gpus = pool(unit, shares={"gold": 3})
    some = hosts("a", "b", slots=9, queues=QUEUES, guarantees=(gpus,))
    for name in "ab":
        some.devices(name, 2, SHARED, shared_jobs=4)
    _on_gpus(some, "", 1)  # of host a
    some.add(job(text="rusage[ngpus_shared=1]"), 2)
    plan = some.plan()
    assert [each.allocation.hosts[0].gpus[0].uuid for each in plan.placements] == ["a1", "a1"]


def test_packages_on_a_gpu_that_jobs_share_count_it_once() -> None:
    package = pool({"slots": 4.0, "ngpus": 1.0}, shares={"gold": 1})
    some = hosts("a", slots=16, queues=QUEUES, guarantees=(package,)).devices("a", 3, SHARED, shared_jobs=4)
    _on_gpus(some, "gold", 0, 0)
    (view,) = pool_views(LimitUse(some.snapshot()).guarantees)
    assert view.owners[0].used == 1, "two slots and one GPU are one package"
    _on_gpus(some, "gold", 1, 1, 0)
    (view,) = pool_views(LimitUse(some.snapshot()).guarantees)
    assert view.owners[0].used == 2, "five slots and two GPUs"


def test_packages_keep_slots_beside_gpus() -> None:
    package = pool({"slots": 2.0, "ngpus": 1.0}, shares={"gold": 2})
    some = hosts("a", slots=8, queues=QUEUES, guarantees=(package,)).devices("a")
    some.add(job(), 8)
    assert len(some.plan().placements) == 4, "two packages of two slots are left"


def test_more_than_there_is_is_kept_for_the_owners() -> None:
    some = cluster(pool(shares={"gold": 7, "silver": 7}))
    some.add(job(), 1)
    some.add(job("gold"), 9)
    plan = some.plan()
    assert sorted(places(plan)) == [2, 3, 4, 5, 6, 7, 8]
    (view,) = pool_views(LimitUse(some.snapshot()).guarantees)
    assert view.status == "overcommitted" and view.total == 8


def test_a_plan_for_others_does_not_keep_an_owner_out() -> None:
    """The parallel job is planned on what gets free; the owner takes what is guaranteed all the same."""
    some = cluster(pool(shares={"gold": 2}), slots=2)
    some.add(job(run_s=600.0), 2)
    some.carry_out(some.plan())
    some.add(job(slots=2, text="span[hosts=1]"), 1)
    some.add(job("gold"), 2)
    assert len(some.plan().placements) == 2


def test_jobs_of_a_class_are_preempted_only_by_queues_that_ignore_guarantees() -> None:
    low = Queue(name="low", priority=1)
    for ignores, count in ((False, 0), (True, 1)):
        high = Queue(
            name="high", priority=9, preemption=Preemption(preemptive=(("low", 1),)), ignores_guarantees=ignores
        )
        some = hosts("a", slots=1, queues=(low, high), guarantees=(pool(shares={"gold": 1}),))
        some.add(job("gold", queue="low"), 1)
        some.carry_out(some.plan())
        some.add(job(queue="high"), 1)
        assert len(some.plan().preempted) == count


def _asked_of_pools(hosts_count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a cycle asks what pools leave to a job that it plans on several of so many full hosts."""
    names = tuple(f"h{number:03}" for number in range(hosts_count))
    some = cluster(pool(shares={"gold": 3}), pool(name="half", hosts=Consumers(names[::2])), names=names)
    for more in range(3):
        some.add(job(slots=4, run_s=3600.0 + 60.0 * more), hosts_count)
    some.carry_out(some.plan())
    some.pending.clear()
    some.add(job(slots=10, run_s=60.0), 1)
    asked: list[str] = []

    def claims(use: LimitUse, bucket: Bucket, parts: Sequence[HostAllocation], minute: int) -> Iterator[LimitClaim]:
        asked.append(parts[0].host)
        yield from real(use, bucket, parts, minute)

    real = LimitUse.claims
    with monkeypatch.context() as patch:
        patch.setattr(LimitUse, "claims", claims)
        assert len(some.plan().planned) == 1
    return len(asked)


def test_alike_hosts_are_asked_once_when_a_start_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _asked_of_pools(90, monkeypatch) == _asked_of_pools(30, monkeypatch)


# -- the oracle -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One random cluster: slots of each host, a pool, and jobs that come in steps."""

    slots: tuple[int, ...]
    pool: GuaranteePool
    steps: tuple[tuple[tuple[Bucket, int], ...], ...]


def _buckets() -> st.SearchStrategy[Bucket]:
    return st.builds(
        job,
        st.sampled_from(("", "", *OWNERS)),
        st.sampled_from(("q", "short")),
        st.integers(1, 3),
        st.sampled_from(("ann", "bob")),
        st.sampled_from(("", "span[hosts=1]")),
        run_s=st.sampled_from((None, 300.0, TEN_MIN, 3000.0)),
    )


def _loans() -> st.SearchStrategy[LoanPolicy | None]:
    portion = st.none() | st.builds(Portion, st.integers(0, 3).map(float))
    return st.none() | st.builds(
        LoanPolicy,
        queues=st.just(("short",)),
        at_once=st.sampled_from(((), ("short",))),
        duration_s=st.just(TEN_MIN),
        close_on_demand=st.booleans(),
        retain=portion,
        idle_buffer=portion,
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    slots = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    members = draw(st.sampled_from(((), ("h0",), ("h0", "h1"))))
    shares = {owner: Portion(float(draw(st.integers(0, 4)))) for owner in OWNERS}
    made = GuaranteePool(
        name="p", kind="slots", unit={"slots": 1.0}, shares=shares, hosts=Consumers(members), loans=draw(_loans())
    )
    step = st.lists(st.tuples(_buckets(), st.integers(1, 3)), max_size=4).map(tuple)
    return Case(slots, made, tuple(draw(st.lists(step, min_size=1, max_size=5))))


class Oracle:
    """Knows the rule in plain sums over slots, and nothing of the code that it judges."""

    def __init__(self, case: Case) -> None:
        self.case = case
        names = [f"h{number}" for number in range(len(case.slots))]
        chosen = case.pool.hosts.names
        self.slots = {name: size for name, size in zip(names, case.slots, strict=True) if not chosen or name in chosen}
        self.used: dict[str, float] = {}

    def taken(self, parts: tuple[HostAllocation, ...]) -> int:
        return sum(part.slots for part in parts if part.host in self.slots)

    @property
    def free(self) -> float:
        return sum(self.slots.values()) - sum(self.used.values())

    def owed(self, owner: str = "", more: float = 0.0) -> float:
        """What is guaranteed and not in use, when `owner` takes so much more."""
        used = {**self.used, owner: self.used.get(owner, 0.0) + more}
        return sum(max(0.0, each.amount - used.get(name, 0.0)) for name, each in self.case.pool.shares.items())

    def may_start(self, bucket: Bucket, parts: tuple[HostAllocation, ...]) -> bool:
        take, owner = self.taken(parts), bucket.service_class
        if take == 0:
            return True
        if owner and self.used.get(owner, 0.0) + take <= self.case.pool.shares[owner].amount:
            return True
        if self.free - take >= self.owed(owner, take):
            return True
        return self.may_borrow(bucket, take)

    def may_borrow(self, bucket: Bucket, take: float) -> bool:
        loans, run_s = self.case.pool.loans, bucket.requirement.run_s
        if loans is None or bucket.queue != "short" or run_s is None or run_s > TEN_MIN:
            return False
        kept = 0.0
        owed = self.owed(bucket.service_class, take)
        if loans.idle_buffer is not None:
            kept = min(owed, loans.idle_buffer.amount)
        return self.free - take >= kept

    def start(self, running: Running, sign: int = 1) -> None:
        owner = running.bucket.service_class
        self.used[owner] = self.used.get(owner, 0.0) + sign * self.taken(running.allocation.hosts)

    def promise_holds(self, running: Mapping[int, Running], now: float) -> bool:
        """At each moment: what is free and what comes back within DURATION is what is owed, or nothing but owners
        themselves is in the way.
        """
        back = sum(
            self.taken(each.allocation.hosts)
            for each in running.values()
            if each.ends_at <= now + TEN_MIN and not self._is_within(each)
        )
        whole = sum(each.amount for each in self.case.pool.shares.values())
        owed = min(self.owed(), max(0.0, sum(self.slots.values()) - whole + self.owed()))
        return self.free + back >= owed - 1e-9

    def _is_within(self, running: Running) -> bool:
        owner = running.bucket.service_class
        return bool(owner) and self.used.get(owner, 0.0) <= self.case.pool.shares[owner].amount


class History:
    """The case carried out by the policy: in each step jobs come, a cycle starts some, and time goes on."""

    def __init__(self, case: Case) -> None:
        members = [host(f"h{number}") for number in range(len(case.slots))]
        self.cluster = Cluster(*members, queues=QUEUES, guarantees=(case.pool,))
        for number, size in enumerate(case.slots):
            self.cluster.ledger.host(f"h{number}").max_slots = size
        self.case = case
        self.now = NOW

    def plan(self, step: tuple[tuple[Bucket, int], ...]) -> tuple[dict[int, Bucket], Plan]:
        """(job -> bucket, plan) of a cycle when these jobs have come."""
        for bucket, count in step:
            self.cluster.add(bucket, count)
        buckets = {each: bucket for bucket, ids in self.cluster.pending.items() for each in ids}
        return buckets, schedule(self.cluster.snapshot(), self.now, 10_000)

    def carry_out(self, plan: Plan) -> None:
        self.cluster.carry_out(plan)
        for placed in plan.placements:
            self.cluster.running[placed.job_id] = self.started(self.cluster.running[placed.job_id])

    def started(self, running: Running) -> Running:
        run_s = running.bucket.requirement.run_s
        return running._replace(started_at=self.now, ends_at=math.inf if run_s is None else self.now + run_s)

    def pass_time(self, oracle: Oracle) -> None:
        """Ten minutes."""
        self.now += TEN_MIN
        for each in [each for each in self.cluster.running.values() if each.ends_at <= self.now]:
            self.cluster.ledger.give((each.job_id, 1), each.allocation)
            del self.cluster.running[each.job_id]
            oracle.start(each, -1)


@settings(max_examples=examples(60), deadline=None)
@given(cases())
def test_no_start_takes_what_is_owed_to_another(case: Case) -> None:
    oracle, history = Oracle(case), History(case)
    for step in (*case.steps, (), ()):
        buckets, plan = history.plan(step)
        running = dict(history.cluster.running)
        for placed in plan.placements:
            bucket = buckets[placed.job_id]
            assert oracle.may_start(bucket, placed.allocation.hosts), placed
            started = Running(placed.job_id, 1, bucket, placed.allocation, "RUN", history.now, math.inf)
            running[placed.job_id] = history.started(started)
            oracle.start(started)
            assert oracle.promise_holds(running, history.now), placed
        assert _owners_wait_only_for_room(case, oracle, buckets, plan)
        history.carry_out(plan)
        history.pass_time(oracle)
        assert oracle.promise_holds(history.cluster.running, history.now)


def _owners_wait_only_for_room(case: Case, oracle: Oracle, buckets: Mapping[int, Bucket], plan: Plan) -> bool:
    """No owner's job of one slot waits that is within its guarantee while a slot of the pool is free."""
    placed = {each.job_id for each in plan.placements}
    for job_id, bucket in buckets.items():
        owner = bucket.service_class
        if job_id in placed or not owner or bucket.requirement.slots > 1 or oracle.free < 1:
            continue
        if oracle.used.get(owner, 0.0) + 1 <= case.pool.shares[owner].amount:
            return False
    return True
