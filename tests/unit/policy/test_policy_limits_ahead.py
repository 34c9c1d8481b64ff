"""Planned starts and limits as they will stand then: what ends gives them back, what starts leaves enough of them."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from msgspec import structs
from placing_cluster import host, kind
from timed_cluster import TimedCluster

from gsched.base.coded_text import sentence
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.queues.limit import Amount, Consumers, Limit
from gsched.model.queues.queue import Queue
from gsched.model.queues.window import Window
from gsched.model.scheduling.snapshot import Bucket, Plan

ALL, EACH = Consumers(), Consumers(per=True)
FEW, NIGHTS = 10, 4000


def on(name: str, slots: int, gpus: int = 0) -> Allocation:
    held = tuple(HeldGpu(uuid=f"{name}{index}", index=index, claim="ngpus_excl_p") for index in range(gpus))
    return Allocation(hosts=(HostAllocation(host=name, slots=slots, gpus=held),))


def section(**changes: Any) -> Limit:
    amounts = {
        name: (Amount(float(changes.pop(name)), changes.pop("windows", ())),)
        for name in ("slots", "jobs", "ngpus")
        if name in changes
    }
    return Limit(name="L", amounts=amounts, **changes)


def reasons_of(plan: Plan, bucket: Bucket) -> list[str]:
    found = plan.reasons.get(bucket) or plan.reasons[bucket.queue, bucket.requirement]
    return [sentence(each.text) for each in found]


def test_a_start_is_planned_where_a_limit_of_the_host_will_let_the_job_in() -> None:
    """Host a has room, but as much of the queue runs there as may; on b nothing is free for long."""
    queues = [Queue(name="q", host_limit=4), Queue(name="r")]
    cluster = TimedCluster(host("a"), host("b"), queues=queues)
    cluster.hold_until(100.0, kind(), on("a", 4))
    cluster.hold_until(500.0, kind(queue="r"), on("b", 8))
    (job,) = cluster.add(kind(slots=2, run_s=10.0))
    cluster.step(0.0)
    assert (cluster.planned[job].at, cluster.planned[job].hosts) == (100.0, ("a",))
    cluster.step(100.0)
    assert cluster.started[job] == 100.0


def test_nothing_is_planned_where_nobody_knows_when_a_limit_lets_the_job_in() -> None:
    cluster = TimedCluster(host("a"), queues=[Queue(name="q", host_limit=4)])
    cluster.hold_until(float("inf"), kind(), on("a", 4))
    (job,) = cluster.add(kind(slots=2, run_s=10.0))
    plan = cluster.step(0.0)
    assert plan.planned[job].at is None and not plan.planned[job].hosts
    assert sentence(plan.planned[job].text) == "unknown: Queue's per-host job slot limit reached"


LIMITED: dict[str, tuple[Queue, dict[str, Any]]] = {
    "of the queue": (Queue(name="q", job_limit=4), {}),
    "of the queue for each user": (Queue(name="q", user_limit=4), {}),
    "of the queue on a host": (Queue(name="q", host_limit=4), {}),
    "of the queue for each CPU": (Queue(name="q", processor_limit=0.5), {}),
    "of the user": (Queue(name="q"), {"user_limits": {"ann": 4}}),
    "of a group": (Queue(name="q"), {"group_limits": {"g": (("ann",), 4)}}),
    "of the user for each CPU": (Queue(name="q"), {"processor_limits": {"ann": 0.5}}),
    "section: users": (Queue(name="q"), {"limits": (section(users=EACH, slots=4),)}),
    "section: queue and host": (Queue(name="q"), {"limits": (section(hosts=EACH, queues=ALL, slots=4),)}),
    "section: hosts together": (Queue(name="q"), {"limits": (section(hosts=Consumers(("a", "b")), slots=4),)}),
    "section: jobs": (Queue(name="q"), {"limits": (section(users=EACH, jobs=1),)}),
}


@pytest.mark.parametrize("name", LIMITED)
def test_two_starts_are_not_planned_where_a_limit_lets_one_in(name: str) -> None:
    """Both wait for the slots that come free at 100; after the first has taken them the limit is full till it ends."""
    queue, options = LIMITED[name]
    queues = [structs.replace(queue, reserved_jobs=2), Queue(name="r")]
    cluster = TimedCluster(host("a", ncpus=8), queues=queues, **options)
    cluster.hold_until(100.0, kind(queue="r", user="eve"), on("a", 8))
    if "hosts together" in name:
        cluster.options["limits"] = (section(hosts=Consumers(("a", "b")), queues=Consumers(("q",)), slots=4),)
    if "queue and host" in name:
        cluster.options["limits"] = (section(hosts=EACH, queues=Consumers(("q",)), slots=4),)
    (first,) = cluster.add(kind(slots=4, run_s=60.0))
    (second,) = cluster.add(kind(slots=3, run_s=60.0))
    cluster.step(0.0)
    assert (cluster.planned[first].at, cluster.planned[second].at) == (100.0, 160.0)
    cluster.step(100.0)
    cluster.step(160.0)
    assert (cluster.started[first], cluster.started[second]) == (100.0, 160.0)


@pytest.mark.parametrize("name", LIMITED)
def test_who_starts_now_leaves_a_planned_job_what_it_needs_of_a_limit(name: str) -> None:
    """The job waits for the devices of another one until 100; who would still run then may not use up its limit."""
    queue, options = LIMITED[name]
    queues = [Queue(**{each: getattr(queue, each) for each in queue.__struct_fields__} | {"backfill": True})]
    cluster = TimedCluster(host("a", ncpus=8), queues=[*queues, Queue(name="r")], **options).devices("a", 4)
    if "section: hosts" in name or "queue and host" in name:
        hosts = EACH if "queue" in name else Consumers(("a", "b"))
        cluster.options["limits"] = (section(hosts=hosts, queues=Consumers(("q",)), slots=4),)
    cluster.hold_until(100.0, kind(queue="r", user="eve"), on("a", 1, gpus=1))
    (big,) = cluster.add(kind("rusage[ngpus_excl_p=4]", slots=4, run_s=60.0))
    long, short = kind(slots=1, run_s=101.0), kind(slots=1, run_s=100.0)
    (kept,) = cluster.add(long)
    (slipped_in,) = cluster.add(short)
    plan = cluster.step(0.0)
    assert cluster.planned[big].at == 100.0
    assert slipped_in in cluster.started and kept not in cluster.started
    assert reasons_of(plan, long) == [f"Resources are reserved for job <{big}>"]
    cluster.step(100.0)
    assert cluster.started[big] == 100.0


def test_a_plan_is_kept_while_others_use_all_of_its_limit() -> None:
    """What ends by then may fill the limit, and the place stays reserved though the limit lets nobody in."""
    queue = Queue(name="q", job_limit=4, backfill=True)
    cluster = TimedCluster(queues=[queue, Queue(name="r")]).devices("a", 4)
    cluster.hold_until(100.0, kind(queue="r"), on("a", 1, gpus=1))
    (big,) = cluster.add(kind("rusage[ngpus_excl_p=4]", slots=4, run_s=60.0))
    cluster.add(kind(slots=4, run_s=90.0))
    cluster.step(0.0)
    (other,) = cluster.add(kind("rusage[ngpus_excl_p=1]", queue="r", run_s=500.0))
    plan = cluster.step(1.0)
    assert plan.planned[big].at == 100.0 and other not in cluster.started
    cluster.step(90.0)
    cluster.step(100.0)
    assert cluster.started[big] == 100.0


def test_a_plan_is_kept_where_another_users_job_of_its_kind_takes_its_place_first() -> None:
    """Bob may have one job at a time, and a small one has used that up when Ann's comes, which is before his. It takes
    the place that was planned for his; nobody later may have what his needs as soon as the small one has ended.
    """
    one_each = section(users=EACH, queues=Consumers(("q",)), jobs=1)
    queues = [Queue(name="q", backfill=True), Queue(name="r", priority=1)]
    cluster = TimedCluster(host("a"), host("b"), queues=queues, limits=(one_each,))
    cluster.lasts[cluster.last + 1] = 10.0
    cluster.hold_until(math.inf, kind(queue="r"), on("a", 8))
    for _ in range(2):
        cluster.hold_until(math.inf, kind(queue="r"), on("b", 3))
    big = {"slots": 8, "run_s": 20.0}
    (bobs,) = cluster.add(kind("span[hosts=1]", user="bob", **big))
    cluster.step(0.0)
    (small,) = cluster.add(kind(run_s=50.0, user="bob"))
    cluster.step(1.0)
    assert small in cluster.started and cluster.planned[bobs].hosts == ("a",)
    (first,) = cluster.add(kind("span[hosts=1]", **big))
    cluster.priorities[first] = 1
    (late,) = cluster.add(kind("span[hosts=1]", queue="r", slots=8, run_s=60.0))
    cluster.step(10.0)
    assert cluster.started[first] == 10.0 and cluster.planned[bobs].at == 51.0
    cluster.step(30.0)
    cluster.step(51.0)
    assert cluster.started[bobs] == 51.0 and late not in cluster.started


def test_nobody_whom_a_limit_keeps_out_inherits_the_plan_of_who_started_elsewhere() -> None:
    """Ann may have one job at a time. Something is reserved on host a for her first big one, and as host b is free it
    starts there. Then the first that limits let in is Bob's job of two hosts. His other one is of the same kind as
    Ann's, comes last by its -sp, and was looked at while a small job of Ann's filled her limit.
    """
    one_each = section(users=EACH, queues=Consumers(("q",)), jobs=1)
    queues = [Queue(name="q", backfill=True), Queue(name="r")]
    cluster = TimedCluster(host("a"), host("b"), queues=queues, limits=(one_each,))
    cluster.devices("a", 4).devices("b", 4)
    for job_id, held in enumerate((on("b", 1, gpus=3), on("b", 1), on("a", 1, gpus=4)), 1):
        cluster.lasts[job_id] = 50.0 if held.hosts[0].host == "b" else math.inf
        cluster.hold_until(math.inf, kind(queue="r"), held)
    (last,) = cluster.add(kind("rusage[ngpus_excl_p=4]", user="bob"))
    cluster.priorities[last] = -1
    first, second = cluster.add(kind("rusage[ngpus_excl_p=4]"), 2)
    (wide,) = cluster.add(kind("span[ptile=1] rusage[ngpus_excl_p=4]", slots=2, user="bob"))
    cluster.step(0.0)
    (small,) = cluster.add(kind("rusage[ngpus_excl_p=1]", run_s=49.0))
    cluster.step(1.0)
    cluster.step(2.0)
    assert small in cluster.started and cluster.planned[first].hosts == ("a",) and last in cluster.planned
    cluster.step(50.0)
    assert cluster.started[first] == 50.0 and cluster.running[first].allocation.hosts[0].host == "b"
    assert sorted(cluster.planned[wide].hosts) == ["a", "b"] and second not in cluster.planned


def test_a_job_that_takes_what_it_gets_leaves_what_is_planned_for() -> None:
    queue = Queue(name="q", user_limit=6, backfill=True)
    cluster = TimedCluster(queues=[queue, Queue(name="r")]).devices("a", 4)
    cluster.hold_until(100.0, kind(queue="r"), on("a", 1, gpus=1))
    (big,) = cluster.add(kind("rusage[ngpus_excl_p=4]", slots=4, run_s=60.0))
    (wide,) = cluster.add(kind(slots=1, max_slots=5, run_s=500.0))
    cluster.step(0.0)
    assert cluster.running[wide].allocation.slots == 2
    cluster.step(100.0)
    assert cluster.started[big] == 100.0


def test_windows_of_limits_are_looked_at_as_they_will_be_then() -> None:
    """From 00:02 on only one slot may be used, and the first place comes free at 00:03."""
    night = (Window(start=2, end=10),)
    options = {"limits": (section(queues=ALL, slots=1, windows=night),)}
    cluster = TimedCluster(queues=[Queue(name="q"), Queue(name="r")], **options)
    cluster.options["limits"] = (Limit(name="L", queues=Consumers(("q",)), amounts={"slots": (Amount(1.0, night),)}),)
    cluster.hold_until(180.0, kind(queue="r"), on("a", 8))
    (job,) = cluster.add(kind(slots=2, run_s=60.0))
    cluster.step(0.0)
    assert cluster.planned[job].at == 600.0
    cluster.step(180.0)
    cluster.step(600.0)
    assert cluster.started[job] == 600.0


def planned_on_b() -> tuple[TimedCluster, int]:
    """A job is planned for 100 on host b; on a there is no room before 500."""
    cluster = TimedCluster(host("a"), host("b"), queues=[Queue(name="q"), Queue(name="r")])
    cluster.hold_until(500.0, kind(queue="r"), on("a", 8))
    cluster.hold_until(100.0, kind(queue="r"), on("b", 8))
    (job,) = cluster.add(kind("span[hosts=1]", slots=4, run_s=60.0))
    cluster.step(0.0)
    assert (cluster.planned[job].at, cluster.planned[job].hosts) == (100.0, ("b",))
    cluster.first_promise.clear()
    return cluster, job


def test_a_plan_is_given_up_where_the_queue_has_the_host_no_more() -> None:
    cluster, job = planned_on_b()
    cluster.queues["q"] = Queue(name="q", hosts=("a",))
    cluster.step(1.0)
    assert (cluster.planned[job].at, cluster.planned[job].hosts) == (500.0, ("a",))


def test_nothing_is_reserved_where_a_limit_of_the_host_never_lets_the_job_in() -> None:
    cluster, job = planned_on_b()
    cluster.hosts["b"] = host("b", user_limit=2)
    cluster.queues["q"] = Queue(name="q", reserved_jobs=2)
    cluster.step(1.0)
    assert (cluster.planned[job].at, cluster.planned[job].hosts) == (500.0, ("a",))
    (both,) = cluster.add(kind("span[ptile=4]", slots=8, run_s=60.0))
    cluster.step(2.0)
    assert not cluster.planned[both].hosts and cluster.planned[job].hosts == ("a",)


# -- random traces ----------------------------------------------------------------------------------------------------


def world(seed: int) -> tuple[TimedCluster, list[tuple[float, Bucket, float]]]:
    chance = random.Random(seed)

    def some(*amounts: int) -> int | None:
        return chance.choice(amounts) if chance.random() < 0.35 else None

    slots, gpus = chance.choice((4, 8)), chance.choice((0, 2, 4))
    names = [f"h{number}" for number in range(chance.randint(1, 3))]
    queues = [
        Queue(
            name=name,
            backfill=chance.random() < 0.7,
            job_limit=some(4, 6, 8),
            user_limit=some(4, 6),
            host_limit=some(4, 5),
            processor_limit=chance.choice((None, None, None, 0.5)),
        )
        for name in ("q", "r")
    ]
    limits = []
    if chance.random() < 0.5:
        who: dict[str, Any] = {
            kind_: chance.choice((ALL, EACH)) for kind_ in ("users", "queues", "hosts") if chance.random() < 0.5
        }
        limits.append(section(**who, **{chance.choice(("slots", "jobs", "ngpus")): chance.choice((4, 5))}))
    options: dict[str, Any] = {"limits": tuple(limits)}
    if chance.random() < 0.3:
        options["user_limits"] = {"ann": 4, "default": 6}
    if chance.random() < 0.2:
        options["group_limits"] = {"g": (("ann", "bob"), chance.choice((5, 8)))}
    if chance.random() < 0.2:
        options["job_group_limits"] = {"/p": chance.choice((1, 2))}
    hosts = [host(name, ncpus=slots, user_limit=some(4)) for name in names]
    cluster = TimedCluster(*hosts, slots=slots, queues=queues, **options)
    for name in names:
        cluster.devices(name, gpus)
    jobs = []
    at = 0.0
    for _ in range(chance.randint(5, 25)):
        at += chance.choice((0, 0, 1, 5, 20))
        wanted = chance.randint(1, 4)
        text = f"rusage[ngpus_excl_p={chance.randint(1, gpus)}]" if gpus and chance.random() < 0.6 else ""
        one_host = chance.random() < 0.7
        limit = float(chance.randint(1, 60))
        what = kind(
            f"{text}{' span[hosts=1]' if one_host else ''}".strip(),
            queue=chance.choice(("q", "r")),
            user=chance.choice(("ann", "bob")),
            slots=wanted,
            max_slots=wanted + 2 if chance.random() < 0.1 else 0,
            run_s=limit,
            exclusive=chance.random() < 0.1,
            job_group="/p" if chance.random() < 0.3 else "",
        )
        jobs.append((at, what, limit if chance.random() < 0.5 else float(chance.randint(1, int(limit)))))
    return cluster, jobs


def meet(seeds: range) -> int:
    """Jobs planned for on the traces; asserts that nothing delayed one."""
    planned = 0
    for seed in seeds:
        cluster, jobs = world(seed)
        try:
            cluster.play(jobs)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert all(cluster.started[job_id] <= first for job_id, first in cluster.first_promise.items()), seed
        planned += len(cluster.first_promise)
    return planned


def test_nothing_delays_a_planned_job_on_random_traces_with_limits() -> None:
    assert meet(range(FEW)) > FEW  # else nothing was tried


@pytest.mark.nightly
def test_nothing_delays_a_planned_job_on_thousands_of_random_traces_with_limits() -> None:
    assert meet(range(FEW, FEW + NIGHTS)) > NIGHTS
