"""LimitUse: every limit refuses with LSF's text and numbers, reaches as far as it says, and is never exceeded."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placing_cluster import Cluster, kind

from gsched.base.coded_text import sentence
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.ledgers.ledger import Ledger
from gsched.model.queues.limit import Amount, Consumers, Limit
from gsched.model.queues.queue import Queue
from gsched.model.queues.window import Window
from gsched.model.scheduling.snapshot import Bucket, HostSnapshot, RequirementClass, Running, Snapshot
from gsched.model.views.room_view import LimitView
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.limits.limit_counts import LimitCounts, budget_key
from gsched.policy.limits.limit_members import groups_above, limit_of
from gsched.policy.limits.limit_sections import LimitDenial
from tests.support.property_examples import examples

ALL, EACH = Consumers(), Consumers(per=True)
NAMES = ("h1", "h2", "h3")


def shown(denial: LimitDenial | None) -> tuple[str, str, str]:
    """Text, numbers and scope."""
    assert denial is not None
    return sentence(denial.text), sentence(denial.detail), denial.scope


def bucket(user: str = "ann", slots: int = 1, queue: str = "q", text: str = "", gpu: str = "", **more: Any) -> Bucket:
    return Bucket(queue, user, RequirementClass(text, slots, gpu=gpu), **more)


def part(host: str = "h1", slots: int = 1, gpus: int = 0, claim: str = "ngpus", **amounts: float) -> HostAllocation:
    held = tuple(HeldGpu(uuid=f"{host}{index}", index=index, claim=claim) for index in range(gpus))
    return HostAllocation(host=host, slots=slots, gpus=held, amounts=amounts)


def on(*parts: HostAllocation) -> Allocation:
    return Allocation(hosts=parts or (part(),))


def running(*jobs: tuple[Bucket, Allocation]) -> dict[int, Running]:
    return {
        number: Running(number, 1, of, allocation, "RUN", 0.0, math.inf)
        for number, (of, allocation) in enumerate(jobs, start=1)
    }


def use(*queues: Queue, needs: Any = None, **changes: Any) -> LimitUse:
    host = changes.pop("host", {})
    hosts = {name: HostSnapshot(**{"name": name, "values": {}, "ncpus": 4} | host) for name in NAMES}
    queues = queues or (Queue(name="q"),)
    return LimitUse(
        Snapshot(queues={q.name: q for q in queues}, hosts=hosts, ledger=Ledger(), pending={}, **changes), needs
    )


def limit(name: str = "L1", **changes: Any) -> Limit:
    consumers = {
        key: changes.pop(key) for key in ("users", "queues", "hosts", "projects", "applications") if key in changes
    }
    windows = changes.pop("windows", ())
    budget = {key: changes.pop(key) for key in ("gpu_hours", "budget_window_s") if key in changes}
    amounts = {resource: (Amount(float(amount), windows),) for resource, amount in changes.items()}
    return Limit(name=name, amounts=amounts, **consumers, **budget)


def test_without_limits_nothing_is_refused_and_nothing_is_counted() -> None:
    free = use(running=running((bucket(), on())))
    assert free.reason(bucket(slots=10**6)) is None
    assert free.slots_left(bucket()) == free.room(bucket(), "h1") == math.inf
    assert not free.has_host_limits(bucket())
    free.count(bucket(), on())
    assert free.views() == []


# -- queues and users -----------------------------------------------------------------------------------------------


def test_an_inactive_or_vanished_queue_starts_nothing() -> None:
    shut = use(inactive_queues={"q": "The queue is inactivated by its time windows"})
    denial = shut.reason(bucket())
    assert denial is not None and denial.scope == "queue"
    assert sentence(denial.reason.text) == "The queue is inactivated by its time windows"
    assert shut.closed_queues() == {"q"} and shut.slots_left(bucket()) == 0
    gone = use().reason(bucket(queue="gone"))
    assert gone is not None and (sentence(gone.text), gone.scope) == ("The queue gone no longer exists", "queue")


def test_a_queues_slots() -> None:
    some = use(Queue(name="q", job_limit=4), queue_slots={"q": 3})
    assert some.reason(bucket()) is None and some.slots_left(bucket()) == 1
    wide = some.reason(bucket(slots=2))
    assert wide is not None and wide.scope == "class"
    assert shown(wide)[:2] == ("The queue has not enough job slots for the parallel job", "2 wanted, 3 of 4 used")
    some.count(bucket(), on())
    full = some.reason(bucket("bob"))
    assert shown(full) == ("The queue has reached its job slot limit", "4 of 4 used", "queue")
    assert some.closed_queues() == {"q"}


def test_a_users_slots_in_a_queue() -> None:
    some = use(Queue(name="q", user_limit=3), queue_user_slots={("q", "ann"): 2})
    assert some.reason(bucket()) is None
    wide = some.reason(bucket(slots=2))
    assert wide is not None and sentence(wide.text) == "Not enough per-user job slots of the queue for the parallel job"
    some.count(bucket(), on())
    full = some.reason(bucket())
    text = "User has reached the per-user job slot limit of the queue"
    assert shown(full) == (text, "1 wanted, 3 of 3 used by ann", "bucket")
    assert some.reason(bucket("bob", 3)) is None


def test_max_jobs_of_users_their_groups_and_everybody_else() -> None:
    some = use(
        user_limits={"ann": 5, "lab@": 2, "default": 1},
        user_groups={"lab": ("ann", "bob")},
        group_limits={"lab": (("ann", "bob"), 6)},
        running=running((bucket("ann", 4), on(part(slots=4))), (bucket("bob"), on())),
    )
    assert some.reason(bucket("ann")) is None and some.slots_left(bucket("ann")) == 1
    mine = some.reason(bucket("ann", 2))
    assert mine is not None and sentence(mine.text) == "The user has not enough job slots for the parallel job"
    assert some.reason(bucket("bob")) is None
    assert some.slots_left(bucket("eve")) == 1
    some.count(bucket("bob"), on())
    denial = some.reason(bucket("ann"))
    assert shown(denial) == (
        "One of the user's groups has reached its job slot limit",
        "1 wanted, 6 of 6 used by lab",
        "bucket",
    )
    denial = some.reason(bucket("bob"))
    assert denial is not None and sentence(denial.text) == "The user has reached his/her job slot limit"


def test_whose_limit_a_user_has() -> None:
    groups = {"a": ("ann",), "b": ("ann", "bob"), "c": ("all",)}
    rows = {"bob": 9.0, "a@": 3.0, "b@": 2.0, "default": 1.0}
    assert [limit_of(rows, groups, user) for user in ("ann", "bob", "eve")] == [2, 9, 1]
    assert limit_of({"c@": 4.0}, groups, "eve") == 4
    assert limit_of({}, groups, "eve") is None


# -- hosts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "more", "text", "room"),
    [
        ({"host_limit": 3}, {}, "Queue's per-host job slot limit reached", 1),
        ({"processor_limit": 0.6}, {}, "Queue's per-CPU job slot limit reached", 1),
        ({}, {"host": {"user_limit": 3}}, "Host's per-user job slot limit reached", 1),
        ({}, {"processor_limits": {"default": 0.7}}, "User's per-CPU job slot limit reached", 1),
        (
            {},
            {"processor_limits": {"lab": 1.0}, "user_groups": {"lab": ("ann", "bob")}},
            "User group's per-CPU job slot limit reached",
            2,
        ),
    ],
)
def test_limits_of_one_host(queue: dict[str, Any], more: dict[str, Any], text: str, room: int) -> None:
    held = running((bucket(slots=2), on(part(slots=2))))
    some = use(Queue(name="q", **queue), running=held, **more)
    assert some.has_host_limits(bucket())
    assert some.room(bucket(), "h1") == room and some.room(bucket(), "h2") >= 3
    assert some.host_reason(bucket(), "h1", part(slots=room)) is None
    denial = some.host_reason(bucket(), "h1", part(slots=room + 1))
    assert (
        denial is not None
        and sentence(denial.text) == text
        and f"{room + 1} wanted, 2 of {room + 2} used" in sentence(denial.detail)
    )
    some.count(bucket(), on(part(slots=room)))
    assert some.room(bucket(), "h1") == 0


def test_a_host_of_one_users_agent_has_room_for_that_user() -> None:
    some = use(Queue(name="q"), host={"only_user": "ann"})
    others = bucket(user="bob")
    assert some.has_host_limits(others)
    assert some.room(bucket(), "h1") > 0 and some.host_reason(bucket(), "h1", part()) is None
    assert some.room(others, "h1") == 0
    denial = some.host_reason(others, "h1", part())
    assert denial is not None and sentence(denial.text) == "Agent runs only jobs of user ann"


# -- sections of lsb.resources --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("consumers", "where", "scope"),
    [
        ({}, "cluster-wide", "queue"),
        ({"queues": Consumers(("q",))}, "on queue", "queue"),
        ({"users": Consumers(("ann",))}, "on user or user group", "bucket"),
        ({"users": EACH}, "on user or user group", "bucket"),
        ({"projects": EACH, "queues": ALL}, "on queue", "bucket"),
        ({"projects": ALL}, "on project", "bucket"),
    ],
)
def test_a_section_refuses_by_name_with_numbers(consumers: dict[str, Any], where: str, scope: str) -> None:
    some = use(limits=(limit(slots=10, **consumers),), running=running((bucket(), on(part(slots=10)))))
    detail = "Resource: slots, Limit Name: L1, Limit Value: 10; 10 used, 1 wanted"
    assert shown(some.reason(bucket())) == (f"Resource limit defined {where} has been reached", detail, scope)
    assert some.slots_left(bucket()) == 0


def test_a_section_that_is_not_full_refuses_only_the_class() -> None:
    denial = use(limits=(limit(slots=3),), running=running((bucket(), on()))).reason(bucket(slots=3))
    assert denial is not None and denial.scope == "class"


def test_each_member_has_his_own_amount_and_the_excluded_none() -> None:
    section = limit(slots=2, users=Consumers(excluded=("root",), per=True), queues=Consumers(("q",)))
    some = use(Queue(name="q"), Queue(name="free"), limits=(section,))
    some.count(bucket("ann", 2), on(part(slots=2)))
    assert some.reason(bucket("ann")) is not None
    assert some.slots_left(bucket("bob")) == 2
    assert some.slots_left(bucket("root")) == some.slots_left(bucket("ann", queue="free")) == math.inf
    assert some.views() == [LimitView(name="L1", user="ann", queue="q", resource="slots", used=2, allowed=2)]


def test_jobs_are_counted_as_jobs() -> None:
    some = use(limits=(limit(jobs=2, projects=Consumers(("p",))),))
    job, wide = bucket(slots=8, project="p"), on(part("h1", 4), part("h2", 4))
    some.count(job, wide)
    assert some.reason(job) is None
    some.count(job, wide)
    denial = some.reason(job)
    assert denial is not None and sentence(denial.text) == "JOBS limit defined on project has been reached"
    assert some.slots_left(job) == 0 and some.slots_left(bucket(project="other")) == math.inf


def test_amounts_are_refused_at_the_place_or_before_when_needs_are_known() -> None:
    section = limit(mem=1000, ngpus=4, users=EACH)
    held = running((bucket(), on(part(gpus=3, mem=700.0))))
    some = use(limits=(section,), running=held)
    assert some.has_host_limits(bucket()) and some.reason(bucket()) is None
    assert some.host_reason(bucket(), "h1", part(gpus=1, mem=300.0)) is None
    gpus = some.host_reason(bucket(), "h1", part(gpus=2))
    assert gpus is not None and sentence(gpus.detail).startswith(
        "Resource: ngpus, Limit Name: L1, Limit Value: 4; 3 used, 2 wa"
    )
    assert some.host_reason(bucket(), "h1", part(mem=300.5)) is not None
    assert some.host_reason(bucket(), "h1", part(slots=64)) is None
    both = on(part("h1", mem=200.0), part("h2", mem=200.0))
    assert all(some.host_reason(bucket(), each.host, each) is None for each in both.hosts)
    assert some.allocation_reason(bucket(), both) is not None
    told = use(limits=(section,), running=held, needs=lambda _: {"ngpus": 2})
    assert told.reason(bucket()) is not None and told.reason(bucket("bob")) is None


def test_a_gpu_counter_is_what_was_claimed_as_it() -> None:
    some = use(limits=(limit(ngpus_shared=1, hosts=EACH),))
    assert some.host_reason(bucket(), "h1", part(gpus=2, claim="ngpus_excl_p")) is None
    assert some.host_reason(bucket(), "h1", part(gpus=2, claim="ngpus_shared")) is not None


def test_a_section_with_hosts_counts_what_is_held_there() -> None:
    section = limit(slots=4, hosts=Consumers(("h1", "h2")))
    some = use(limits=(section,), running=running((bucket(), on(part("h1", 2), part("h3", 50)))))
    assert some.slots_left(bucket()) == math.inf
    assert [some.room(bucket(), host) for host in NAMES] == [2, 2, math.inf]
    denial = some.host_reason(bucket(), "h2", part("h2", 3))
    assert (
        denial is not None
        and sentence(denial.text) == "Resource limit defined on host(s) and/or host group has been reached"
    )
    assert some.allocation_reason(bucket(slots=4), on(part("h1", 2), part("h2", 2))) is not None
    each = use(limits=(limit(slots=4, hosts=EACH),), running=running((bucket(), on(part("h1", 3)))))
    assert [each.room(bucket(), host) for host in NAMES] == [1, 4, 4]


def test_a_section_holds_while_its_window_is_open() -> None:
    day, night = Window(9 * 60, 17 * 60), Window(17 * 60, 9 * 60)
    section = Limit(name="L", amounts={"slots": (Amount(1.0, (day,)), Amount(5.0, (night,)))})
    assert use(limits=(section,), minute_of_week=10 * 60).slots_left(bucket()) == 1
    assert use(limits=(section,), minute_of_week=20 * 60).slots_left(bucket()) == 5
    assert use(limits=(limit(slots=1, windows=(day,)),), minute_of_week=0).slots_left(bucket()) == math.inf


def test_a_budget_of_gpu_hours_refuses_jobs_with_gpus() -> None:
    budget = limit("B", gpu_hours=2.0, budget_window_s=86400.0, users=EACH)
    some = use(limits=(budget,), gpu_seconds={"B/ann": 7200.0, "B/bob": 7199.0})
    assert some.reason(bucket("ann")) is None and some.reason(bucket("ann", text="select[ngpus>0]")) is None
    denial = some.reason(bucket("ann", text="rusage[ngpus_excl_p=1]"))
    assert denial is not None and denial.scope == "bucket"
    assert sentence(denial.detail) == "Resource: gpu_hours, Limit Name: B, Limit Value: 2; 2 used"
    assert some.reason(bucket("ann", gpu="num=1")) is not None and some.reason(bucket("bob", gpu="num=1")) is None
    assert [(row.user, row.used, row.allowed) for row in some.views()] == [("ann", 2, 2), ("bob", 7199 / 3600, 2)]
    told = use(limits=(budget,), gpu_seconds={"B/ann": 7200.0}, needs=lambda _: {"ngpus": 0})
    assert told.reason(bucket("ann", gpu="num=1")) is None


def test_the_name_of_a_budgets_account() -> None:
    assert budget_key(limit("B", queues=ALL), "ann", "q", "p") == "B"
    assert budget_key(limit("B", users=EACH, projects=EACH), "ann", "q", "p") == "B/ann/p"


# -- job groups and arrays ------------------------------------------------------------------------------------------


def test_a_job_counts_in_all_groups_above() -> None:
    assert groups_above("/a/b/c") == ["/a/b/c", "/a/b", "/a", "/"]
    assert groups_above("/") == ["/"]
    some = use(job_group_limits={"/a": 3, "/a/b": 2}, job_group_jobs={"/a": 1})
    low, side = bucket(job_group="/a/b/c"), bucket(job_group="/a/x")
    some.count(low, on())
    assert some.reason(low) is None
    some.count(low, on())
    denial = some.reason(low)
    assert denial is not None and denial.scope == "bucket"
    assert shown(denial)[:2] == ("The specified job group has reached its job limit", "2 of 2 jobs started in /a/b")
    sideways = some.reason(side)
    assert sideways is not None and sentence(sideways.detail) == "3 of 3 jobs started in /a"
    assert some.reason(bucket()) is None and some.reason(bucket(job_group="/z")) is None


def test_an_arrays_slot_limit() -> None:
    some = use(array_limits={7: 2}, array_jobs={7: 1})
    element = bucket(array=7)
    assert some.reason(element) is None
    some.count(element, on())
    text = "The job array has reached its job slot limit"
    assert shown(some.reason(element)) == (text, "2 of 2 elements started", "bucket")
    assert some.reason(bucket(array=8)) is None


def test_a_job_that_grows_is_no_other_job() -> None:
    jobs = limit("jobs", jobs=2, hosts=Consumers(("h1",)))
    some = use(Queue(name="q", job_limit=8), limits=(jobs, limit("slots", slots=7)), array_limits={7: 2})
    grown = bucket(array=7, job_group="/a")
    some.count(grown, on(part(slots=2)))
    some.count_growth(grown, on(part(slots=2)), on(part(slots=5)))
    assert some.reason(grown) is None
    assert some.slots_left(grown) == 2
    assert {view.name: view.used for view in some.views()} == {"jobs": 1, "slots": 5}
    some.count(grown, on(part(slots=1)))
    assert shown(some.reason(grown))[1] == "2 of 2 elements started"


# -- properties -----------------------------------------------------------------------------------------------------

SECTIONS = (
    limit("all", slots=12, jobs=7),
    limit("each", users=EACH, slots=5, mem=900, ngpus=3),
    limit("hosts", hosts=Consumers(("h1", "h2")), slots=6, jobs=4),
    limit("perhost", hosts=EACH, queues=Consumers(("q",)), mem=700, jobs=2),
    limit("project", projects=Consumers(("p",), per=True), users=Consumers(("ann", "bob")), slots=4),
)
OPTIONS: dict[str, Any] = {
    "limits": SECTIONS,
    "user_limits": {"ann": 6, "default": 4},
    "group_limits": {"lab": (("ann", "bob"), 8)},
    "user_groups": {"lab": ("ann", "bob")},
    "processor_limits": {"default": 0.5, "lab": 1.0},
    "job_group_limits": {"/a": 3},
    "array_limits": {7: 2},
    "host": {"user_limit": 3},
}
QUEUES = (Queue(name="q", job_limit=9, user_limit=5, host_limit=4), Queue(name="other", processor_limit=0.75))
wanted_parts = st.lists(
    st.builds(
        part, st.sampled_from(NAMES), st.integers(1, 4), st.integers(0, 2), mem=st.sampled_from([0.1, 100.0, 300.0])
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda each: each.host,
)
wanted = st.tuples(
    st.builds(
        lambda user, queue, project, job_group, array: (user, queue, project, job_group, array),
        st.sampled_from(["ann", "bob", "eve"]),
        st.sampled_from(["q", "other"]),
        st.sampled_from(["", "p"]),
        st.sampled_from(["", "/a/b", "/b"]),
        st.sampled_from([0, 7]),
    ),
    wanted_parts,
)


def exceeded(jobs: list[tuple[Bucket, Allocation]]) -> list[str]:
    """Limits that the jobs together exceed, counted anew and plainly."""
    found: list[str] = []

    def check(name: str, used: float, allowed: float) -> None:
        if used > allowed + 1e-6:
            found.append(f"{name}: {used} of {allowed}")

    def slots(**of: str) -> int:
        return sum(
            each.slots
            for job, allocation in jobs
            for each in allocation.hosts
            if all((each.host if key == "host" else getattr(job, key)) == value for key, value in of.items())
        )

    check("QJOB", slots(queue="q"), 9)
    for user in ("ann", "bob", "eve"):
        check(f"UJOB {user}", slots(queue="q", user=user), 5)
        check(f"MAX_JOBS {user}", slots(user=user), 6 if user == "ann" else 4)
        mine = [each for job, allocation in jobs if job.user == user for each in allocation.hosts]
        check(f"each.slots {user}", sum(each.slots for each in mine), 5)
        check(f"each.mem {user}", sum(each.amounts["mem"] for each in mine), 900)
        check(f"each.ngpus {user}", sum(len(each.gpus) for each in mine), 3)
        if user != "eve":
            check(f"project {user}", slots(user=user, project="p"), 4)
    check("lab", slots(user="ann") + slots(user="bob"), 8)
    check("project", slots(user="ann", project="p") + slots(user="bob", project="p"), 4)
    for host in NAMES:
        check(f"HJOB {host}", slots(queue="q", host=host), 4)
        check(f"PJOB {host}", slots(queue="other", host=host), 3)
        check(f"JL/P lab {host}", slots(user="ann", host=host) + slots(user="bob", host=host), 4)
        for user in ("ann", "bob", "eve"):
            check(f"JL/P {user} {host}", slots(user=user, host=host), 2)
        here = [each for job, all_ in jobs if job.queue == "q" for each in all_.hosts if each.host == host]
        check(f"perhost {host}", len(here), 2)
        check(f"perhost.mem {host}", sum(each.amounts["mem"] for each in here), 700)
    check("all.slots", slots(), 12)
    check("all.jobs", len(jobs), 7)
    on_two = [(each, allocation) for each, allocation in jobs if {p.host for p in allocation.hosts} & {"h1", "h2"}]
    check("hosts.jobs", len(on_two), 4)
    check("hosts.slots", slots(host="h1") + slots(host="h2"), 6)
    check("/a", sum(job.job_group == "/a/b" for job, _ in jobs), 3)
    check("array", sum(job.array == 7 for job, _ in jobs), 2)
    return found


@settings(max_examples=examples(70), deadline=None)
@given(st.lists(wanted, max_size=25), st.integers(0, 25))
def test_no_sequence_of_starts_exceeds_a_limit(each: list[tuple[Any, list[HostAllocation]]], before: int) -> None:
    """The first jobs have been started in earlier cycles, the others in this one."""
    started: list[tuple[Bucket, Allocation]] = []
    cycle = use(*QUEUES, **OPTIONS)
    for number, ((user, queue, project, job_group, array), parts) in enumerate(each):
        if number == before:
            cycle = _next_cycle(started)
        allocation = on(*parts)
        job = bucket(user, allocation.slots, queue, project=project, job_group=job_group, array=array)
        if cycle.reason(job) is not None:
            continue
        assert allocation.slots <= cycle.slots_left(job)
        denial = cycle.allocation_reason(job, allocation)
        if denial is None:
            assert cycle.has_host_limits(job)
            assert all(part.slots <= cycle.room(job, part.host) for part in parts)
            assert all(cycle.host_reason(job, part.host, part) is None for part in parts)
            cycle.count(job, allocation)
            started.append((job, allocation))
            assert exceeded(started) == []
        else:
            assert exceeded([*started, (job, allocation)]) != [], denial


def _next_cycle(started: list[tuple[Bucket, Allocation]]) -> LimitUse:
    queue_slots: dict[str, int] = {}
    owners: dict[tuple[str, str], int] = {}
    for job, allocation in started:
        queue_slots[job.queue] = queue_slots.get(job.queue, 0) + allocation.slots
        owners[job.queue, job.user] = owners.get((job.queue, job.user), 0) + allocation.slots
    return use(
        *QUEUES,
        running=running(*started),
        queue_slots=queue_slots,
        queue_user_slots=owners,
        job_group_jobs={"/a": sum(job.job_group == "/a/b" for job, _ in started)},
        array_jobs={7: sum(job.array == 7 for job, _ in started)},
        **OPTIONS,
    )


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(wanted, max_size=15), st.data())
def test_counts_that_are_kept_equal_counts_made_anew(each: list[Any], data: st.DataObject) -> None:
    jobs = running(
        *((bucket(user, queue=queue, project=project), on(*parts)) for (user, queue, project, _, _), parts in each)
    )
    kept = LimitCounts(SECTIONS)
    for job in jobs.values():
        kept.add(job, 1)
    left = {number: job for number, job in jobs.items() if not data.draw(st.booleans())}
    for number in jobs.keys() - left.keys():
        kept.add(jobs[number], -1)
    anew = LimitCounts(SECTIONS, left.values()).held
    assert (kept.held.user, kept.held.user_host, kept.held.queue_host) == (anew.user, anew.user_host, anew.queue_host)
    for section in SECTIONS:
        ours, theirs = kept.held.section.get(section.name, {}), anew.section.get(section.name, {})
        assert ours.keys() == theirs.keys()
        for member, sums in theirs.items():
            assert ours[member] == pytest.approx(sums)


def test_what_the_core_has_counted_is_believed() -> None:
    counts = LimitCounts(SECTIONS, running((bucket("ann", 5), on(part(slots=5)))).values())
    some = use(limits=SECTIONS, held=counts.held, running={})
    assert some.reason(bucket("ann")) is not None


def test_all_jobs_of_a_queue_that_a_section_stops_hear_of_the_section() -> None:
    """Those too that the cycle never came to, whatever their class, user or place."""
    cluster = Cluster(
        queues=(Queue(name="q"), Queue(name="other")),
        limits=(limit(queues=Consumers(names=("q",)), jobs=2),),
    )
    first = [cluster.add(kind())[0] for _ in range(2)]
    waits = [kind(), kind(user="bob"), kind("rusage[mem=5]"), kind(slots=3, user="bob")]
    for each in waits:
        cluster.add(each)
    (free,) = cluster.add(kind(queue="other"))
    plan = cluster.plan()
    assert {placement.job_id for placement in plan.placements} == {*first, free}
    for each in waits:
        (reason,) = plan.reasons.get(each) or plan.reasons["q", each.requirement]
        assert sentence(reason.text) == "JOBS limit defined on queue has been reached"
        assert sentence(reason.detail) == "Resource: jobs, Limit Name: L1, Limit Value: 2; 2 used, 1 wanted"


def test_slots_for_each_cpu_of_a_host() -> None:
    few = limit(users=EACH, hosts=Consumers(("h1", "h2"), per=True), slots_per_processor=0.6)  # of 4 CPUs: 3 slots
    some = use(limits=(few,), running=running((bucket(), on(part(slots=2)))))
    assert [some.room(bucket(), host) for host in NAMES] == [1, 3, math.inf]
    assert some.room(bucket("bob"), "h1") == 3
    assert some.host_reason(bucket(), "h1", part()) is None
    denial = some.host_reason(bucket(slots=2), "h1", part(slots=2))
    assert (
        denial is not None
        and sentence(denial.text) == "Resource limit defined on host(s) and/or host group has been reached"
    )
    assert sentence(denial.detail) == "Resource: slots_per_processor, Limit Name: L1, Limit Value: 3; 2 used, 2 wanted"
    assert some.views() == [LimitView(name="L1", user="ann", host="h1", resource="slots", used=2, allowed=3)]


def test_a_line_names_those_for_whom_a_limit_is() -> None:
    some = use(
        limits=(
            limit(users=Consumers(excluded=("tom",)), queues=Consumers(("q", "r")), slots=9),
            limit("L2", users=EACH, queues=Consumers(("q",)), slots=3),
            limit("L3", hosts=Consumers(("h1", "h2"), per=True), slots=3),
        ),
        running=running((bucket(), on())),
    )
    assert some.views() == [
        LimitView(name="L1", user="all ~tom", queue="q r", resource="slots", used=1, allowed=9),
        LimitView(name="L2", user="ann", queue="q", resource="slots", used=1, allowed=3),
        LimitView(name="L3", host="h1", resource="slots", used=1, allowed=3),
    ]


def test_a_part_of_the_memory_of_each_host() -> None:
    half = limit(hosts=Consumers(per=True), **{"mem%": 50})
    some = use(limits=(half,), running=running((bucket(), on(part(mem=400)))), host={"values": {"maxmem": 1000.0}})
    assert some.host_reason(bucket(), "h1", part(mem=100)) is None
    assert some.allocation_reason(bucket(), on(part("h2", mem=500), part("h1", mem=100))) is None
    denial = some.host_reason(bucket(), "h1", part(mem=101))
    assert (
        denial is not None
        and sentence(denial.text) == "Resource limit defined on host(s) and/or host group has been reached"
    )
    assert sentence(denial.detail) == "Resource: mem%, Limit Name: L1, Limit Value: 500; 400 used, 101 wanted"
    assert some.views() == [LimitView(name="L1", host="h1", resource="mem", used=400, allowed=500)]
    assert use(limits=(half,)).host_reason(bucket(), "h1", part(mem=1)) is not None


def test_slots_of_application_profiles() -> None:
    each = limit(applications=Consumers(("cfd", "fem"), per=True), slots=2)
    cfd, fem, plain = (bucket(application=name) for name in ("cfd", "fem", ""))
    some = use(limits=(each,), running=running((cfd, on(part(slots=2))), (plain, on(part(slots=4)))))
    denial = some.reason(cfd)
    assert denial is not None and sentence(denial.text) == "Resource limit defined on application has been reached"
    assert denial.scope == "bucket", "another job of the class may have another profile"
    assert some.reason(fem) is some.reason(plain) is some.reason(bucket(application="md")) is None
    assert some.views() == [LimitView(name="L1", application="cfd", resource="slots", used=2, allowed=2)]
    together = use(limits=(limit(applications=ALL, jobs=1),), running=running((cfd, on())))
    assert together.reason(fem) is not None and together.reason(plain) is None


def test_what_nobody_uses_is_told_apart() -> None:
    each = use(
        limits=(
            limit(users=EACH, slots=3),
            limit("L2", users=EACH, gpu_hours=5.0, budget_window_s=60.0),
            limit("L3", slots=4, mem=10),
            limit("L4", users=Consumers(("ann",)), gpu_hours=5.0, budget_window_s=60.0),
        )
    )
    assert each.views() == [
        LimitView(name="L1", resource="slots", allowed=3, idle=True),
        LimitView(name="L3", resource="slots", allowed=4, idle=True),
        LimitView(name="L3", resource="mem", allowed=10, idle=True),
        LimitView(name="L2", resource="gpu_hours", allowed=5, idle=True),
        LimitView(name="L4", user="ann", resource="gpu_hours", allowed=5, idle=True),
    ]
    used = use(limits=(limit(slots=4, mem=10),), running=running((bucket(), on(part(slots=1)))))
    assert [(view.resource, view.idle) for view in used.views()] == [("slots", False), ("mem", True)]
