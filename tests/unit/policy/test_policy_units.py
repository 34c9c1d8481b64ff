"""cu[excl]: a job has all hosts of its compute units for itself, wherever its tasks are; now, planned and by force."""

from __future__ import annotations

import heapq
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placing_cluster import NOW, Cluster, host, kind, places, spreads, told

from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.ledgers.ledger import double_owners, miscounts
from gsched.model.queues.queue import Preemption, Queue
from gsched.model.scheduling.snapshot import AdvanceReservation, Bucket, Plan, RequirementClass, Running, Snapshot
from gsched.policy.cycle import schedule
from gsched.policy.match.host_fit import misfit
from gsched.policy.place.forced_placement import placed_by_force
from tests.support.property_examples import examples

UNITS = {
    "rack": {"r1": ("a", "b"), "r2": ("c", "d")},
    "row": {"w1": ("a", "b", "c", "d"), "w2": ("e",)},
}


def cluster_of(*names: str, slots: int = 2, queues: tuple[Queue, ...] = (), **options: object) -> Cluster:
    each = [host(name) for name in names or "abcde"]
    return Cluster(*each, slots=slots, queues=queues, compute_units=UNITS, **options)


def kept(plan: Plan) -> dict[int, list[str]]:
    """Job -> hosts that it keeps from others without running there."""
    return {each.job_id: [part.host for part in each.allocation.kept] for each in plan.placements}


@pytest.mark.parametrize(
    ("text", "slots", "used", "beside"),
    [
        ("cu[excl]", 1, {"a": 1}, ["b"]),
        ("cu[excl]", 2, {"a": 2}, ["b"]),
        ("cu[excl]", 3, {"a": 2, "b": 1}, []),
        ("cu[excl:type=row]", 1, {"a": 1}, ["b", "c", "d"]),
        ("cu[excl:type=row:maxcus=1]", 3, {"a": 2, "b": 1}, ["c", "d"]),
        ("cu[excl:maxcus=1]", 5, None, None),
        ("cu[excl:maxcus=2]", 5, {"a": 2, "b": 2, "c": 1}, ["d"]),
        ("cu[excl:balance:maxcus=2]", 6, {"a": 2, "b": 1, "c": 2, "d": 1}, []),
        ("cu[excl:pref=maxavail] select[hname!=b]", 3, {"c": 2, "d": 1}, []),
        ("cu[excl] span[hosts=1]", 2, {"a": 2}, ["b"]),
        ("cu[excl] span[ptile=1]", 3, {"a": 1, "b": 1, "c": 1}, ["d"]),
        ("cu[excl] select[hname==d]", 1, {"d": 1}, ["c"]),
    ],
)
def test_a_job_has_its_units_for_itself(
    text: str, slots: int, used: dict[str, int] | None, beside: list[str] | None
) -> None:
    cluster = cluster_of()
    cluster.add(kind(text, slots=slots))
    plan = cluster.plan()
    assert spreads(plan).get(1) == used, told(plan)
    assert kept(plan).get(1) == beside
    for placement in plan.placements:
        assert all(part.exclusive for part in placement.allocation.parts)
        assert not any(part.slots for part in placement.allocation.kept)
        assert placement.allocation.slots == slots


@pytest.mark.parametrize(
    ("text", "slots", "said"),
    [
        ("cu[type=rack:maxcus=1]", 6, "6 slots wanted, 4 on 2 hosts could be had in 1 compute unit"),
        ("cu[type=pair:maxcus=2]", 7, "7 slots wanted, 6 on 3 hosts could be had in 2 compute units"),
        ("cu[type=rack:usablecuslots=3:maxcus=1] select[hname!=d]", 5, "4 on 2 hosts could be had in 1 compute unit"),
        ("cu[type=rack]", 20, "20 slots wanted, 8 on 4 hosts could be had)"),
    ],
)
def test_a_job_that_needs_more_units_than_it_may_have_is_told_what_they_have(text: str, slots: int, said: str) -> None:
    """Of all hosts it would read as if there were enough."""
    units = {**UNITS, "pair": {"p1": ("a", "b"), "p2": ("c",), "p3": ("d",)}}
    cluster = Cluster(*map(host, "abcd"), slots=2, compute_units=units)
    cluster.add(kind(text, slots=slots))
    assert said in told(cluster.plan())[0][0]


def test_nobody_comes_beside_it_and_it_comes_beside_nobody() -> None:
    cluster = cluster_of("a", "b", "c", "d")
    cluster.hold("b", slots=1)
    cluster.add(kind("cu[excl]", slots=2))
    cluster.add(kind("", slots=2), 3)
    plan = cluster.plan()
    assert spreads(plan) == {1: {"c": 2}, 2: {"a": 2}}
    assert kept(plan)[1] == ["d"]
    cluster.carry_out(plan)
    assert "Running an exclusive job: 2 hosts (job 1 on c)" in told(cluster.plan())[-1]


def test_a_unit_in_which_somebody_is_is_told_with_his_job() -> None:
    cluster = cluster_of("a", "b").hold("b", slots=1)
    cluster.add(kind("cu[excl]", slots=1))
    (reasons,) = told(cluster.plan())
    assert reasons[0] == (
        "Not enough hosts to meet the job's spanning requirement (1 slot wanted, 0 on 0 hosts could be had; Job's "
        "requirement for exclusive execution not satisfied (compute unit r1: 1 job runs on b))"
    )


def test_hosts_that_take_no_jobs_are_kept_too() -> None:
    """They may be opened while it runs."""
    cluster = cluster_of("a", "c")
    cluster.hosts["b"] = host("b", closed="Closed by LSF administrator")
    cluster.ledger.host("b").max_slots = 2
    cluster.queues = {"q": Queue(name="q", hosts=("a", "c"))}
    cluster.add(kind("cu[excl]"))
    assert kept(cluster.plan()) == {1: ["b"]}


def test_a_place_is_planned_for_when_the_whole_unit_is_free() -> None:
    """Also when what is in the way is on a host that the job's queue may not use."""
    cluster = cluster_of("a", "b", queues=(Queue(name="q", hosts=("a",)), Queue(name="all", backfill=True)))
    run(cluster, kind("", queue="all", run_s=50.0), 90, "b", 50.0)
    (first,) = cluster.add(kind("cu[excl]", run_s=30.0))
    plan = cluster.plan()
    planned = plan.planned[first]
    assert (planned.at, planned.hosts) == (NOW + 50.0, ("a",))
    cluster.options["planned"] = plan.planned
    # A job on the host that is kept would be in the way as much as one on the host that is used.
    (late,) = cluster.add(kind("select[hname==b]", queue="all", run_s=60.0))
    (soon,) = cluster.add(kind("select[hname==b]", queue="all", run_s=40.0))
    plan = cluster.plan()
    assert places(plan) == {soon: "b"}
    reserved = "Resources are reserved for job <1>: 1 host (all on b, planned start "
    assert any(each.startswith(reserved) for reasons in told(plan) for each in reasons), told(plan)
    assert late not in places(plan)


def test_what_an_advance_reservation_keeps_is_not_taken_alone() -> None:
    window = AdvanceReservation("bob#0", frozenset({"bob"}), NOW + 10.0, NOW + 99.0, {"b": 1}, {})
    cluster = cluster_of("a", "b", queues=(Queue(name="q", backfill=True),), reservations=(window,))
    cluster.add(kind("cu[excl]", run_s=30.0))
    cluster.add(kind("", run_s=30.0, exclusive=True), 2)
    plan = cluster.plan()
    assert places(plan) == {2: "a"}
    assert "bob#0 keeps 1 slot and 0 GPUs on b, which is wanted alone" in told(plan)[0][0]


def test_nothing_is_planned_into_what_is_kept_later_of_a_host_that_it_only_keeps() -> None:
    window = AdvanceReservation("bob#0", frozenset({"bob"}), NOW + 60.0, NOW + 99.0, {"b": 1}, {})
    cluster = cluster_of("a", "b", queues=(Queue(name="q", backfill=True),), reservations=(window,))
    run(cluster, kind("", run_s=50.0), 90, "a", 50.0)
    (job,) = cluster.add(kind("cu[excl] select[hname==a]", run_s=30.0))
    assert cluster.plan().planned[job].at in (None, NOW + 99.0)  # not after 50 s, when the host that it uses is free


def test_by_force_the_unit_is_its_own_as_well() -> None:
    cluster = cluster_of()
    found = placed_by_force(cluster.snapshot(), RequirementClass("cu[excl]", 1), ["d"])
    assert found is not None
    assert [part.host for part in found.hosts] == ["d"]
    assert [part.host for part in found.kept] == ["c"]


def test_whoever_is_anywhere_in_the_unit_may_be_displaced() -> None:
    queues = (
        Queue(name="high", priority=9, preemption=Preemption(preemptive=())),
        Queue(name="q", priority=1),
    )
    cluster = cluster_of("a", "b", queues=queues, preempt_requeue=True)
    run(cluster, kind("", run_s=500.0), 90, "b", 500.0, rerunnable=True)
    cluster.add(kind("cu[excl]", queue="high", slots=1))
    plan = cluster.plan()
    assert [each.job_id for each in plan.preempted] == [90]


def run(cluster: Cluster, bucket: Bucket, job_id: int, name: str, lasts: float, **more: bool) -> None:
    allocation = Allocation(hosts=(HostAllocation(host=name, slots=1),))
    cluster.ledger.take((job_id, 1), allocation)
    cluster.running[job_id] = Running(job_id, 1, bucket, allocation, "RUN", NOW, NOW + lasts, **more)


# -- on random traces -------------------------------------------------------------------------------------------------

TEXTS = (
    "",
    "",
    "",
    "cu[excl]",
    "cu[excl:type=row]",
    "cu[excl:maxcus=1] span[hosts=1]",
    "cu[balance:excl]",
    "span[ptile=1]",
)


def invariants(cluster: Cluster) -> None:
    """Nobody is in a unit that somebody has for himself, and the ledger is in order."""
    host_ledger = cluster.ledger.hosts.values()
    assert double_owners(host_ledger) == []
    assert [line for each in host_ledger for line in miscounts(each)] == []
    for running in cluster.running.values():
        text = running.bucket.requirement.requirement
        if "excl" in text:
            units = UNITS["row" if "row" in text else "rack"].values()
            used = {part.host for part in running.allocation.hosts}
            alone = {name for unit in units if used.intersection(unit) for name in unit}
            assert alone == {part.host for part in running.allocation.parts}, (text, running.allocation)
            assert all(list(cluster.ledger.host(name).held) == [running.key] for name in alone)


def play(seed: int) -> None:
    chance = random.Random(seed)
    queues = (Queue(name="q", backfill=chance.random() < 0.7), Queue(name="some", hosts=("a", "c"), backfill=True))
    cluster = cluster_of(*"abcde", slots=chance.choice((1, 2, 4)), queues=queues)
    most = min(host_ledger.max_slots or 0 for host_ledger in cluster.ledger.hosts.values())
    events = [(NOW + chance.choice((0, 0, 5, 20, 60)), 1, number) for number in range(chance.randint(4, 14))]
    heapq.heapify(events)
    buckets: dict[int, Bucket] = {}
    promised: dict[int, float] = {}
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, arrives, job_id = heapq.heappop(events)
            if arrives:
                queue, text = chance.choice(("q", "q", "some")), chance.choice(TEXTS)
                bucket = kind(text, queue=queue, slots=chance.randint(1, 2 * most), run_s=float(chance.randint(1, 60)))
                (added,) = cluster.add(bucket)
                buckets[added] = bucket
            else:
                cluster.ledger.give((job_id, 1), cluster.running.pop(job_id).allocation)
        snapshot: Snapshot = cluster.snapshot()
        plan = schedule(snapshot, now, 10_000)
        cluster.options["planned"] = plan.planned
        for placement in plan.placements:
            bucket, job_id = buckets[placement.job_id], placement.job_id
            limit = bucket.requirement.run_s or 0.0
            assert now <= promised.get(job_id, now), f"job {job_id} was planned for {promised[job_id]}, starts at {now}"
            assert misfit(cluster.ledger, (job_id, 1), placement.allocation) == ""
            cluster.ledger.take((job_id, 1), placement.allocation)
            cluster.pending[bucket].remove(job_id)
            cluster.running[job_id] = Running(job_id, 1, bucket, placement.allocation, "RUN", now, now + limit)
            lasts = limit if chance.random() < 0.5 else chance.uniform(0.5, limit)
            heapq.heappush(events, (now + lasts, 0, job_id))
        cluster.pending = {bucket: ids for bucket, ids in cluster.pending.items() if ids}
        head = min((job_id for ids in cluster.pending.values() for job_id in ids), default=0)
        planned = plan.planned.get(head)
        if planned is not None and planned.at is not None:
            assert planned.at <= promised.setdefault(head, planned.at), f"job {head} slips"
        invariants(cluster)
    cluster.options["planned"] = {}
    assert not cluster.running
    assert not schedule(cluster.snapshot(), now + 1.0, 10_000).placements, "an idle cluster had not started them"


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 10**9))
def test_units_are_nobody_elses_and_plans_are_met_on_random_traces(seed: int) -> None:
    play(seed)
