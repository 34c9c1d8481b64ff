"""GPU_PLACEMENT = scarce only: placement that does not fragment GPUs: which node, and which of its GPUs, a task takes
so that the most room stays.

The rule. Every node is worth the room that it still has for the tasks one has to expect (`Mix`); a task goes where it
takes the least of that worth. The room of a node for a kind of task is how many such tasks would still fit: what its
GPUs could hold, and no more than its CPU and memory could feed. Kinds for which the cluster has little room left (as an
amount of GPU) weigh more, so the last empty nodes, the rare GPU models and the CPUs of nodes that have few of them are
spent last.

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

from gsched.policy.devices.node_states import WHOLE, Node, NodeColumns, NodeFloats, NodeInts, States, StateTable

MOST_SHAPES = 512
"""Kinds of tasks of which a packer keeps the costs; the one that came first goes first."""

MOST_STATES = 4
"""States that are kept for each node; then those that no node is in any more are forgotten."""

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
class PackedTask:
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
        self.weights: NodeFloats = np.array([asking[shape] / total for shape in self.shapes], np.float64)

    def commonest(self, part: float) -> Mix:
        """The kinds that make up this part (0 to 1) of the tasks, and those that make up this part of the GPU asked."""
        asked = [weight * shape.asked for shape, weight in zip(self.shapes, self.weights, strict=True)]
        kept = _head(self.weights.tolist(), part) | _head(asked, part)
        return Mix({self.shapes[kind]: float(self.weights[kind]) for kind in sorted(kept)})

    @classmethod
    def of(cls, tasks: Iterable[Shape]) -> Mix:
        """From a list of tasks, each as often as it stands there."""
        often: dict[Shape, float] = {}
        for task in tasks:
            often[task] = often.get(task, 0) + 1
        return cls(often)


def _head(measures: Sequence[float], part: float) -> set[int]:
    """The positions of the largest measures that together reach a part of the sum."""
    goal, reached, kept = part * sum(measures), 0.0, set()
    for position in sorted(range(len(measures)), key=lambda position: (-measures[position], position)):
        if reached >= goal:
            break
        reached += measures[position]
        kept.add(position)
    return kept


def _key(shape: Shape) -> tuple[int, int, int, int, tuple[str, ...]]:
    return shape.gpus, shape.share, shape.cpu, shape.memory, tuple(sorted(shape.models))


class Scorer(Protocol):
    """How much a placement costs. The packer takes the least; equal costs go to the first node, then the first GPU."""

    refresh_after: int
    """After how many changes `prepare` is wanted anew; 0: never."""

    def prepare(self, columns: NodeColumns) -> None:
        """Look at the whole cluster; called once before the first cost is asked for, and for each refresh."""

    def worth(self, states: States) -> NodeFloats:
        """What the states are worth."""

    def cost(self, worth: NodeFloats, after: States, left: NodeInts) -> NodeFloats:
        """What it costs to come from `worth` to the states `after`; `left`: what stays of the GPU that is shared."""


class ScarceRoom:
    """The rule of this module's head: lose the least room, and count room that is scarce in the cluster for more.

    With an empty mix all nodes are worth nothing, and the node with the least left over is taken (best fit).
    """

    refresh_after = 500

    FEED = 2.5
    """A node is not filled by one kind alone: where one is heavy on CPU, lighter ones lie beside it. So CPU and memory
    are taken to feed that many times the tasks of a kind that they would if it were alone."""
    SCARCITY = 1.5
    """How the weight of a kind falls with the amount of GPU that the cluster has room for it (the exponent)."""
    TIE = 1e-4
    """What is left over on the node decides between placements that lose (almost) the same room."""
    KINDS = 0.97
    """The rarest kinds are left out, for speed: those beyond this part both of the tasks and of the GPU asked for."""

    def __init__(self, mix: Mix) -> None:
        self._mix = mix.commonest(self.KINDS)
        shapes = self._mix.shapes
        self._per_cpu: NodeFloats = 1 / np.array([max(shape.cpu, 1) for shape in shapes], np.float64)
        self._per_memory: NodeFloats = 1 / np.array([max(shape.memory, 1) for shape in shapes], np.float64)
        shares, self._share = np.unique(np.array([shape.share for shape in shapes], np.int64), return_inverse=True)
        # holds[free, share]: how many tasks of that share a GPU holds with so much free.
        self._holds: NodeFloats = (np.arange(WHOLE + 1)[:, None] // shares[None, :]).astype(np.float64)
        gpus = np.array([shape.gpus for shape in shapes], np.int64)
        self._asked: NodeFloats = np.array([shape.asked for shape in shapes], np.float64) / WHOLE
        self._several = np.nonzero(gpus > 1)[0]
        self._several_gpus = gpus[self._several]
        self._permitted: NodeFloats = np.zeros((0, len(shapes)))
        self._weights: NodeFloats = self._mix.weights
        self._largest = (1, 1)

    def prepare(self, columns: NodeColumns) -> None:
        """Weigh each kind by how often it comes and how little room there is left for it."""
        shapes = self._mix.shapes
        by_model = [[float(not shape.models or model in shape.models) for shape in shapes] for model in columns.models]
        self._permitted = np.array(by_model, np.float64).reshape(len(columns.models), len(shapes))
        # The largest node ever seen: what is free now would make the tie-break drift.
        self._largest = max(int(columns.cpu.max(initial=0)), self._largest[0]), columns.gpus.shape[1] * WHOLE
        if not len(columns) or not shapes:
            return
        rooms = self._rooms(columns.rows(np.arange(len(columns)))).sum(axis=0) * self._asked
        weights = self._mix.weights / (rooms + 1.0) ** self.SCARCITY
        self._weights = weights / weights.sum()

    def worth(self, states: States) -> NodeFloats:
        """The room, weighed."""
        worth: NodeFloats = self._rooms(states) @ self._weights
        return worth

    def cost(self, worth: NodeFloats, after: States, left: NodeInts) -> NodeFloats:
        """The room that is lost, and a trifle for what is left over."""
        leftover = after.cpu / self._largest[0] + after.gpus.sum(axis=1) / self._largest[1]
        cost: NodeFloats = worth - self.worth(after) + self.TIE * leftover
        return cost

    def _rooms(self, states: States) -> NodeFloats:
        """How many tasks of each kind fit, by state and kind; the feeding may count in parts of a task beyond one."""
        held: NodeFloats = self._holds[states.gpus].sum(axis=1)[:, self._share]
        if len(self._several):
            held[:, self._several] //= self._several_gpus
        fed = states.cpu[:, None] * self._per_cpu
        np.minimum(fed, states.memory[:, None] * self._per_memory, out=fed)
        fed *= self._permitted[states.model]
        fed[fed < 1 - 1e-9] = 0
        fed *= self.FEED
        return np.minimum(held, fed, out=held)


class _Costs:
    """One shape's cost on every node, and up to which change they are known; what it costs in each state."""

    __slots__ = ("by_state", "cost", "left", "permitted", "seen")

    def __init__(self, shape: Shape, columns: NodeColumns) -> None:
        self.cost: NodeFloats = np.full(len(columns), np.inf)
        by_model = [not shape.models or model in shape.models for model in columns.models]
        self.permitted: Bools = np.array(by_model, np.bool_)[columns.model]
        self.seen: int | None = None
        self.forget()

    def forget(self) -> None:
        """States are numbered anew, or tasks are weighed anew."""
        self.seen = None
        self.by_state: NodeFloats = np.full(0, np.nan)
        """By number of a state; nan where nobody has asked."""
        self.left: NodeInts = np.zeros(0, np.int64)
        """What is free of the GPU that it would share there."""

    def make_room(self, states: int) -> None:
        """For states up to this number."""
        if states > len(self.by_state):
            more = 2 * states - len(self.by_state)
            self.by_state = np.concatenate((self.by_state, np.full(more, np.nan)))
            self.left = np.concatenate((self.left, np.zeros(more, np.int64)))


class Packer:
    """The nodes' free resources and, on demand, the best place for a task. It belongs to one thread."""

    def __init__(self, nodes: Sequence[Node], scorer: Scorer) -> None:
        self.columns = NodeColumns(nodes)
        self._scorer = scorer
        self._costs: dict[Shape, _Costs] = {}
        self._changed: list[int] = []
        self._number_all()
        self._refresh()

    def choose(self, shape: Shape, allowed: Bools | None = None) -> PackedTask | None:
        """The best place, or None where it fits no node. `allowed`: one flag per node, others are not looked at."""
        costs = self._known(shape)
        cost = costs.cost if allowed is None else np.where(allowed, costs.cost, np.inf)
        if not len(cost):
            return None
        node = int(np.argmin(cost))
        if cost[node] == np.inf:
            return None
        if shape.gpus and shape.share < WHOLE:
            return PackedTask(node, (self.gpu(shape, node),))
        free = np.nonzero(self.columns.gpus[node] >= WHOLE)[0][: shape.gpus]
        return PackedTask(node, tuple(free.tolist()))

    def costs(self, shape: Shape) -> NodeFloats:
        """What the task costs on each node, infinite where it does not fit; valid until something changes."""
        return self._known(shape).cost

    def gpu(self, shape: Shape, node: int) -> int:
        """The position of the GPU that a share takes on the node, where it fits."""
        left = self._known(shape).left[self._state[node]]
        return int((self.columns.gpus[node] == left).argmax())

    def take(self, shape: Shape, placement: PackedTask) -> None:
        """The task is there now. Raises ValueError when it does not fit."""
        node, gpus = placement.node, list(placement.gpus)
        columns = self.columns
        enough = columns.cpu[node] >= shape.cpu and columns.memory[node] >= shape.memory
        if not enough or len(set(gpus)) != shape.gpus or (columns.gpus[node, gpus] < shape.share).any():
            raise ValueError(f"{shape} does not fit {placement}")
        self._move(shape, placement, 1)

    def give(self, shape: Shape, placement: PackedTask) -> None:
        """The task is gone. Raises ValueError when more of a GPU would be free than there is."""
        if (self.columns.gpus[placement.node, list(placement.gpus)] + shape.share > WHOLE).any():
            raise ValueError(f"{shape} is not on {placement}")
        self._move(shape, placement, -1)

    def put(self, node: int, cpu: int, memory: int, free: Sequence[int]) -> None:
        """What is free on a node is this now (units as in `Node`; the GPUs' model stays). Raises ValueError."""
        if len(free) > self.columns.gpus.shape[1] or not all(0 <= part <= WHOLE for part in free):
            raise ValueError(f"node {node} cannot have this free of its GPUs: {free}")
        self.columns.cpu[node], self.columns.memory[node] = cpu, memory
        self.columns.gpus[node] = 0
        self.columns.gpus[node, : len(free)] = free
        self._note(node)

    def _move(self, shape: Shape, placement: PackedTask, sign: int) -> None:
        node = placement.node
        self.columns.cpu[node] -= sign * shape.cpu
        self.columns.memory[node] -= sign * shape.memory
        self.columns.gpus[node, list(placement.gpus)] -= sign * shape.share
        self._note(node)

    def _note(self, node: int) -> None:
        self._changed.append(node)
        number = self._state[node] = self._table.number(self.columns, node)
        if self._scorer.refresh_after and len(self._changed) >= self._scorer.refresh_after:
            self._refresh()
        elif number == len(self._worth):
            self._worth.append(float(self._scorer.worth(self._table.states(np.array([number])))[0]))

    def _number_all(self) -> None:
        """Number the states anew, without those that no node is in any more."""
        columns = self.columns
        self._table = StateTable(columns.gpus.shape[1])
        self._state: NodeInts = np.array([self._table.number(columns, node) for node in range(len(columns))], np.int64)

    def _refresh(self) -> None:
        """All is looked at anew: what is scarce has changed."""
        self._scorer.prepare(self.columns)
        if len(self._table) > MOST_STATES * (len(self.columns) + 1):
            self._number_all()
        self._worth: list[float] = self._scorer.worth(self._table.states(np.arange(len(self._table)))).tolist()
        self._changed.clear()
        for costs in self._costs.values():
            costs.forget()

    def _known(self, shape: Shape) -> _Costs:
        """The shape's costs, brought up to date."""
        costs = self._costs.get(shape)
        if costs is None:
            if len(self._costs) >= MOST_SHAPES:
                del self._costs[next(iter(self._costs))]
            costs = self._costs[shape] = _Costs(shape, self.columns)
        if costs.seen is None:
            stale = np.flatnonzero(costs.permitted)
        elif costs.seen == len(self._changed):
            return costs
        else:
            stale = np.array(self._changed[costs.seen :], np.int64)
            stale = stale[costs.permitted[stale]]
        costs.seen = len(self._changed)
        costs.make_room(len(self._table))
        states = self._state[stale]
        unknown = states[np.isnan(costs.by_state[states])]
        if len(unknown):
            self._score(shape, costs, np.unique(unknown))
        costs.cost[stale] = costs.by_state[states]
        return costs

    def _score(self, shape: Shape, costs: _Costs, numbers: NodeInts) -> None:
        """The costs in some states; infinite where it does not fit."""
        costs.by_state[numbers] = np.inf
        before = self._table.states(numbers)
        fits = (before.cpu >= shape.cpu) & (before.memory >= shape.memory)
        if shape.gpus:
            fits &= (before.gpus >= shape.share).sum(axis=1) >= shape.gpus
        numbers = numbers[fits]
        if not len(numbers):
            return
        free = before.gpus[fits]
        rows, gpus, shared = _options(shape, free)
        chosen = np.flatnonzero(fits)[rows]
        after = States(before.cpu[chosen] - shape.cpu, before.memory[chosen] - shape.memory, before.model[chosen], gpus)
        worth = np.array(self._worth)[numbers[rows]]
        cost = self._scorer.cost(worth, after, gpus[np.arange(len(rows)), shared])
        # Sums over batches of different sizes differ in their last bits: equal options must stay equal.
        cost = np.round(cost, 11)
        # The best option in each state: by state, then cost, then what is free (the sort is stable, options ascend).
        best = np.lexsort((cost, rows))
        best = best[np.r_[True, rows[best][1:] != rows[best][:-1]]]
        costs.by_state[numbers[rows[best]]] = cost[best]
        costs.left[numbers[rows[best]]] = free[rows[best], shared[best]]


def _options(shape: Shape, gpus: NodeInts) -> tuple[NodeInts, NodeInts, NodeInts]:
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
