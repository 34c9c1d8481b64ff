"""schedule(): order of service, choice of hosts and devices, limits, and a reason with numbers for whoever waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.model.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.host import ComputeMode, Gpu, GpuReport
from gsched.model.ledger import Ledger
from gsched.model.queue import Queue
from gsched.model.snapshot import Bucket, HostSnapshot, Plan, RequirementClass, Snapshot
from gsched.policy.cycle import schedule

PROCESS, SHARED = ComputeMode.EXCLUSIVE_PROCESS, ComputeMode.DEFAULT
NOW = 1000.0
COUNTERS = ("ngpus", "ngpus_shared", "ngpus_excl_t", "ngpuprohibited", "ngpus_excl_p")
GPU = "rusage[{}={}]"


def host(name: str, **changes: Any) -> HostSnapshot:
    values = {"type": "LINUX", "r15s": 0.0, "pg": 0.0, "ut": 0.0, "mem": 1000.0, **dict.fromkeys(COUNTERS)}
    values.update(changes.pop("values", {}))
    return HostSnapshot(name=name, values=values, **changes)


def kind(text: str = "", *, queue: str = "q", user: str = "ann", slots: int = 1, **changes: Any) -> Bucket:
    asked: dict[str, Any] = {"asked_hosts": (), "avoid_host": "", "auto_gpu": False} | changes
    return Bucket(queue, user, RequirementClass(text, slots, **asked))


class Cluster:
    """Hosts with devices and slots; jobs get numbers in the order in which they are added."""

    def __init__(
        self, *hosts: HostSnapshot, slots: int | None = 8, queues: Iterable[Queue] = (), **options: Any
    ) -> None:
        self.hosts = {each.name: each for each in hosts or (host("a"),)}
        self.ledger = Ledger()
        for name in self.hosts:
            self.ledger.host(name).max_slots = slots
        self.queues = {queue.name: queue for queue in queues or (Queue(name="q"),)}
        self.pending: dict[Bucket, list[int]] = {}
        self.options = options
        self.last = 0

    def devices(self, name: str, count: int = 4, mode: ComputeMode = PROCESS, shared_jobs: int = 1) -> Cluster:
        books = self.ledger.host(name)
        books.shared_jobs = shared_jobs
        books.observe_gpus(GpuReport(gpus=tuple(Gpu(uuid=f"{name}{i}", index=i, mode=mode) for i in range(count))))
        return self

    def hold(self, name: str, *indices: int, slots: int = 1, claim: str = "ngpus_excl_p", **amounts: float) -> Cluster:
        held = tuple(HeldGpu(uuid=f"{name}{i}", index=i, claim=claim) for i in indices)
        key = (9000 + len(self.ledger.host(name).held), 1)
        self.ledger.take(key, Allocation(hosts=(HostAllocation(host=name, slots=slots, gpus=held, amounts=amounts),)))
        return self

    def add(self, bucket: Bucket, count: int = 1) -> list[int]:
        ids = list(range(self.last + 1, self.last + count + 1))
        self.last += count
        self.pending.setdefault(bucket, []).extend(ids)
        return ids

    def snapshot(self) -> Snapshot:
        counts: dict[str, Any] = {"queue_slots": {}, "queue_user_slots": {}}
        return Snapshot(
            queues=self.queues,
            hosts=self.hosts,
            ledger=self.ledger.fork(),
            pending=self.pending,
            local_type="LINUX",
            **(counts | self.options),
        )

    def plan(self, budget: int = 10_000) -> Plan:
        return schedule(self.snapshot(), NOW, budget)


def places(plan: Plan) -> dict[int, str]:
    return {placement.job_id: placement.allocation.first_host for placement in plan.placements}


def devices(plan: Plan) -> dict[int, list[int]]:
    return {each.job_id: [gpu.index for gpu in each.allocation.hosts[0].gpus] for each in plan.placements}


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
    assert plan.reasons == {kind(slots=5): ("Not enough job slot(s): 1 host (5 wanted, 4 of 4 free on a)",)}
    assert big[0] not in places(plan)


def test_a_kind_is_tried_once_however_many_jobs_and_owners_it_has() -> None:
    cluster = Cluster(*[host(f"h{i}") for i in range(10)], slots=0)
    for user in ("ann", "bob", "cy"):
        cluster.add(kind(user=user), 1000)
    plan = cluster.plan(budget=11)
    assert not plan.truncated and len(plan.reasons) == 3
    assert set(plan.reasons.values()) == {("Job slot limit reached: 10 hosts (1 wanted, 0 of 0 free on h0)",)}


def test_the_cost_grows_with_placements_and_hosts_not_with_their_product() -> None:
    cluster = Cluster(*[host(f"h{i}") for i in range(50)], slots=20)
    cluster.add(kind(), 1000)
    plan = cluster.plan(budget=50 + 1000)  # each host once, and once again after each placement
    assert len(plan.placements) == 1000 and not plan.truncated


def test_a_budget_that_runs_out_is_said() -> None:
    cluster = Cluster(*[host(f"h{i}") for i in range(10)])
    for i in range(5):
        cluster.add(kind(f"select[ut>{i + 1}]"))
    plan = cluster.plan(budget=20)
    assert plan.truncated and len(plan.reasons) == 2
    assert not cluster.plan(budget=50).truncated


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
    assert list(plan.reasons.values()) == [
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
    (reasons,) = plan.reasons.values()
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
    (reason,) = next(iter(plan.reasons.values()))
    assert reason.endswith("(1 wanted, 0 of 4 free on a)")


def test_shared_devices_are_taken_least_shared_first() -> None:
    cluster = Cluster().devices("a", 2, SHARED, shared_jobs=2)
    cluster.add(kind(GPU.format("ngpus_shared", 1)), 5)
    assert list(devices(cluster.plan()).values()) == [[0], [1], [0], [1]]


def test_a_plain_claim_leaves_devices_to_claims_that_can_use_no_other() -> None:
    cluster = Cluster()
    modes = (PROCESS, SHARED)
    cluster.ledger.host("a").observe_gpus(
        GpuReport(gpus=tuple(Gpu(uuid=f"a{i}", index=i, mode=mode) for i, mode in enumerate(modes)))
    )
    cluster.add(kind("rusage[ngpus=1,ngpus_excl_p=1]"))
    (placement,) = cluster.plan().placements
    assert {gpu.index: gpu.claim for gpu in placement.allocation.hosts[0].gpus} == {0: "ngpus_excl_p", 1: "ngpus"}


@pytest.mark.parametrize(("mode", "given"), [(SHARED, [[0]]), (PROCESS, [[0]]), (ComputeMode.PROHIBITED, [])])
def test_a_gpu_given_unasked(mode: ComputeMode, given: list[list[int]]) -> None:
    cluster = Cluster().devices("a", 1, mode)
    cluster.add(kind(auto_gpu=True), 2)
    plan = cluster.plan()
    assert list(devices(plan).values()) == given
    assert "reserving resource (ngpus" in next(iter(plan.reasons.values()))[0]


def test_a_host_without_devices_runs_jobs_that_would_get_one_unasked() -> None:
    known = Cluster().devices("a", 0)
    known.add(kind(auto_gpu=True))
    assert places(known.plan()) == {1: "a"}
    unknown = Cluster()
    unknown.add(kind(auto_gpu=True))
    assert "ngpus is unknown on a" in next(iter(unknown.plan().reasons.values()))[0]


def test_unknown_devices_are_not_zero() -> None:
    cluster = Cluster()
    cluster.add(kind("select[ngpus>0] rusage[ngpus_excl_p=1]"))
    cluster.add(kind("select[ngpus==0]"))
    cluster.add(kind(GPU.format("ngpus_excl_p", 1)))
    plan = cluster.plan()
    assert plan.placements == ()
    assert [lines[0] for lines in plan.reasons.values()] == [
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
    assert [lines[0] for lines in plan.reasons.values()] == [
        "Job's requirements for reserving resource (mem) not satisfied: 1 host (200 wanted, 100 free on a)",
        "Job's resource requirements not satisfied: 1 host (mem>200: mem is 100 on a)",
    ]


@pytest.mark.parametrize(
    ("values", "said"), [({"seats": None}, "3 wanted, seats is unknown on a"), ({}, "3 wanted, a has no seats")]
)
def test_an_amount_that_is_unknown_or_not_there(values: Mapping[str, None], said: str) -> None:
    cluster = Cluster(host("a", values=values))
    cluster.add(kind("rusage[seats=3]"))
    (reasons,) = cluster.plan().reasons.values()
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
    assert plan.reasons == {
        kind(slots=2): ("The queue has reached its job slot limit (4 of 5 used)",),
        kind(slots=2, user="bob"): ("The queue has reached its job slot limit (4 of 5 used)",),
        kind(queue="u"): ("User has reached the per-user job slot limit of the queue (2 of 2 used by ann)",),
    }


def test_limits_on_hosts() -> None:
    queues = (Queue(name="q", host_limit=2), Queue(name="free"))
    hosts = [host("a", queue_slots={"q": 1}), host("b", user_limit=1, user_slots={"bob": 1})]
    cluster = Cluster(*hosts, queues=queues)
    cluster.add(kind(), 4)
    cluster.add(kind(queue="free", user="bob", asked_hosts=("b",)))
    cluster.add(kind(queue="free", user="cy", asked_hosts=("b",)))
    plan = cluster.plan()
    assert places(plan) == {1: "a", 2: "b", 6: "b"}
    assert plan.reasons[kind()] == (
        "Host's per-user job slot limit reached: 1 host (1 of 1 used on b)",
        "Queue's per-host job slot limit reached: 1 host (2 of 2 used on a)",
    )
    assert plan.reasons[kind(queue="free", user="bob", asked_hosts=("b",))][0].startswith("Host's per-user")


def test_a_queues_hosts_and_closed_hosts() -> None:
    cluster = Cluster(
        host("a"), host("b", closed="Closed by LSF administrator"), queues=(Queue(name="q", hosts=("b",)),)
    )
    cluster.add(kind())
    assert cluster.plan().reasons == {
        kind(): ("Closed by LSF administrator: 1 host", "Not usable to the queue: 1 host")
    }


def test_one_job_per_host_and_interval() -> None:
    hosts = [host("a", last_dispatch=NOW - 2.0), host("b", last_dispatch=NOW - 3.0), host("c")]
    cluster = Cluster(*hosts, job_accept_interval_s=3.0)
    cluster.add(kind(), 4)
    plan = cluster.plan()
    assert places(plan) == {1: "b", 2: "c"}
    assert plan.reasons[kind()] == ("Just started a job recently: 3 hosts",)


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
    (reasons,) = cluster.plan().reasons.values()
    assert reasons[0].startswith(said)


def test_no_hosts_at_all() -> None:
    cluster = Cluster()
    cluster.hosts = {}
    cluster.add(kind())
    plan = cluster.plan()
    assert plan.reasons == {kind(): ("No host is configured for the job's queue",)}
    assert plan.summary == (
        "started 0 of the pending jobs on 0 usable of 0 hosts; 1 kinds of jobs wait, the first because: "
        "No host is configured for the job's queue"
    )


# -- properties -------------------------------------------------------------------------------------------------------

REQUIREMENTS = ("", "select[ut<0.5]", "rusage[mem=300]", "rusage[ngpus_excl_p=1]", "rusage[ngpus_excl_p=3]",
                "rusage[ngpus=2]", "rusage[ngpus_shared=1]", "order[mem]", "select[nothere>0]")  # fmt: skip


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
                      auto_gpu=draw(st.booleans()))  # fmt: skip
        cluster.add(bucket, draw(st.integers(1, 3)))
    return cluster


@settings(max_examples=150, deadline=None)
@given(clusters())
def test_a_plan_fits_explains_everybody_and_is_always_the_same(cluster: Cluster) -> None:
    plan = cluster.plan()
    assert plan == cluster.plan()
    assert not any(books.held for books in cluster.ledger.hosts.values())  # only the fork was spent
    for number, placement in enumerate(plan.placements):
        assert cluster.ledger.misfit((placement.job_id, 1), placement.allocation) == "", number
        cluster.ledger.take((placement.job_id, 1), placement.allocation)
    started = places(plan)
    assert len(started) == len(plan.placements)
    for bucket, ids in cluster.pending.items():
        if any(job_id not in started for job_id in ids):
            assert plan.reasons[bucket] and all(line.strip() for line in plan.reasons[bucket])
        assert [job_id for job_id in ids if job_id in started] == ids[: sum(job_id in started for job_id in ids)]
    for name in cluster.hosts:
        free = cluster.ledger.host(name).free_slots
        assert free is None or free >= 0
    # What waits now waits still: a cycle leaves nothing that it could have placed.
    waiting = {bucket: [i for i in ids if i not in started] for bucket, ids in cluster.pending.items()}
    used: dict[str, Any] = {"queue_slots": {}, "queue_user_slots": {}}
    by_host: dict[str, dict[str, dict[str, int]]] = {name: {"queue": {}, "user": {}} for name in cluster.hosts}
    for bucket, ids in cluster.pending.items():
        for job_id in ids:
            if job_id in started:
                slots = bucket.requirement.slots
                for table, key in (
                    (used["queue_slots"], bucket.queue),
                    (used["queue_user_slots"], (bucket.queue, bucket.user)),
                    (by_host[started[job_id]]["queue"], bucket.queue),
                    (by_host[started[job_id]]["user"], bucket.user),
                ):
                    table[key] = table.get(key, 0) + slots
    cluster.hosts = {
        name: HostSnapshot(
            name, each.values, each.closed, by_host[name]["queue"], by_host[name]["user"], each.user_limit
        )
        for name, each in cluster.hosts.items()
    }
    cluster.options |= used
    cluster.pending = {bucket: ids for bucket, ids in waiting.items() if ids}
    assert cluster.plan().placements == ()
