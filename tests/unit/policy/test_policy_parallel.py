"""Jobs on several hosts: all tasks find a place or none does; span, same, cu, first hosts, compounds, alternatives."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placing_cluster import NOW, Cluster, host, hosts, kind, places, spreads, told

from gsched.base.coded_text import CodedText
from gsched.base.errors import RequirementError
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Bucket, Running
from gsched.policy.backfill.reserved_start import ReservedStart
from gsched.policy.backfill.trial_fit import TrialFit
from gsched.policy.match.host_fit import misfit
from gsched.policy.match.host_now import FitRules
from gsched.policy.requirement.demand_reader import demand_of
from gsched.policy.requirement.reasons import Reason
from gsched.policy.several_hosts.balanced_units import even_shares
from gsched.policy.several_hosts.task_spread import Offer, assemble, dealt_round
from tests.support.property_examples import examples


def test_one_host_that_takes_all_is_preferred_then_few_hosts_and_full_ones() -> None:
    cluster = hosts("a", "b", "c").hold("a", slots=2)
    cluster.add(kind(slots=4))
    cluster.add(kind(slots=6))
    cluster.add(kind())
    assert spreads(cluster.plan()) == {1: {"b": 4}, 2: {"c": 4, "a": 2}}
    assert told(cluster.plan()) == [("Job slot limit reached: 3 hosts (1 wanted, 0 of 4 free on a)",)]


def test_order_decides_which_host_is_filled_first() -> None:
    cluster = Cluster(host("a", values={"mem": 1.0}), host("b", values={"mem": 9.0}), slots=2)
    cluster.add(kind("order[mem]", slots=3))
    assert spreads(cluster.plan()) == {1: {"b": 2, "a": 1}}


def test_span_on_one_host_or_so_many_tasks_on_each() -> None:
    cluster = hosts("a", "b", "c")
    cluster.add(kind("span[hosts=1]", slots=5))
    cluster.add(kind("span[ptile=2]", slots=5))
    plan = cluster.plan()
    assert spreads(plan) == {2: {"a": 2, "b": 2, "c": 1}}
    assert told(plan) == [("Not enough job slot(s): 3 hosts (5 wanted, 2 of 4 free on a)",)]
    cluster.add(kind("span[ptile=4]", slots=16))
    assert told(cluster.plan())[1][0] == (
        "Not enough hosts to meet the job's spanning requirement (16 slots wanted, 7 on 3 hosts could be had)"
    )


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ("span[ptile='!']", {"a": 3, "b": 1}),
        ("span[ptile='!',LINUX:2]", {"a": 2, "b": 2}),
        ("span[ptile=1,LINUX:3]", {"a": 3, "b": 1}),
    ],
)
def test_span_by_the_host(span: str, expected: dict[str, int]) -> None:
    cluster = Cluster(*[host(name, values={"maxslots": 3.0}) for name in "ab"], slots=3)
    cluster.add(kind(span, slots=4))
    assert spreads(cluster.plan()) == {1: expected}


@pytest.mark.parametrize(
    ("text", "slots", "expected"),
    [
        ("span[stripe]", 3, {"a": 1, "b": 1, "c": 1}),
        ("span[stripe]", 5, {"a": 2, "b": 2, "c": 1}),
        ("span[stripe]", 11, {"a": 4, "b": 4, "c": 3}),
        ("span[stripe=2]", 5, {"a": 2, "b": 2, "c": 1}),
        ("span[stripe=1] rusage[mem=600/task]", 2, {"a": 1, "b": 1}),
        ("span[block=2]", 6, {"a": 4, "b": 2}),
        ("span[block=3]", 9, {"a": 3, "b": 3, "c": 3}),
        ("span[block=2]", 4, {"a": 4}),
        ("2*{span[stripe]} + 2*{span[block=2]}", 4, {"a": 3, "b": 1}),
    ],
)
def test_tasks_in_blocks_or_dealt_round_the_hosts(text: str, slots: int, expected: dict[str, int]) -> None:
    cluster = hosts("a", "b", "c")
    cluster.add(kind(text, slots=slots))
    assert spreads(cluster.plan()) == {1: expected}


def test_stripes_go_round_what_is_free() -> None:
    cluster = hosts("a", "b", "c").hold("b", slots=3)
    cluster.add(kind("span[stripe]", slots=7))
    assert spreads(cluster.plan()) == {1: {"a": 3, "c": 3, "b": 1}}
    one = hosts("a")
    one.add(kind("span[stripe]", slots=4))
    assert spreads(one.plan()) == {1: {"a": 4}}
    memory = Cluster(*[host(name, values={"mem": mem}) for name, mem in (("a", 100.0), ("b", 1000.0))], slots=8)
    memory.add(kind("span[stripe] rusage[mem=50/task,swp=0/host]", slots=7))
    assert spreads(memory.plan()) == {1: {"b": 5, "a": 2}}


def test_a_range_in_blocks_or_stripes() -> None:
    cluster = hosts("a", "b").hold("b", slots=3)
    cluster.add(kind("span[block=2]", slots=1, max_slots=9))
    assert spreads(cluster.plan()) == {1: {"a": 4}}
    cluster = hosts("a", "b").hold("b", slots=3)
    cluster.add(kind("span[stripe=3]", slots=2, max_slots=9))
    assert spreads(cluster.plan()) == {1: {"a": 3, "b": 1}}


def test_gpus_of_tasks_in_blocks_and_stripes() -> None:
    cluster = hosts("a", "b", slots=8).devices("a", 3).devices("b", 4)
    cluster.add(kind("span[block=2]", slots=6, gpu="num=1/task:mode=exclusive_process"))
    cluster.add(kind("span[stripe]", slots=1, gpu="num=1/task:mode=exclusive_process"))
    plan = cluster.plan()
    parts = [[(part.host, part.slots, len(part.gpus)) for part in each.allocation.hosts] for each in plan.placements]
    assert parts == [[("b", 4, 4), ("a", 2, 2)], [("a", 1, 1)]]
    striped = hosts("a", "b", slots=8).devices("a", 2).devices("b", 4)
    striped.add(kind("span[stripe]", slots=6, gpu="num=1/task:mode=exclusive_process"))
    assert spreads(striped.plan()) == {1: {"b": 4, "a": 2}}


def test_blocks_and_stripes_that_find_no_room_say_so() -> None:
    cluster = hosts("a", "b")
    cluster.add(kind("span[stripe=2]", slots=5))
    cluster.add(kind("span[block=3]", slots=9))
    said = "Not enough hosts to meet the job's spanning requirement"
    assert [reasons[0] for reasons in told(cluster.plan())] == [
        f"{said} (5 slots wanted, 4 on 2 hosts could be had)",
        f"{said} (9 slots wanted, 6 on 2 hosts could be had)",
    ]
    cluster = hosts("a")
    cluster.add(kind("span[block=3]", slots=4))
    assert "does not make whole blocks of span[block]" in told(cluster.plan())[0][0]


@pytest.mark.parametrize(
    ("text", "slots", "expected"), [("stripe=2", 4, {"a": 2, "b": 2}), ("block=3", 6, {"a": 3, "b": 3})]
)
def test_blocks_and_stripes_are_planned_for(text: str, slots: int, expected: dict[str, int]) -> None:
    cluster = hosts("a", "b", queues=[Queue(name="q", reserve_s=60.0)]).hold("b", slots=3)
    held = Allocation(hosts=(HostAllocation(host="b", slots=3),))
    cluster.running[9000] = Running(9000, 1, kind(), held, "RUN", 0.0, NOW + 100)
    (job,) = cluster.add(kind(f"span[{text}]", slots=slots))
    planned = cluster.plan().planned[job]
    assert isinstance(planned, ReservedStart)
    assert planned.at == NOW + 100
    assert {part.host: part.slots for part in planned.allocation.hosts} == expected


def test_the_first_execution_host_comes_first_in_stripes() -> None:
    cluster = hosts("a", "b", "c")
    cluster.add(kind("span[stripe] rusage[lic=2/job]", slots=4, first_hosts=("c",)))
    for name, each in cluster.hosts.items():
        cluster.hosts[name] = host(name, values={**each.values, "lic": 2.0})
    (placement,) = cluster.plan().placements
    assert [(part.host, part.slots, dict(part.amounts)) for part in placement.allocation.hosts] == [
        ("c", 2, {"lic": 2.0}),
        ("a", 1, {}),
        ("b", 1, {}),
    ]


def test_only_hosts_of_the_listed_models_get_tasks_beside_each_other() -> None:
    models = {"a": "X", "b": "Y", "c": "Z"}
    cluster = Cluster(*[host(name, values={"model": model}) for name, model in models.items()], slots=4)
    cluster.add(kind("span[ptile=X:3,Y:2]", slots=4))
    assert spreads(cluster.plan()) == {1: {"a": 3, "b": 1}}
    alternatives = Cluster(host("c", values={"model": "Z"}))
    alternatives.add(kind("{span[ptile='!',X:3]} || {mem>1}@60"))
    assert spreads(alternatives.plan()) == {1: {"c": 1}}


def test_a_range_of_slots_takes_what_there_is() -> None:
    cluster = hosts("a", "b").hold("b", slots=1)
    cluster.add(kind(slots=2, max_slots=10))
    cluster.add(kind(slots=1, max_slots=2))
    assert spreads(cluster.plan()) == {1: {"a": 4, "b": 3}}
    one = hosts("a", "b").hold("b", slots=1)
    one.add(kind("span[hosts=1]", slots=2, max_slots=10))
    one.add(kind("span[hosts=1]", slots=2, max_slots=3))
    assert {job: sum(parts.values()) for job, parts in spreads(one.plan()).items()} == {1: 2, 2: 3}


def test_a_range_takes_no_more_than_limits_leave() -> None:
    cluster = hosts("a", "b", queues=[Queue(name="q", job_limit=5)])
    cluster.add(kind(slots=2, max_slots=10))
    assert sum(spreads(cluster.plan())[1].values()) == 5
    limited = hosts("a", "b", "c", queues=[Queue(name="q", host_limit=2)])
    limited.add(kind(slots=6))
    limited.add(kind(slots=1))
    assert spreads(limited.plan()) == {1: {"a": 2, "b": 2, "c": 2}}


def test_amounts_per_task_per_host_and_once() -> None:
    cluster = hosts("a", "b")
    cluster.add(kind("rusage[mem=100/task,swp=1/host,lic=7/job] span[ptile=3]", slots=4))
    for name, each in cluster.hosts.items():
        cluster.hosts[name] = host(name, values={**each.values, "swp": 9.0, "lic": 7.0})
    (placement,) = cluster.plan().placements
    assert [(part.host, dict(part.amounts)) for part in placement.allocation.hosts] == [
        ("a", {"mem": 300.0, "swp": 1.0, "lic": 7.0}),
        ("b", {"mem": 100.0, "swp": 1.0}),
    ]
    short = Cluster(*[host(name, values={"mem": 250.0}) for name in "abc"], slots=9)
    short.add(kind("rusage[mem=100/task]", slots=5))
    assert spreads(short.plan()) == {1: {"a": 2, "b": 2, "c": 1}}


def test_gpus_per_host_and_per_task() -> None:
    cluster = hosts("a", "b", slots=8).devices("a").devices("b")
    cluster.add(kind("span[ptile=1]", slots=2, gpu="num=2:mode=exclusive_process"))
    cluster.add(kind(slots=4, gpu="num=1/task:mode=exclusive_process"))
    plan = cluster.plan()
    parts = [each.allocation.hosts for each in plan.placements]
    assert [[(part.host, part.slots, len(part.gpus)) for part in each] for each in parts] == [
        [("a", 1, 2), ("b", 1, 2)],
        [("a", 2, 2), ("b", 2, 2)],
    ]


def test_same_and_compute_units() -> None:
    models = {"a": "X", "b": "Y", "c": "Y", "d": None}
    cluster = Cluster(*[host(name, values={"model": model}) for name, model in models.items()], slots=2)
    cluster.add(kind("same[model]", slots=4))
    assert spreads(cluster.plan()) == {1: {"b": 2, "c": 2}}
    larger = Cluster(*[host(name, values={"model": model}) for name, model in models.items()], slots=2)
    larger.add(kind("same[model]", slots=5))
    plan = larger.plan()
    assert "5 slots wanted, 4 on 2 hosts could be had that agree in model" in told(plan)[0][0]
    assert all(isinstance(reason.detail, CodedText) for reasons in plan.reasons.values() for reason in reasons[:1])
    units = {"rack": {"r1": ("a", "b"), "r2": ("c", "d", "e")}}
    racks = hosts("a", "b", "c", "d", "e", slots=2, compute_units=units)
    racks.add(kind("cu[type=rack:maxcus=1]", slots=5))
    racks.add(kind("cu[type=rack:maxcus=1]", slots=5))
    racks.add(kind("cu[type=rack:pref=minavail]", slots=3))
    plan = racks.plan()
    assert spreads(plan) == {1: {"c": 2, "d": 2, "e": 1}, 3: {"e": 1, "a": 2}}


UNITS = {"rack": {"r1": ("a", "b"), "r2": ("c", "d"), "r3": ("e",)}}


@pytest.mark.parametrize(
    ("text", "slots", "expected"),
    [
        ("cu[balance]", 4, {"a": 2, "b": 2}),
        ("cu[balance]", 6, {"a": 2, "b": 1, "c": 2, "d": 1}),
        ("cu[balance]", 7, {"a": 2, "b": 2, "c": 2, "d": 1}),
        ("cu[balance:maxcus=1]", 5, None),
        ("cu[balance:pref=minavail]", 4, {"c": 2, "d": 2}),
        ("cu[balance:maxcus=2] rusage[mem=500/task] span[stripe]", 4, {"a": 2, "b": 2}),
        ("cu[balance] span[block=2]", 8, {"a": 2, "b": 2, "c": 2, "d": 2}),
        ("cu[balance:usablecuslots=3]", 8, {"a": 2, "b": 2, "c": 2, "d": 2}),
        ("cu[balance] select[hname!=b]", 6, {"a": 2, "c": 2, "e": 2}),
        ("cu[balance]", 9, None),
    ],
)
def test_tasks_evenly_over_compute_units(text: str, slots: int, expected: dict[str, int] | None) -> None:
    cluster = hosts("z", "a", "b", "c", "d", "e", slots=2, compute_units=UNITS)
    if "minavail" in text:
        cluster.hold("b", slots=1)
    cluster.add(kind(text, slots=slots))
    plan = cluster.plan()
    found = spreads(plan).get(1)
    assert found == expected or (expected is None and not plan.placements), (found, told(plan))
    if expected is None:
        assert told(plan)[0][0].startswith("Not enough hosts to meet the job's spanning requirement")


def test_a_job_with_cu_is_never_on_a_host_of_no_unit() -> None:
    cluster = hosts("z", "e", slots=2, compute_units=UNITS)
    cluster.add(kind("cu[type=rack]", slots=2))
    cluster.add(kind("cu[type=rack] span[hosts=1]", slots=2))
    cluster.add(kind("cu[type=rack]"))
    assert spreads(cluster.plan()) == {1: {"e": 2}}


def test_a_range_is_balanced_with_as_many_tasks_as_it_can() -> None:
    cluster = hosts("a", "b", "c", "d", "e", slots=2, compute_units=UNITS).hold("d", slots=1)
    cluster.add(kind("cu[balance] rusage[lic=1/job]", slots=2, max_slots=30, first_hosts=("c",)))
    for name, each in cluster.hosts.items():
        cluster.hosts[name] = host(name, values={**each.values, "lic": 2.0})
    (placement,) = cluster.plan().placements
    parts = placement.allocation.hosts
    assert {part.host: part.slots for part in parts} == {"c": 2, "d": 1, "a": 2, "b": 1, "e": 2}
    assert [part.amounts for part in parts] == [{"lic": 1.0}, {}, {}, {}, {}]


@given(st.lists(st.integers(0, 5), max_size=5), st.integers(1, 12), st.integers(0, 6), st.sampled_from([None, 1, 2]))
def test_even_shares_are_the_most_over_the_fewest_units(
    rooms: list[int], least: int, more: int, max_units: int | None
) -> None:
    room = dict(enumerate(rooms))
    found = even_shares(room, least, least + more, max_units)
    possible = {
        (sum(shares), -len(units))
        for size in range(1, min(len(room), max_units or len(room)) + 1)
        for units in combinations(room, size)
        for low in range(1, 6)
        for shares in product((low, low + 1), repeat=size)
        if all(share <= room[unit] for share, unit in zip(shares, units, strict=True))
        and least <= sum(shares) <= least + more
    }
    if not found:
        assert not possible
        return
    assert (sum(found.values()), -len(found)) == max(possible)
    assert max(found.values()) - min(found.values()) <= 1
    assert all(1 <= share <= room[unit] for unit, share in found.items())


def test_the_first_execution_host_comes_first() -> None:
    cluster = hosts("a", "b", "c", slots=2)
    cluster.add(kind(slots=4, first_hosts=("c",)))
    (placement,) = cluster.plan().placements
    assert placement.allocation.first_host == "c"
    full = hosts("a", "b").hold("b", slots=4)
    full.add(kind(slots=2, first_hosts=("b",)))
    full.add(kind(slots=1, first_hosts=("b",), asked_hosts=("a",)))
    assert told(full.plan())[0][0].startswith("The specified first execution host is not eligible for this job")
    assert places(full.plan()) == {}


# -- properties -------------------------------------------------------------------------------------------------------


@st.composite
def offers(draw: st.DrawFn) -> list[Offer]:
    return [
        Offer(f"h{i}", draw(st.integers(0, 5)), draw(st.sampled_from([None, None, 2])), draw(st.integers(0, 1)))
        for i in range(draw(st.integers(0, 6)))
    ]


@given(offers(), st.integers(1, 9), st.integers(0, 5), st.sampled_from([(), ("h1", "h2")]))
def test_tasks_are_dealt_all_or_none(given_offers: list[Offer], least: int, more: int, firsts: tuple[str, ...]) -> None:
    term = demand_of(kind(slots=least).requirement, "LINUX").choices[0].terms[0]
    room = {offer.host: offer.tasks for offer in given_offers}

    def fill(name: str, tasks: int, is_first: bool) -> HostAllocation | Reason:
        return HostAllocation(host=name, slots=tasks) if tasks <= room[name] else Reason("full")

    found = assemble(term, least, least + more, given_offers, fill, first_hosts=firsts)
    if isinstance(found, Reason):
        groups = {offer.same for offer in given_offers}
        plain = [offer for offer in given_offers if offer.tile is None]
        if plain == given_offers and not firsts:
            assert all(sum(each.tasks for each in plain if each.same == group) < least for group in groups)
        return
    assert least <= sum(part.slots for part in found) <= least + more
    assert all(1 <= part.slots <= room[part.host] for part in found)
    assert len({part.host for part in found}) == len(found)
    assert not firsts or found[0].host in firsts
    assert len({offer.same for offer in given_offers if offer.host in {part.host for part in found}}) == 1


TEXTS = ("", "span[hosts=1]", "span[ptile=2]", "rusage[mem=300/task]", "rusage[ngpus_excl_p=1] span[ptile=1]",
         "same[model]", "1*{rusage[mem=200]} + {rusage[mem=100]}", "span[block=2]", "span[stripe]", "span[stripe=2]",
         "span[stripe] rusage[mem=300/task,ngpus_excl_p=1/task]",
         "span[block=2] rusage[ngpus_excl_p=1/task]", "cu[balance]", "cu[balance:maxcus=2] rusage[mem=300/task]",
         "cu[maxcus=1] span[hosts=1]", "span[ptile=X:2]", "cu[excl]", "cu[excl:maxcus=1] span[ptile=1]")  # fmt: skip


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    names = [f"h{i}" for i in range(draw(st.integers(1, 4)))]
    cluster = Cluster(
        *[
            host(name, values={"mem": draw(st.sampled_from([100.0, 700.0])), "model": draw(st.sampled_from("XY"))})
            for name in names
        ],
        compute_units={"rack": {"r1": ("h0", "h1"), "r2": ("h2",)}},
    )
    for name in names:
        cluster.ledger.host(name).max_slots = draw(st.integers(0, 4))
        cluster.devices(name, draw(st.integers(0, 2)))
        if draw(st.integers(0, 3)) == 0:
            cluster.hold(name, slots=1)
    return cluster


@settings(max_examples=examples(100), deadline=None)
@given(clusters(), st.sampled_from(TEXTS), st.integers(1, 6), st.integers(0, 3))
def test_placing_finds_a_place_just_when_a_trial_does(cluster: Cluster, text: str, slots: int, more: int) -> None:
    bucket: Bucket = kind(text, slots=max(slots, 2) if "+" in text else slots, max_slots=slots + more if more else 0)
    cluster.add(bucket)
    plan = cluster.plan()
    snapshot = cluster.snapshot()
    try:
        demand = demand_of(bucket.requirement, "LINUX")
    except RequirementError:
        assert "block" in text and not plan.placements and all(plan.reasons.values())
        return
    trial = TrialFit(snapshot, FitRules.of(snapshot, NOW))
    found = trial.place(bucket, demand, trial.candidates(bucket, demand), snapshot.ledger.host)
    assert bool(plan.placements) == isinstance(found, Allocation), (told(plan), found)
    for placement in plan.placements:
        assert misfit(cluster.ledger, (1, 1), placement.allocation) == ""
        assert demand.slots <= placement.allocation.slots <= demand.max_slots
        _check_span(text, placement.allocation)
    if isinstance(found, Allocation):
        assert misfit(cluster.ledger, (1, 1), found) == ""
        _check_span(text, found)


def _check_span(text: str, allocation: Allocation) -> None:
    slots = [part.slots for part in allocation.hosts]
    assert "block=2" not in text or not any(each % 2 for each in slots)
    assert "stripe=2" not in text or max(slots) <= 2


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(0, 40))
def test_tasks_are_dealt_as_if_one_by_one(room: list[int], tasks: int) -> None:
    names = {f"h{number}": each for number, each in enumerate(room)}
    given_one_by_one = dict.fromkeys(names, 0)
    left = tasks
    while left and any(given_one_by_one[name] < names[name] for name in names):
        for name in names:
            if left and given_one_by_one[name] < names[name]:
                given_one_by_one[name] += 1
                left -= 1
    assert dealt_round(names, tasks) == {name: number for name, number in given_one_by_one.items() if number}
