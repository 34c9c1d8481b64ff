"""Parts of a compound that could use the same hosts: where brute force finds a place for them, so does a cycle."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placing_cluster import NOW, Cluster, host, kind, places, spreads

from gsched.model.hosts.host import ComputeMode, Gpu
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Running
from gsched.policy.backfill.reserved_start import ReservedStart
from gsched.policy.match.host_fit import TaskFits
from gsched.policy.match.host_now import FitRules
from gsched.policy.requirement.demand_reader import demand_of
from gsched.policy.several_hosts.compound import MOST_TRIED, CompoundPart, HostTry, Tries, TriesOfCycle, deal
from tests.support.property_examples import examples

_HARD = (186, 1083, 1319, 1526, 1529, 1546, 1560, 1594, 1616, 1824, 1855, 2042, 2188, 2292, 2642, 2645, 2907)
"""Seeds of worlds where no order of turns finds the place that there is."""


class Box(NamedTuple):
    """A host: free slots, its number, devices of each of two models."""

    slots: int
    number: int
    old: int
    new: int


class Piece(NamedTuple):
    """A part: tasks; hosts by number, devices for each task and of which model, how they spread."""

    tasks: int
    hosts: tuple[int, ...]
    gpus: int = 0
    model: str = ""
    span: str = ""

    @property
    def text(self) -> str:
        select = "||".join(f"number=={each}" for each in self.hosts)
        model = f":gmodel={self.model}" if self.model else ""
        rusage = f" rusage[ngpus_physical={self.gpus}/task{model}]" if self.gpus else ""
        return f"{self.tasks}*{{select[{select}]{rusage}{' span[' + self.span + ']' if self.span else ''}}}"


def cluster_of(boxes: list[Box]) -> Cluster:
    cluster = Cluster(*[host(f"h{box.number}", values={"number": float(box.number)}) for box in boxes])
    for box in boxes:
        name = f"h{box.number}"
        cluster.ledger.host(name).max_slots = box.slots
        models = ["Old"] * box.old + ["New"] * box.new
        devices = [
            Gpu(uuid=f"{name}-{i}", index=i, mode=ComputeMode.DEFAULT, model=model) for i, model in enumerate(models)
        ]
        cluster.gpus(name, *devices)
    return cluster


def holds(box: Box, pieces: list[Piece], tasks: tuple[int, ...]) -> bool:
    wanted = {"": 0, "Old": 0, "New": 0}
    for piece, each in zip(pieces, tasks, strict=True):
        if each and box.number not in piece.hosts:
            return False
        wanted[piece.model] += piece.gpus * each
    fits = wanted["Old"] <= box.old and wanted["New"] <= box.new
    return fits and sum(wanted.values()) <= box.old + box.new and sum(tasks) <= box.slots


def ways(piece: Piece, count: int) -> Iterator[tuple[int, ...]]:
    """The ways to have its tasks on so many hosts."""
    for dealt in product(range(piece.tasks + 1), repeat=count):
        if sum(dealt) != piece.tasks:
            continue
        if piece.span == "hosts=1" and max(dealt) < piece.tasks:
            continue
        if piece.span == "ptile=2" and (max(dealt) > 2 or sum(each == 1 for each in dealt) > piece.tasks % 2):
            continue
        yield dealt


def has_place(boxes: list[Box], pieces: list[Piece], dealt: tuple[tuple[int, ...], ...] = ()) -> bool:
    """By brute force."""
    none = ((0,) * len(boxes),) * (len(pieces) - len(dealt))
    for box, *tasks in zip(boxes, *dealt, *none, strict=True):
        if not holds(box, pieces, tuple(tasks)):
            return False
    if len(dealt) == len(pieces):
        return True
    return any(has_place(boxes, pieces, (*dealt, each)) for each in ways(pieces[len(dealt)], len(boxes)))


def world(seed: int) -> tuple[list[Box], list[Piece]]:
    """Few slots, each host for some of the parts only: which part has its turn first matters."""
    chance = random.Random(seed)
    count = chance.randint(3, 6)
    boxes = [
        Box(chance.choice((1, 1, 2, 3)), number, chance.randint(0, 2), chance.randint(0, 2)) for number in range(count)
    ]
    pieces = []
    for _ in range(chance.choice((2, 3, 3, 4))):
        hosts = tuple(sorted(chance.sample(range(count), chance.randint(1, count))))
        gpus = chance.choice((0, 0, 1, 2))
        model = chance.choice(("", "", "Old", "New")) if gpus else ""
        span = chance.choice(("", "", "", "ptile=2", "hosts=1"))
        pieces.append(Piece(chance.choice((1, 1, 2, 3)), hosts, gpus, model, span))
    return boxes, pieces


def check(seed: int) -> bool:
    """Whether there was a place; asserts that a cycle finds one exactly then."""
    boxes, pieces = world(seed)
    cluster = cluster_of(boxes)
    (job,) = cluster.add(kind(" + ".join(piece.text for piece in pieces), slots=sum(piece.tasks for piece in pieces)))
    plan = cluster.plan()
    assert (job in places(plan)) == has_place(boxes, pieces), (seed, boxes, [piece.text for piece in pieces])
    cluster.carry_out(plan)
    return bool(plan.placements)


def test_parts_have_a_place_where_no_order_of_turns_finds_it() -> None:
    """Either of the last two parts would take all of host 2 or leave it to the first, which can be anywhere."""
    boxes = [Box(1, 0, 0, 0), Box(1, 1, 0, 0), Box(3, 2, 0, 0), Box(2, 3, 0, 0)]
    pieces = [Piece(2, (0, 1, 2, 3)), Piece(1, (2,)), Piece(3, (1, 2))]
    cluster = cluster_of(boxes)
    (job,) = cluster.add(kind(" + ".join(piece.text for piece in pieces), slots=6))
    found = spreads(cluster.plan())[job]
    assert (found["h1"], found["h2"], found.get("h0", 0) + found.get("h3", 0)) == (1, 3, 2)


def test_a_cycle_finds_a_place_exactly_where_there_is_one() -> None:
    found = sum(check(seed) for seed in [*range(150), *_HARD])
    assert 30 < found < 140


def test_a_plan_finds_such_a_place_when_it_gets_free() -> None:
    """The ledgers of later times are asked by another trial."""
    boxes = [Box(1, 0, 0, 0), Box(1, 1, 0, 0), Box(4, 2, 0, 0), Box(2, 3, 0, 0)]
    cluster = cluster_of(boxes)
    last = kind(slots=1, run_s=50.0)
    part = HostAllocation(host="h2", slots=2, gpus=())
    cluster.ledger.take((900, 1), Allocation(hosts=(part,)))
    cluster.running[900] = Running(900, 1, last, Allocation(hosts=(part,)), "RUN", NOW, NOW + 50.0)
    pieces = [Piece(2, (0, 1, 2, 3)), Piece(2, (2,)), Piece(3, (1, 2))]
    (job,) = cluster.add(kind(" + ".join(piece.text for piece in pieces), slots=7))
    plan = cluster.plan()
    assert not plan.placements and plan.planned[job].at == NOW + 50.0


def test_the_first_host_of_a_compound_and_what_is_reserved_once_there() -> None:
    """The first part must begin on host 1 and leave the second one of its two slots, whoever comes first."""
    boxes = [Box(1, 0, 0, 0), Box(2, 1, 0, 0), Box(1, 2, 0, 0), Box(2, 3, 0, 0)]
    cluster = cluster_of(boxes)
    text = "2*{rusage[mem=1000/job]} + 2*{select[number==1||number==2]} + 2*{select[number==1||number==3]}"
    asked = kind(text, slots=6, first_hosts=("h1",))
    (job,) = cluster.add(asked)
    (placed,) = cluster.plan().placements
    assert placed.job_id == job and placed.allocation.first_host == "h1"
    assert placed.allocation.hosts[0].amounts == {"mem": 1000.0}


def test_parts_of_a_job_that_wants_its_hosts_alone_may_share_them() -> None:
    cluster = cluster_of([Box(2, 0, 0, 0), Box(2, 1, 0, 0)])
    (job,) = cluster.add(kind("1*{select[number<2]} + 3*{select[number<3]}", slots=4, exclusive=True))
    (placed,) = cluster.plan().placements
    assert spreads(cluster.plan()) == {job: {"h0": 2, "h1": 2}}
    assert all(part.exclusive for part in placed.allocation.hosts)
    cluster.carry_out(cluster.plan())


@pytest.mark.parametrize("others", [1, 8])
def test_parts_never_share_a_device_with_each_other(others: int) -> None:
    """Each asks for devices of its own, though other jobs could share them: now, and where a start is planned."""
    cluster = Cluster(host("a")).devices("a", 3, ComputeMode.DEFAULT, shared_jobs=4)
    held = Allocation(hosts=(HostAllocation(host="a", slots=others, gpus=()),))
    cluster.ledger.take((900, 1), held)
    cluster.running[900] = Running(900, 1, kind(), held, "RUN", NOW, NOW + 50.0)
    (job,) = cluster.add(kind("1*{rusage[ngpus_shared=1]} + 1*{rusage[ngpus_shared=2]}", slots=2, run_s=9.0))
    plan = cluster.plan()
    if others == 1:
        found: Allocation | None = plan.placements[0].allocation
    else:
        reserved = plan.planned[job]
        assert isinstance(reserved, ReservedStart) and reserved.at == NOW + 50.0
        found = reserved.allocation
    assert found is not None and [gpu.index for gpu in found.hosts[0].gpus] == [0, 1, 2]


@pytest.mark.parametrize("held", [0, 8])
def test_parts_that_a_limit_of_a_host_lets_in_one_by_one_but_not_together_go_elsewhere(held: int) -> None:
    """Now, and where a start is planned: each of the parts would take the one slot that the user may have on a."""
    cluster = Cluster(host("a", user_limit=1), host("b"), queues=[Queue(name="q")])
    if held:
        for name in ("a", "b"):
            part = Allocation(hosts=(HostAllocation(host=name, slots=held, gpus=()),))
            cluster.ledger.take((900 + ord(name), 1), part)
            other = kind(queue="q", user="eve")
            cluster.running[900 + ord(name)] = Running(900 + ord(name), 1, other, part, "RUN", NOW, NOW + 50.0)
    (job,) = cluster.add(kind("1*{select[mem>0]} + 1*{select[mem>0]}", slots=2, run_s=9.0))
    plan = cluster.plan()
    if held:
        reserved = plan.planned[job]
        assert isinstance(reserved, ReservedStart) and reserved.allocation is not None, reserved
        found = reserved.allocation
    else:
        (placed,) = plan.placements
        found = placed.allocation
    assert {part.host: part.slots for part in found.hosts} in ({"a": 1, "b": 1}, {"b": 2})


def test_no_more_is_tried_than_the_bound() -> None:
    boxes = [Box(8, number, 0, 0) for number in range(20)]
    snapshot, room = cluster_of(boxes).snapshot(), {f"h{number}": 8 for number in range(20)}
    pieces = [Piece(50, tuple(range(20))) for _ in range(3)]
    wanted = demand_of(kind(" + ".join(piece.text for piece in pieces), slots=150).requirement, "LINUX")
    terms = wanted.choices[0].terms
    for most, found in ((30, False), (100_000, True)):
        tries = Tries(most)
        there = HostTry(snapshot, TaskFits(FitRules.of(snapshot, NOW)), snapshot.ledger.host, terms, tries)
        dealt = deal([CompoundPart(term, 50, room) for term in terms], there)
        assert (dealt is not None) == found
        assert -30 < tries.left < most, "a set of tasks that was begun is tried to its end"


@given(st.integers(0, 10**9))
@settings(max_examples=examples(20), deadline=None)
def test_a_cycle_finds_a_place_wherever_brute_force_does(seed: int) -> None:
    check(seed)


def test_a_kind_that_is_tried_in_vain_costs_others_nothing() -> None:
    kinds = (kind(f"2*{{rusage[mem={number}]}} + 1*{{select[mem>0]}}", slots=3) for number in (1, 2, 3))
    greedy, modest, third = (demand_of(each.requirement, "LINUX") for each in kinds)
    tries = TriesOfCycle(2 * MOST_TRIED + 10)
    tries.of(greedy).left = -5  # a set of tasks that was begun is tried to its end
    assert tries.of(modest).left == MOST_TRIED and tries.of(greedy).left == -5
    tries.of(modest).left = 0
    assert tries.of(third).left == 5, "all together have a bound as well"
