"""Packing: it never places where a task does not fit, never refuses one that fits, and keeps room for big tasks."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.policy.devices.gpu_packing import Mix, PackedTask, Packer, ScarceRoom, Shape
from gsched.policy.devices.node_states import WHOLE, Node
from tests.support.property_examples import examples

CPU = Shape(cpu=8000, memory=1024)
HALF = Shape(cpu=2000, memory=1024, gpus=1, share=500)
ONE = Shape(cpu=4000, memory=4096, gpus=1)
EIGHT = Shape(cpu=32000, memory=4096, gpus=8)
EVERYDAY = Mix({HALF: 30, ONE: 60, EIGHT: 5, CPU: 20})


def node(gpus: int, *, cpu: int = 64000, memory: int = 262144, model: str = "A100") -> Node:
    return Node(cpu, memory, model, (WHOLE,) * gpus)


def packer_of(*nodes: Node, mix: Mix = EVERYDAY) -> Packer:
    return Packer(nodes, ScarceRoom(mix))


def place(packer: Packer, shape: Shape) -> PackedTask | None:
    placement = packer.choose(shape)
    if placement is not None:
        packer.take(shape, placement)
    return placement


shapes = st.one_of(
    st.builds(Shape, cpu=st.integers(0, 40) | st.just(0), memory=st.integers(0, 40)),
    st.builds(
        Shape,
        cpu=st.integers(0, 40),
        memory=st.integers(0, 40),
        gpus=st.just(1),
        share=st.sampled_from((1, 190, 250, 500, 810, 1000)),
        models=st.frozensets(st.sampled_from("AB"), max_size=2),
    ),
    st.builds(
        Shape,
        cpu=st.integers(0, 40),
        memory=st.integers(0, 40),
        gpus=st.integers(2, 4),
        models=st.frozensets(st.sampled_from("AB"), max_size=1),
    ),
)
nodes_of_two_models = st.lists(
    st.builds(
        Node,
        cpu=st.integers(0, 100),
        memory=st.integers(0, 100),
        model=st.sampled_from("AB"),
        free=st.lists(st.sampled_from((0, 190, 500, 1000)), max_size=4).map(tuple),
    ),
    max_size=5,
)


class PackedNodes:
    """An independent account of what is free, kept the slow way."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = list(nodes)

    def fits(self, shape: Shape, position: int) -> bool:
        node = self.nodes[position]
        wide = sum(part >= shape.share for part in node.free)
        permitted = not shape.models or node.model in shape.models
        enough = node.cpu >= shape.cpu and node.memory >= shape.memory
        return enough and permitted and (not shape.gpus or wide >= shape.gpus)

    def take(self, shape: Shape, placement: PackedTask) -> None:
        node = self.nodes[placement.node]
        free = [part - shape.share * (gpu in placement.gpus) for gpu, part in enumerate(node.free)]
        assert len(placement.gpus) == shape.gpus
        assert all(gpu < len(node.free) for gpu in placement.gpus)
        assert min(free, default=0) >= 0
        self.nodes[placement.node] = replace(
            node, cpu=node.cpu - shape.cpu, memory=node.memory - shape.memory, free=tuple(free)
        )


@settings(max_examples=examples(50), deadline=None)
@given(nodes_of_two_models, st.lists(shapes, min_size=1, max_size=25))
def test_a_task_is_placed_exactly_where_it_fits_and_always_when_it_fits(nodes: list[Node], tasks: list[Shape]) -> None:
    packer, host_ledger = packer_of(*nodes, mix=Mix.of(tasks)), PackedNodes(nodes)
    for task in tasks:
        placement = packer.choose(task)
        fitting = {position for position in range(len(nodes)) if host_ledger.fits(task, position)}
        assert (placement is None) == (not fitting)
        if placement is not None:
            assert placement.node in fitting
            host_ledger.take(task, placement)
            packer.take(task, placement)


@settings(max_examples=examples(17), deadline=None)
@given(nodes_of_two_models, st.lists(shapes, min_size=1, max_size=25))
def test_equal_inputs_give_equal_outputs(nodes: list[Node], tasks: list[Shape]) -> None:
    backwards = {task: float(tasks.count(task)) for task in reversed(tasks)}
    first, second = packer_of(*nodes, mix=Mix.of(tasks)), packer_of(*nodes, mix=Mix(backwards))
    assert [place(first, task) for task in tasks] == [place(second, task) for task in tasks]


@settings(max_examples=examples(17), deadline=None)
@given(nodes_of_two_models, st.lists(shapes, min_size=2, max_size=25))
def test_what_is_remembered_equals_a_fresh_look(nodes: list[Node], tasks: list[Shape]) -> None:
    mix = Mix.of(tasks)
    packer, host_ledger = packer_of(*nodes, mix=mix), PackedNodes(nodes)
    # The weights are those of the first look: a fresh packer on the ledger' state would weigh anew, so put it there.
    for task in tasks:
        fresh = packer_of(*nodes, mix=mix)
        for position, now in enumerate(host_ledger.nodes):
            fresh.put(position, now.cpu, now.memory, now.free)
        placement = packer.choose(task)
        assert placement == fresh.choose(task)
        if placement is not None:
            host_ledger.take(task, placement)
            packer.take(task, placement)


def test_equal_nodes_the_first_is_taken_in_whatever_batches_they_were_looked_at() -> None:
    packer = packer_of(*[node(8)] * 40)
    taken = []
    for _ in range(10):
        taken.append(place(packer, EIGHT))
        place(packer, CPU)  # a change in between, so that the next look is at a few nodes only
    assert taken == [PackedTask(position, tuple(range(8))) for position in range(10)]


def test_a_share_goes_on_a_used_gpu_before_a_fresh_one() -> None:
    packer = packer_of(node(4))
    assert place(packer, HALF) == PackedTask(0, (0,))
    assert place(packer, HALF) == PackedTask(0, (0,))
    assert place(packer, HALF) == PackedTask(0, (1,))


def test_a_share_goes_on_the_node_that_already_has_one() -> None:
    packer = packer_of(node(8), node(8), node(8))
    packer.take(HALF, PackedTask(1, (5,)))
    assert place(packer, HALF) == PackedTask(1, (5,))


def test_single_gpus_are_packed_so_that_a_big_task_still_fits() -> None:
    packer = packer_of(node(8), node(8))
    assert {place(packer, ONE).node for _ in range(8)} == {0}
    assert place(packer, EIGHT) == PackedTask(1, tuple(range(8)))


def test_a_task_without_gpus_goes_where_it_strands_none() -> None:
    packer = packer_of(node(8, cpu=32000), node(0, cpu=32000), node(2, cpu=64000))
    assert place(packer, CPU).node == 1
    full = packer_of(node(8, cpu=32000), node(2, cpu=64000))
    assert place(full, CPU).node == 1


def test_whoever_takes_any_model_leaves_the_rare_one_alone() -> None:
    picky = replace(ONE, models=frozenset({"H100"}))
    packer = packer_of(node(4, model="H100"), node(4), node(4), mix=Mix({ONE: 5, picky: 5}))
    assert [place(packer, ONE).node for _ in range(8)].count(0) == 0
    assert place(packer, ONE).node == 0
    assert place(packer, picky).node == 0


def test_a_model_that_no_node_has_fits_nowhere() -> None:
    assert packer_of(node(4)).choose(replace(ONE, models=frozenset({"B200"}))) is None


def test_only_allowed_nodes_are_taken() -> None:
    packer = packer_of(node(8), node(8), node(8))
    assert packer.choose(ONE, np.array([False, False, True])).node == 2
    assert packer.choose(ONE, np.array([False, False, False])) is None


def test_without_any_history_it_is_best_fit() -> None:
    packer = packer_of(node(8), node(2), node(4), mix=Mix({}))
    assert [place(packer, ONE).node for _ in range(6)] == [1, 1, 2, 2, 2, 2]


def test_a_task_that_is_gone_leaves_the_state_as_it_was() -> None:
    packer = packer_of(node(8), node(8))
    placement = place(packer, EIGHT)
    packer.give(EIGHT, placement)
    assert packer.choose(EIGHT) == placement
    with pytest.raises(ValueError, match="is not on"):
        packer.give(EIGHT, placement)


def test_no_nodes_is_no_place() -> None:
    assert packer_of().choose(ONE) is None


@pytest.mark.parametrize(
    "placement", [PackedTask(0, (0, 0)), PackedTask(0, (0,)), PackedTask(1, (0, 1)), PackedTask(2, (0, 1))]
)
def test_what_does_not_fit_is_not_taken(placement: PackedTask) -> None:
    packer = packer_of(node(4), node(2, cpu=100), Node(64000, 4096, "A100", (1000, 999)))
    with pytest.raises(ValueError, match="does not fit"):
        packer.take(Shape(cpu=1000, memory=1, gpus=2), placement)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Shape(cpu=-1, memory=0),
        lambda: Shape(cpu=0, memory=0, gpus=1, share=0),
        lambda: Shape(cpu=0, memory=0, gpus=1, share=1001),
        lambda: Shape(cpu=0, memory=0, gpus=2, share=500),
        lambda: Node(0, 0, "A100", (1001,)),
        lambda: packer_of(node(2)).put(0, 0, 0, (1000, 1000, 1000)),
    ],
)
def test_nonsense_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError):
        wrong()  # type: ignore[operator]


def test_the_commonest_keeps_big_tasks_that_come_rarely() -> None:
    rare = Shape(cpu=1, memory=1, gpus=1, share=3)
    mix = Mix({ONE: 960, HALF: 25, EIGHT: 10, rare: 5})
    assert mix.commonest(0.97).shapes == (ONE, HALF, EIGHT)
    assert Mix({CPU: 3}).commonest(0.97).shapes == ()


def test_more_gpus_are_in_use_than_with_placement_at_random_when_the_cluster_is_full() -> None:
    chance = random.Random(7)
    tasks = chance.choices([HALF, ONE, EIGHT, CPU, replace(HALF, share=300)], [30, 50, 8, 15, 20], k=400)
    packer = packer_of(*[node(8, cpu=48000)] * 12, *[node(2, cpu=64000)] * 12, mix=Mix.of(tasks))
    careless = packer_of(*[node(8, cpu=48000)] * 12, *[node(2, cpu=64000)] * 12)
    for task in tasks:
        place(packer, task)
        allowed = np.zeros(24, np.bool_)
        for position in chance.sample(range(24), 24):
            allowed[:] = False
            allowed[position] = True
            placement = careless.choose(task, allowed)
            if placement is not None:
                careless.take(task, placement)
                break
    assert packer.columns.gpus.sum() < 0.8 * careless.columns.gpus.sum()
