"""Placement that does not fragment GPUs: which node, and which of its GPUs, a task takes so that the most room stays.

The rule. Every node is worth the room that it still has for the tasks one has to expect (`Mix`); a task goes where it
takes the least of that worth. The room of a node for a kind of task is the amount of GPU such tasks could use there:
GPUs with enough left, in whole multiples of what one task asks, and no more than the node's CPU and memory can feed.
Kinds for which little room is left in the whole cluster weigh more, so the last empty nodes, the rare GPU models and
the CPUs of nodes with few of them are spent last. `FragmentationGradient` and `BestFit` are peers for comparison.

`Packer` keeps, for each kind of task, every node's loss, and looks again only at nodes that changed.

This module is pure: no I/O, no clock, no randomness; equal calls in an equal order give equal answers. It must never
choose a node or GPU on which the task does not fit, and never refuse a task that fits somewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

WHOLE = 1000
"""A whole GPU in thousandths: shares and what is free of a GPU are counted in these."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Shape:
    """What one task asks of one node. CPU in thousandths, memory in MiB, `share` in thousandths of a GPU.

    `gpus` 0 asks for none; 1 with a share below 1000 for a part of one GPU; otherwise whole GPUs of one node.
    An empty `models` takes any GPU model. Raises ValueError for what no task can mean.
    """

    cpu: int
    memory: int
    gpus: int = 0
    share: int = WHOLE
    models: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if min(self.cpu, self.memory, self.gpus) < 0:
            raise ValueError(f"a task cannot ask for less than nothing: {self}")
        if self.gpus and not 0 < self.share <= WHOLE:
            raise ValueError(f"a share lies between 1 and {WHOLE} thousandths of a GPU: {self}")
        if self.gpus > 1 and self.share != WHOLE:
            raise ValueError(f"several GPUs are whole GPUs: {self}")

    @property
    def asked(self) -> int:
        """Thousandths of a GPU, over all GPUs."""
        return self.gpus * self.share


@dataclass(frozen=True, slots=True)
class Node:
    """What is free on one node: CPU in thousandths, memory in MiB, thousandths of each GPU (1000: nobody is on it)."""

    cpu: int
    memory: int
    model: str
    free: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """A node by its position in the list that the packer was given, and the GPUs taken there, ascending."""

    node: int
    gpus: tuple[int, ...]


class Mix:
    """The tasks one has to expect: shapes that ask for GPUs and how often each comes (the weights' sum is 1).

    Tasks without GPUs are no part of it: they are placed by what they take from those that have some.
    """

    def __init__(self, often: Mapping[Shape, float]) -> None:
        """`often`: any positive measure, counts for instance; an empty mix makes every node worth nothing."""
        asking = {shape: weight for shape, weight in often.items() if shape.gpus and weight > 0}
        total = sum(asking.values())
        # The most frequent first, ties by the shape itself: the order of the mapping must not matter.
        self.shapes = tuple(sorted(asking, key=lambda shape: (-asking[shape], _key(shape))))
        self.weights: Floats = np.array([asking[shape] / total for shape in self.shapes], np.float64)

    @classmethod
    def of(cls, tasks: Iterable[Shape]) -> Mix:
        """From a list of tasks, each as often as it stands there."""
        often: dict[Shape, float] = {}
        for task in tasks:
            often[task] = often.get(task, 0) + 1
        return cls(often)


def _key(shape: Shape) -> tuple[int, int, int, int, tuple[str, ...]]:
    return shape.gpus, shape.share, shape.cpu, shape.memory, tuple(sorted(shape.models))


class Columns:
    """The free resources of all nodes as columns. A node with fewer GPUs than the widest has GPUs with nothing free."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        width = max((len(node.free) for node in nodes), default=0) or 1
        self.cpu: Ints = np.array([node.cpu for node in nodes], np.int64)
        self.memory: Ints = np.array([node.memory for node in nodes], np.int64)
        self.models = tuple(sorted({node.model for node in nodes}))
        self.model: Ints = np.array([self.models.index(node.model) for node in nodes], np.int64)
        self.gpus: Ints = np.zeros((len(nodes), width), np.int64)
        for row, node in enumerate(nodes):
            self.gpus[row, : len(node.free)] = node.free

    def __len__(self) -> int:
        return len(self.cpu)

    def rows(self, rows: Ints) -> States:
        """The states of some nodes, copied."""
        return States(self.cpu[rows], self.memory[rows], self.model[rows], self.gpus[rows])


@dataclass(frozen=True, slots=True)
class States:
    """States of nodes, one per row: as they are, or as they would be after a placement."""

    cpu: Ints
    memory: Ints
    model: Ints
    gpus: Ints


class Scorer(Protocol):
    """How much a placement costs. The packer takes the least; equal costs go to the first node, then the first GPU."""

    refresh_after: int
    """After how many changes `prepare` is wanted anew; 0: never."""

    def prepare(self, columns: Columns) -> None:
        """Look at the whole cluster; called once before the first cost is asked for, and for each refresh."""

    def worth(self, states: States) -> Floats:
        """What the states are worth."""

    def cost(self, worth: Floats, after: States, left: Ints) -> Floats:
        """What it costs to come from `worth` to the states `after`; `left`: what stays of the GPU that is shared."""


class BestFit:
    """The peer: the node with the least CPU and GPU left, each as a part of the largest node's."""

    refresh_after = 0

    def prepare(self, columns: Columns) -> None:
        """Only the sizes count, and they are taken from the first look."""
        if not hasattr(self, "_cpu"):
            self._cpu = max(int(columns.cpu.max(initial=0)), 1)
            self._gpu = columns.gpus.shape[1] * WHOLE

    def worth(self, states: States) -> Floats:
        """Nothing: the state before does not count."""
        return np.zeros(len(states.cpu))

    def cost(self, worth: Floats, after: States, left: Ints) -> Floats:
        """What would be left; among a node's GPUs the one with the least left."""
        cost: Floats = after.cpu / self._cpu + after.gpus.sum(axis=1) / self._gpu + 1e-9 * left
        return cost


class _Room:
    """The mix as columns, and how much GPU each of its kinds could use in each of many states."""

    def __init__(self, mix: Mix) -> None:
        self._mix = mix
        shapes = mix.shapes
        self._cpu: Ints = np.array([shape.cpu for shape in shapes], np.int64)
        self._memory: Ints = np.array([shape.memory for shape in shapes], np.int64)
        self._gpus: Ints = np.array([shape.gpus for shape in shapes], np.int64)
        self._asked: Floats = np.array([shape.asked for shape in shapes], np.float64) / WHOLE
        shares, self._level = np.unique(np.array([shape.share for shape in shapes], np.int64), return_inverse=True)
        free = np.arange(WHOLE + 1)[:, None]
        # usable[free, level]: what a task of that share can use of a GPU with so much free.
        self._usable: Floats = np.where(free >= shares[None, :], free, 0) / WHOLE
        self._several = np.nonzero(self._gpus > 1)[0]
        self._permitted: Bools = np.zeros((0, len(shapes)), np.bool_)

    def look(self, columns: Columns) -> None:
        """Which kinds each GPU model may hold."""
        shapes = self._mix.shapes
        allowed = [[not shape.models or model in shape.models for shape in shapes] for model in columns.models]
        self._permitted = np.array(allowed, np.bool_).reshape(len(columns.models), len(shapes))

    def by_gpus(self, gpus: Ints) -> Floats:
        """What the GPUs alone would give each kind, in whole multiples of what one task asks."""
        room: Floats = self._usable[gpus].sum(axis=1)[:, self._level]
        if len(self._several):
            free = (gpus >= WHOLE).sum(axis=1)[:, None]
            asks = self._gpus[self._several]
            room[:, self._several] = free // asks * asks
        return room

    def feed(self, states: States) -> Floats:
        """How many tasks of each kind CPU and memory could feed; 0 on a model that the kind may not use."""
        by_cpu = states.cpu[:, None] / np.maximum(self._cpu, 1)
        by_memory = states.memory[:, None] / np.maximum(self._memory, 1)
        fed = np.minimum(by_cpu, by_memory)
        fed[(fed < 1) | ~self._permitted[states.model]] = 0
        return fed


class FragmentationGradient(_Room):
    """The peer: the least increase of expected fragmentation, after "Beware of Fragmentation" (USENIX ATC 2023).

    A node's fragmentation for a kind is all of its free GPU where such a task does not fit, and otherwise the GPUs too
    small for it. As the free GPU is the same for all, that is the same as losing the least of what remains usable.
    """

    refresh_after = 0

    def prepare(self, columns: Columns) -> None:
        """Which kinds each GPU model may hold."""
        self.look(columns)

    def worth(self, states: States) -> Floats:
        """The expected usable GPU."""
        usable: Floats = self._usable[states.gpus].sum(axis=1)[:, self._level]
        short = (states.gpus >= WHOLE).sum(axis=1)[:, None] < np.where(self._asked >= 1, self._gpus, 0)
        usable[short | (self.feed(states) == 0)] = 0
        worth: Floats = usable @ self._mix.weights
        return worth

    def cost(self, worth: Floats, after: States, left: Ints) -> Floats:
        """The usable GPU that is lost."""
        return worth - self.worth(after)


class ScarceRoom(_Room):
    """The rule of this module's head: lose the least room, and count room that is scarce in the cluster for more."""

    refresh_after = 500

    FEED = 2.0
    """A node is not filled by one kind alone: where one is heavy on CPU, lighter ones lie beside it. So CPU and memory
    are taken to feed twice as many tasks of a kind as they would if it were alone."""
    SCARCITY = 2.0
    """How the weight of a kind falls with the room there is for it in the cluster (the exponent)."""
    TIE = 1e-4
    """What is left over on the node decides between placements that lose (almost) the same room."""

    def __init__(self, mix: Mix) -> None:
        super().__init__(mix)
        self._weights: Floats = mix.weights
        self._largest = (1, 1)

    def prepare(self, columns: Columns) -> None:
        """Weigh each kind by how often it comes and how little room there is left for it."""
        self.look(columns)
        self._largest = max(int(columns.cpu.max(initial=0)), self._largest[0]), columns.gpus.shape[1] * WHOLE
        if not len(columns) or not self._mix.shapes:
            return
        room = self._rooms(columns.rows(np.arange(len(columns)))).sum(axis=0)
        weights = self._mix.weights / (room + 1.0) ** self.SCARCITY
        self._weights = weights / weights.sum()

    def worth(self, states: States) -> Floats:
        """The room, weighed."""
        worth: Floats = self._rooms(states) @ self._weights
        return worth

    def cost(self, worth: Floats, after: States, left: Ints) -> Floats:
        """The room that is lost, and a trifle for what is left over."""
        leftover = after.cpu / self._largest[0] + after.gpus.sum(axis=1) / self._largest[1]
        return worth - self.worth(after) + self.TIE * leftover

    def _rooms(self, states: States) -> Floats:
        rooms: Floats = np.minimum(self.by_gpus(states.gpus), self.feed(states) * (self.FEED * self._asked))
        return rooms


class _Costs:
    """One shape's cost on every node, the GPU it would share there, and up to which change they are known."""

    __slots__ = ("cost", "gpu", "permitted", "seen")

    def __init__(self, shape: Shape, columns: Columns) -> None:
        self.cost: Floats = np.full(len(columns), np.inf)
        self.gpu: Ints = np.zeros(len(columns), np.int64)
        by_model = [not shape.models or model in shape.models for model in columns.models]
        self.permitted: Bools = np.array(by_model, np.bool_)[columns.model]
        self.seen: int | None = None


class Packer:
    """The nodes' free resources and, on demand, the best place for a task. It belongs to one thread."""

    def __init__(self, nodes: Sequence[Node], scorer: Scorer) -> None:
        self.columns = Columns(nodes)
        self._scorer = scorer
        self._costs: dict[Shape, _Costs] = {}
        self._changed: list[int] = []
        self._refresh()

    def choose(self, shape: Shape, allowed: Bools | None = None) -> Placement | None:
        """The best place, or None where it fits no node. `allowed`: one flag per node, others are not looked at."""
        costs = self._known(shape)
        cost = costs.cost if allowed is None else np.where(allowed, costs.cost, np.inf)
        if not len(cost):
            return None
        node = int(np.argmin(cost))
        if cost[node] == np.inf:
            return None
        if shape.gpus and shape.share < WHOLE:
            return Placement(node, (int(costs.gpu[node]),))
        free = np.nonzero(self.columns.gpus[node] >= WHOLE)[0][: shape.gpus]
        return Placement(node, tuple(free.tolist()))

    def take(self, shape: Shape, placement: Placement) -> None:
        """The task is there now. Raises ValueError when it does not fit."""
        node, gpus = placement.node, list(placement.gpus)
        columns = self.columns
        enough = columns.cpu[node] >= shape.cpu and columns.memory[node] >= shape.memory
        if not enough or len(gpus) != shape.gpus or (columns.gpus[node, gpus] < shape.share).any():
            raise ValueError(f"{shape} does not fit {placement}")
        self._move(shape, placement, 1)

    def give(self, shape: Shape, placement: Placement) -> None:
        """The task is gone."""
        self._move(shape, placement, -1)

    def put(self, node: int, cpu: int, memory: int, free: Sequence[int]) -> None:
        """What is free on a node is this now (units as in `Node`; its GPU model and their number stay)."""
        self.columns.cpu[node], self.columns.memory[node] = cpu, memory
        self.columns.gpus[node, : len(free)] = free
        self._note(node)

    def _move(self, shape: Shape, placement: Placement, sign: int) -> None:
        node = placement.node
        self.columns.cpu[node] -= sign * shape.cpu
        self.columns.memory[node] -= sign * shape.memory
        self.columns.gpus[node, list(placement.gpus)] -= sign * shape.share
        self._note(node)

    def _note(self, node: int) -> None:
        self._changed.append(node)
        if self._scorer.refresh_after and len(self._changed) >= self._scorer.refresh_after:
            self._refresh()
        else:
            row = np.array([node])
            self._worth[row] = self._scorer.worth(self.columns.rows(row))

    def _refresh(self) -> None:
        """All is looked at anew: what is scarce has changed."""
        self._scorer.prepare(self.columns)
        self._worth = self._scorer.worth(self.columns.rows(np.arange(len(self.columns))))
        self._changed.clear()
        for costs in self._costs.values():
            costs.seen = None

    def _known(self, shape: Shape) -> _Costs:
        """The shape's costs, brought up to date."""
        costs = self._costs.get(shape)
        if costs is None:
            costs = self._costs[shape] = _Costs(shape, self.columns)
        if costs.seen is None:
            stale = np.nonzero(costs.permitted)[0]
        else:
            stale = np.array(sorted(set(self._changed[costs.seen :])), np.int64)
            stale = stale[costs.permitted[stale]]
        costs.seen = len(self._changed)
        if len(stale):
            self._score(shape, costs, stale)
        return costs

    def _score(self, shape: Shape, costs: _Costs, nodes: Ints) -> None:
        """The costs on some nodes; infinite where it does not fit."""
        costs.cost[nodes] = np.inf
        before = self.columns.rows(nodes)
        fits = (before.cpu >= shape.cpu) & (before.memory >= shape.memory)
        if shape.gpus:
            fits &= (before.gpus >= shape.share).sum(axis=1) >= shape.gpus
        nodes = nodes[fits]
        if not len(nodes):
            return
        rows, gpus, left = _options(shape, before.gpus[fits])
        node = nodes[rows]
        columns = self.columns
        after = States(columns.cpu[node] - shape.cpu, columns.memory[node] - shape.memory, columns.model[node], gpus)
        cost = self._scorer.cost(self._worth[node], after, gpus[np.arange(len(rows)), left])
        # The best option of each node: by node, then cost, then GPU (the sort is stable, options ascend by GPU).
        best = np.lexsort((cost, rows))
        best = best[np.r_[True, rows[best][1:] != rows[best][:-1]]]
        costs.cost[node[best]] = cost[best]
        costs.gpu[node[best]] = left[best]


def _options(shape: Shape, gpus: Ints) -> tuple[Ints, Ints, Ints]:
    """The ways to lay the shape on nodes on which it fits: the node's row, its GPUs afterwards, the GPU that is shared.

    Whole GPUs are alike: there is one way. A share has one for each different amount that is free.
    """
    every = np.arange(len(gpus))
    if not shape.gpus:
        return every, gpus, np.zeros(len(gpus), np.int64)
    if shape.share == WHOLE:
        free = gpus >= WHOLE
        taken = free & (free.cumsum(axis=1) <= shape.gpus)
        return every, gpus - WHOLE * taken, taken.argmax(axis=1)
    wide = gpus >= shape.share
    for column in range(1, gpus.shape[1]):
        wide[:, column] &= ~(gpus[:, :column] == gpus[:, column : column + 1]).any(axis=1)
    rows, shared = np.nonzero(wide)
    after = gpus[rows]
    after[np.arange(len(rows)), shared] -= shape.share
    return rows, after, shared
