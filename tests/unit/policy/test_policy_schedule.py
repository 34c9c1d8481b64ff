"""schedule(): order of service, choice of hosts and devices, limits, and a reason with numbers for whoever waits."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placing_cluster import (
    NOW,
    PROCESS,
    SHARED,
    Cluster,
    devices,
    host,
    kind,
    places,
    told,
)

from gsched.base.coded_text import sentence
from gsched.model.hosts.host import ComputeMode, Gpu
from gsched.model.queues.queue import Preemption, Queue
from gsched.model.scheduling.columns import HostColumns
from gsched.model.scheduling.snapshot import Bucket, Running
from tests.support.property_examples import examples

GPU = "rusage[{}={}]"

# -- who is served first ----------------------------------------------------------------------------------------------


def test_queues_by_priority_then_first_come_first_served() -> None:
    queues = (Queue(name="low", priority=1), Queue(name="high", priority=9), Queue(name="other", priority=1))
    cluster = Cluster(slots=4, queues=queues)
    cluster.add(kind(queue="low"), 2)  # 1, 2
    cluster.add(kind(queue="other", user="bob"), 2)  # 3, 4
    cluster.add(kind(queue="high"))  # 5
    cluster.add(kind(queue="low", user="cy"))  # 6
    assert [placement.job_id for placement in cluster.plan().placements] == [5, 1, 2, 3]


def test_a_kind_that_finds_no_place_lets_others_pass() -> None:
    cluster = Cluster(slots=4)
    big = cluster.add(kind(slots=5), 3)
    small = cluster.add(kind(), 2)
    plan = cluster.plan()
    assert places(plan) == dict.fromkeys(small, "a")
    assert told(plan) == [("Not enough job slot(s) (5 slots wanted, 2 on 1 host could be had)",)]
    assert big[0] not in places(plan)


def test_a_kind_is_tried_once_however_many_jobs_and_owners_it_has() -> None:
    cluster = Cluster(*[host(f"h{i}") for i in range(10)], slots=0)
    for user in ("ann", "bob", "cy"):
        cluster.add(kind(user=user), 1000)
    plan = cluster.plan(budget=11)
    assert not plan.truncated
    assert told(plan) == [("Job slot limit reached: 10 hosts (1 wanted, 0 of 0 free on h0)",)]


def test_the_cost_grows_with_placements_and_hosts_not_with_their_product() -> None:
    cluster = Cluster(*[host(f"h{i}") for i in range(50)], slots=20)
    cluster.add(kind(), 1000)
    plan = cluster.plan(budget=1010)  # a step for each job, few for the class
    assert len(plan.placements) == 1000 and not plan.truncated


def test_a_budget_that_runs_out_is_said() -> None:
    cluster = Cluster(*[host(f"h{i}") for i in range(10)])
    cluster.add(kind(), 50)
    plan = cluster.plan(budget=20)
    assert plan.truncated and 10 < len(plan.placements) < 20
    assert not cluster.plan(budget=60).truncated


# -- where ------------------------------------------------------------------------------------------------------------


def test_without_order_the_least_loaded_host_then_the_name() -> None:
    cluster = Cluster(host("c"), host("b"), host("a", values={"r15s": 0.5}), slots=1)
    cluster.add(kind(), 3)
    assert list(places(cluster.plan()).values()) == ["b", "c", "a"]


def test_an_unknown_load_comes_last() -> None:
    cluster = Cluster(host("a", values={"r15s": None}), host("b", values={"r15s": 9.0}), slots=1)
    cluster.add(kind(), 2)
    assert list(places(cluster.plan()).values()) == ["b", "a"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("order[mem]", ["b", "a", "c"]),  # more is better
        ("order[-mem]", ["c", "a", "b"]),
        ("order[ut]", ["a", "c", "b"]),  # less is better
        ("order[-ut]", ["b", "a", "c"]),
        ("order[ut:mem]", ["a", "c", "b"]),
        ("order[ut:-mem]", ["c", "a", "b"]),
        ("order[heat]", ["c", "b", "a"]),  # an external resource of which less is better
        ("order[cool]", ["a", "b", "c"]),
    ],
)
def test_order_sorts_in_the_natural_direction_of_each_resource(order: str, expected: list[str]) -> None:
    figures = {"a": (0.0, 20.0, 3.0), "b": (0.9, 30.0, 2.0), "c": (0.0, 10.0, 1.0)}
    hosts = [
        host(name, values={"ut": ut, "mem": mem, "heat": heat, "cool": heat})
        for name, (ut, mem, heat) in figures.items()
    ]
    cluster = Cluster(*hosts, slots=1, increasing=frozenset({"ut", "r15s", "pg", "heat"}))
    cluster.add(kind(order), 3)
    assert list(places(cluster.plan()).values()) == expected


def test_order_sees_what_the_cycle_has_taken() -> None:
    cluster = Cluster(host("a", values={"mem": 100.0}), host("b", values={"mem": 90.0}))
    cluster.add(kind("order[mem] rusage[mem=20]"), 4)
    assert list(places(cluster.plan()).values()) == ["a", "b", "a", "b"]


def test_gpu_jobs_are_packed() -> None:
    cluster = Cluster(host("a"), host("b"), host("c"))
    for name in cluster.hosts:
        cluster.devices(name)
    cluster.hold("b", 0)
    cluster.add(kind(GPU.format("ngpus_excl_p", 1)), 4)
    cluster.add(kind(GPU.format("ngpus_excl_p", 4)), 2)
    plan = cluster.plan()
    assert list(places(plan).values()) == ["b", "b", "b", "a", "c"]
    assert told(plan) == [
        (
            "Job's requirements for reserving resource (ngpus_excl_p) not satisfied: "
            "3 hosts (4 wanted, 3 of 4 free on a)",
        )
    ]


def test_jobs_without_gpus_are_spread_by_load_only() -> None:
    cluster = Cluster(host("a", values={"r15s": 1.0}), host("b")).devices("a")
    cluster.add(kind())
    assert places(cluster.plan()) == {1: "b"}


def test_asked_hosts_and_a_host_to_avoid() -> None:
    cluster = Cluster(host("a"), host("b"), slots=1)
    cluster.add(kind(asked_hosts=("b",)), 2)
    cluster.add(kind(avoid_host="a"))
    plan = cluster.plan()
    assert places(plan) == {1: "b", 3: "a"}  # better the host where it failed than none
    (reasons,) = told(plan)
    assert reasons == (
        "Job slot limit reached: 1 host (1 wanted, 0 of 1 free on b)",
        "Not specified in job submission: 1 host",
    )


# -- devices ----------------------------------------------------------------------------------------------------------


def test_devices_are_given_from_the_lowest_index() -> None:
    cluster = Cluster().devices("a").hold("a", 1)
    cluster.add(kind(GPU.format("ngpus_excl_p", 2)))
    cluster.add(kind(GPU.format("ngpus_excl_p", 1)), 2)
    plan = cluster.plan()
    assert devices(plan) == {1: [0, 2], 2: [3]}
    ((reason,),) = told(plan)
    assert reason.endswith("(1 wanted, 0 of 4 free on a)")


def test_shared_devices_are_taken_least_shared_first() -> None:
    cluster = Cluster().devices("a", 2, SHARED, shared_jobs=2)
    cluster.add(kind(GPU.format("ngpus_shared", 1)), 5)
    assert list(devices(cluster.plan()).values()) == [[0], [1], [0], [1]]


def test_a_plain_claim_leaves_devices_to_claims_that_can_use_no_other() -> None:
    cluster = Cluster()
    modes = (PROCESS, SHARED)
    cluster.gpus("a", *(Gpu(uuid=f"a{i}", index=i, mode=mode) for i, mode in enumerate(modes)))
    cluster.add(kind("rusage[ngpus=1,ngpus_excl_p=1]"))
    (placement,) = cluster.plan().placements
    assert {gpu.index: gpu.claim for gpu in placement.allocation.hosts[0].gpus} == {0: "ngpus_excl_p", 1: "ngpus"}


def test_gpus_that_need_no_other_mode_are_taken_first_and_those_of_a_counter_are_left_to_it() -> None:
    cluster = Cluster()
    modes = (SHARED, PROCESS, SHARED, PROCESS)
    cluster.gpus("a", *(Gpu(uuid=f"a{i}", index=i, mode=mode, mode_settable=True) for i, mode in enumerate(modes)))
    cluster.add(kind(gpu="num=3:mode=exclusive_process"))
    cluster.add(kind(gpu="num=1:mode=exclusive_process"))
    assert list(devices(cluster.plan()).values()) == [[0, 1, 3], [2]]
    both = Cluster()
    both.gpus("a", *(Gpu(uuid=f"a{i}", index=i, mode=mode, mode_settable=True) for i, mode in enumerate(modes[:2])))
    both.add(kind("rusage[ngpus_excl_p=1]", gpu="num=1:mode=exclusive_process"))
    (placement,) = both.plan().placements
    assert {gpu.index: gpu.claim for gpu in placement.allocation.hosts[0].gpus} == {0: "gpu_excl", 1: "ngpus_excl_p"}


@pytest.mark.parametrize(("mode", "given"), [(SHARED, [[0]]), (PROCESS, [[0]]), (ComputeMode.PROHIBITED, [])])
def test_a_gpu_given_unasked(mode: ComputeMode, given: list[list[int]]) -> None:
    cluster = Cluster().devices("a", 1, mode)
    cluster.add(kind(auto_gpu=True), 2)
    plan = cluster.plan()
    assert list(devices(plan).values()) == given
    assert "reserving resource (ngpus" in told(plan)[0][0]


def test_a_host_without_devices_runs_jobs_that_would_get_one_unasked() -> None:
    known = Cluster().devices("a", 0)
    known.add(kind(auto_gpu=True))
    assert places(known.plan()) == {1: "a"}
    unknown = Cluster()
    unknown.add(kind(auto_gpu=True))
    assert "ngpus is unknown on a" in told(unknown.plan())[0][0]


def test_unknown_devices_are_not_zero() -> None:
    cluster = Cluster()
    cluster.add(kind("select[ngpus>0] rusage[ngpus_excl_p=1]"))
    cluster.add(kind("select[ngpus==0]"))
    cluster.add(kind(GPU.format("ngpus_excl_p", 1)))
    plan = cluster.plan()
    assert plan.placements == ()
    assert [lines[0] for lines in told(plan)] == [
        "Job's resource requirements not satisfied: 1 host (ngpus>0: ngpus is unknown on a)",
        "Job's resource requirements not satisfied: 1 host (ngpus==0: ngpus is unknown on a)",
        "Job's requirements for reserving resource (ngpus_excl_p) not satisfied: "
        "1 host (1 wanted, ngpus_excl_p is unknown on a)",
    ]


# -- amounts, limits, closed hosts ------------------------------------------------------------------------------------


def test_amounts_are_what_is_reported_less_what_is_reserved() -> None:
    cluster = Cluster().hold("a", mem=700.0)
    cluster.add(kind("rusage[mem=200]"), 2)
    cluster.add(kind("select[mem>200]"))
    plan = cluster.plan()
    assert places(plan) == {1: "a"}
    assert [lines[0] for lines in told(plan)] == [
        "Job's requirements for reserving resource (mem) not satisfied: 1 host (200 wanted, 100 free on a)",
        "Job's resource requirements not satisfied: 1 host (mem>200: mem is 100 on a)",
    ]


@pytest.mark.parametrize(
    ("values", "said"), [({"seats": None}, "3 wanted, seats is unknown on a"), ({}, "3 wanted, a has no seats")]
)
def test_an_amount_that_is_unknown_or_not_there(values: Mapping[str, None], said: str) -> None:
    cluster = Cluster(host("a", values=values))
    cluster.add(kind("rusage[seats=3]"))
    (reasons,) = told(cluster.plan())
    assert reasons == (f"Job's requirements for reserving resource (seats) not satisfied: 1 host ({said})",)


def test_slots_can_be_selected_and_may_be_without_limit() -> None:
    cluster = Cluster(slots=None).hold("a", slots=500)
    cluster.add(kind("select[slots>400]", slots=300))
    assert places(cluster.plan()) == {1: "a"}
    bounded = Cluster(slots=4)
    bounded.add(kind("select[slots>3]"), 2)
    assert places(bounded.plan()) == {1: "a"}


def test_limits_count_what_runs_and_what_the_cycle_places() -> None:
    queues = (Queue(name="q", job_limit=5), Queue(name="u", user_limit=2))
    used = {"queue_slots": {"q": 2}, "queue_user_slots": {("u", "ann"): 1}}
    cluster = Cluster(slots=99, queues=queues, **used)
    cluster.add(kind(slots=2), 2)
    cluster.add(kind(slots=2, user="bob"))
    cluster.add(kind(queue="u"), 2)
    cluster.add(kind(queue="u", user="bob"), 2)
    plan = cluster.plan()
    assert sorted(places(plan)) == [1, 4, 6, 7]
    assert sorted(told(plan)) == [
        ("The queue has not enough job slots for the parallel job (2 wanted, 4 of 5 used)",),
        ("User has reached the per-user job slot limit of the queue (1 wanted, 2 of 2 used by ann)",),
    ]


def running(job_id: int, bucket: Bucket, cluster: Cluster, name: str) -> Running:
    """Starts a job of the bucket on a host."""
    alone = Cluster(cluster.hosts[name], queues=[Queue(name=bucket.queue)])
    alone.add(bucket)
    (placement,) = alone.plan().placements
    cluster.ledger.take((job_id, 1), placement.allocation)
    found = Running(job_id, 1, bucket, placement.allocation, "RUN", NOW - 5.0, float("inf"))
    cluster.running[job_id] = found
    return found


def test_nothing_is_held_for_a_job_where_a_limit_keeps_it_out() -> None:
    """Its queue may have no more on the host: what is free there is free for others."""
    cluster = Cluster(queues=(Queue(name="q", priority=2, host_limit=2), Queue(name="low")))
    running(50, kind(slots=2), cluster, "a")
    (waits,) = cluster.add(kind("span[hosts=1]", slots=2))
    (other,) = cluster.add(kind("span[hosts=1]", queue="low", slots=6))
    plan = cluster.plan()
    assert places(plan) == {other: "a"}
    assert told(plan) == [("Queue's per-host job slot limit reached: 1 host (2 wanted, 2 of 2 used on a)",)]
    planned = plan.planned[waits]
    assert (planned.at, planned.hosts) == (None, ())


def test_nobody_is_displaced_for_a_job_that_a_limit_keeps_out() -> None:
    preempts = Preemption(preemptive=())
    cluster = Cluster(queues=(Queue(name="q", priority=2, host_limit=2, preemption=preempts), Queue(name="low")))
    running(50, kind(slots=2), cluster, "a")
    running(60, kind(queue="low", slots=6), cluster, "a")
    cluster.add(kind("span[hosts=1]", slots=2))
    cluster.add(kind(slots=2))
    assert cluster.plan().preempted == ()


def test_a_job_is_planned_for_before_later_ones_take_what_it_waits_for() -> None:
    cluster = Cluster(slots=4, queues=[Queue(name="q", backfill=True)])
    running = kind(run_s=100.0)
    cluster.add(running)
    cluster.carry_out(cluster.plan())
    cluster.running[1] = cluster.running[1]._replace(ends_at=NOW + 100.0)
    (big,) = cluster.add(kind(slots=4, run_s=100.0))
    cluster.add(kind(run_s=1000.0), 2)
    (short,) = cluster.add(kind(run_s=50.0))
    plan = cluster.plan()
    assert list(places(plan)) == [short]
    assert plan.planned[big].at == NOW + 100.0


def test_a_planned_place_is_not_taken_where_select_no_longer_holds() -> None:
    cluster = Cluster(host("a", values={"mem": 700.0}), host("b", values={"mem": 700.0}, user_limit=0))
    bucket = kind("select[mem>400] rusage[mem=300]")
    cluster.add(bucket, 2)
    plan = cluster.plan()
    assert list(places(plan)) == [1] and plan.planned[2].hosts == ("a",)
    cluster.carry_out(plan)
    cluster.options["planned"] = dict(plan.planned)
    assert cluster.plan().placements == ()  # 400 MB are left, which is enough, but no more than 400


def test_limits_on_hosts() -> None:
    queues = (Queue(name="q", host_limit=2), Queue(name="free"))
    hosts = [host("a"), host("b", user_limit=1)]
    cluster = Cluster(*hosts, queues=queues)
    running(901, kind(user="zoe"), cluster, "a")
    running(902, kind(queue="free", user="bob"), cluster, "b")
    cluster.add(kind(), 4)
    cluster.add(kind(queue="free", user="bob", asked_hosts=("b",)))
    cluster.add(kind(queue="free", user="cy", asked_hosts=("b",)))
    plan = cluster.plan()
    assert places(plan) == {1: "a", 2: "b", 6: "b"}
    reasons = dict(zip(plan.reasons, told(plan), strict=True))
    assert [each.partition(":")[0] for each in reasons[kind()]] == [
        "Host's per-user job slot limit reached",
        "Queue's per-host job slot limit reached",
    ]
    assert reasons[kind(queue="free", user="bob", asked_hosts=("b",))][0].startswith("Host's per-user")


def test_an_agent_that_serves_one_user_gets_nobody_elses_jobs() -> None:
    hosts = [host("a"), host("b", only_user="ann"), host("c", only_user="ann"), host("d", only_user="cy")]
    cluster = Cluster(*hosts, slots=1)
    cluster.add(kind(user="bob"), 3)
    cluster.add(kind(user="ann"), 2)
    cluster.add(kind("span[hosts=-1]", user="bob", slots=2))
    plan = cluster.plan()
    assert places(plan) == {1: "a", 4: "b", 5: "c"}
    reasons = dict(zip(plan.reasons, told(plan), strict=True))
    assert [each for each in reasons[kind(user="bob")] if "only" in each] == [
        "Agent runs only jobs of user ann: 2 hosts (job of user bob, b)",
        "Agent runs only jobs of user cy: 1 host (job of user bob, d)",
    ]


def test_a_queues_hosts_and_closed_hosts() -> None:
    cluster = Cluster(
        host("a"), host("b", closed="Closed by LSF administrator"), queues=(Queue(name="q", hosts=("b",)),)
    )
    cluster.add(kind())
    plan = cluster.plan()
    assert told(plan) == [("Closed by LSF administrator: 1 host", "Not usable to the queue: 1 host")]
    assert list(plan.reasons) == [("q", kind().requirement)]


def test_one_job_per_host_and_interval() -> None:
    hosts = [host("a", last_dispatch=NOW - 2.0), host("b", last_dispatch=NOW - 3.0), host("c")]
    cluster = Cluster(*hosts, job_accept_interval_s=3.0)
    cluster.add(kind(), 4)
    plan = cluster.plan()
    assert places(plan) == {1: "b", 2: "c"}
    assert told(plan) == [("Just started a job recently: 3 hosts",)]


@pytest.mark.parametrize(
    ("bucket", "said"),
    [
        (kind(queue="gone"), "The queue gone no longer exists"),
        (kind("select[ut"), "Job has bad res req (Bad resource requirement syntax: "),
    ],
)
def test_what_cannot_be_judged_waits_with_a_reason(bucket: Bucket, said: str) -> None:
    cluster = Cluster()
    cluster.add(bucket)
    (reasons,) = told(cluster.plan())
    assert reasons[0].startswith(said)


def test_no_hosts_at_all() -> None:
    cluster = Cluster()
    cluster.hosts = {}
    cluster.add(kind())
    plan = cluster.plan()
    assert told(plan) == [("No host is configured for the job's queue",)]
    assert plan.summary == (
        "started 0 of the pending jobs on 0 usable of 0 hosts; one kind of job waits because: "
        "No host is configured for the job's queue"
    )


# -- properties -------------------------------------------------------------------------------------------------------

REQUIREMENTS = (
    "", "select[ut<0.5]", "rusage[mem=300]", "rusage[ngpus_excl_p=1]", "rusage[ngpus_excl_p=3]", "rusage[ngpus=2]",
    "rusage[ngpus=1,ngpus_excl_p=1]", "span[hosts=1]", "span[ptile=2]", "select[mem>400] rusage[mem=300]",
    "{rusage[mem=900]} || {rusage[mem=100]}", "rusage[ngpus_shared=1]", "order[mem]", "select[nothere>0]",
    "{mem>900} || {rusage[mem=300 || ngpus=3]} || {span[stripe]}@60", "{mem>900} || {1*{mem>300} + {ut<0.5}}",
)  # fmt: skip


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    names = [f"h{i}" for i in range(draw(st.integers(0, 4)))]
    limit = st.none() | st.integers(0, 4)
    hosts = [
        host(name, values={"ut": draw(st.sampled_from([0.1, 0.9, None])), "mem": draw(st.sampled_from([100.0, 700.0]))},
             closed=draw(st.sampled_from(["", "", "", "Closed by LSF administrator"])), user_limit=draw(limit))
        for name in names
    ]  # fmt: skip
    queues = [
        Queue(
            name=name,
            priority=draw(st.integers(1, 2)),
            job_limit=draw(limit),
            user_limit=draw(limit),
            host_limit=draw(limit),
        )
        for name in ("q", "r")
    ]
    cluster = Cluster(*hosts, slots=draw(st.sampled_from([0, 2, 5])), queues=queues)
    cluster.hosts = {each.name: each for each in hosts}
    for name in names:
        if draw(st.booleans()):
            cluster.devices(
                name, draw(st.integers(0, 4)), draw(st.sampled_from(list(ComputeMode))), draw(st.integers(1, 2))
            )
    for _ in range(draw(st.integers(0, 12))):
        bucket = kind(draw(st.sampled_from(REQUIREMENTS)), queue=draw(st.sampled_from(["q", "r", "gone"])),
                      user=draw(st.sampled_from(["ann", "bob"])), slots=draw(st.integers(1, 3)),
                      auto_gpu=draw(st.booleans()), exclusive=draw(st.integers(0, 9)) == 0)  # fmt: skip
        cluster.add(bucket, draw(st.integers(1, 3)))
    return cluster


@settings(max_examples=examples(50), deadline=None)
@given(clusters())
def test_a_plan_fits_explains_everybody_and_is_always_the_same(cluster: Cluster) -> None:
    plan = cluster.plan()
    assert plan == cluster.plan()
    assert not any(host_ledger.held for host_ledger in cluster.ledger.hosts.values())  # only the fork was spent
    started = places(plan)
    assert len(started) == len(plan.placements)
    for bucket, ids in cluster.pending.items():
        if any(job_id not in started for job_id in ids):
            reasons = plan.reasons.get(bucket) or plan.reasons[bucket.queue, bucket.requirement]
            assert reasons and all(sentence(reason.text).strip() for reason in reasons)
        assert [job_id for job_id in ids if job_id in started] == ids[: sum(job_id in started for job_id in ids)]
    waiting = {bucket: list(ids) for bucket, ids in cluster.pending.items()}
    cluster.carry_out(plan)
    for name in cluster.hosts:
        free = cluster.ledger.host(name).free_slots
        assert free is None or free >= 0
    # What waits now waits still: a cycle leaves nothing that it could have placed.
    used: dict[str, Any] = {"queue_slots": {}, "queue_user_slots": {}}
    for bucket, ids in waiting.items():
        slots = bucket.requirement.slots * sum(job_id in started for job_id in ids)
        for table, key in (("queue_slots", bucket.queue), ("queue_user_slots", (bucket.queue, bucket.user))):
            used[table][key] = used[table].get(key, 0) + slots
    cluster.options |= used | {"planned": dict(plan.planned)}  # whom something is kept for stays so
    cluster.pending = {bucket: ids for bucket, ids in cluster.pending.items() if ids}
    # But for a job that a plan found a place for where serving, which takes the best host for each part, did not.
    assert places(cluster.plan()).keys() <= plan.planned.keys()


@pytest.mark.parametrize(
    "asked", ["", "rusage[ngpus_excl_p=1]", "order[mem:ut] rusage[mem=1]", "select[mem>200] rusage[mem=100]"]
)
def test_what_a_cycle_made_is_gone_with_its_plan_and_needs_no_collector(asked: str) -> None:
    cluster = Cluster(host("a"), host("b")).devices("a").devices("b")
    cluster.add(kind(asked), 30)
    cluster.add(kind("rusage[mem=5000]"), 3)
    snapshots = [cluster.snapshot() for _ in range(2)]
    columns = HostColumns(cluster.hosts, snapshots[0].ledger)  # kept from cycle to cycle, as the master does
    placed = []
    gc.disable()
    try:
        for each in snapshots:
            columns.show(each.ledger, ())
            gc.collect()  # what is kept for good has been made with the first of them
            placed.append(len(cluster.schedule(replace(each, columns=columns)).placements))
        assert placed[0] == placed[1] > 0
        assert gc.collect() == 0
    finally:
        gc.enable()
