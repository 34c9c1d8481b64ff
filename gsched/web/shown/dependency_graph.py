"""Which jobs a job waits for, and which wait for it, some steps far, laid out as a graph from left to right.

An array is one node, unless a condition names one of its elements. It is bounded: DEPTH steps each way, MOST_NODES in
all, nearer ones first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gsched.base.ids import array_of, index_of
from gsched.model.jobs.job import FINISHED
from gsched.web.mirror.awaited_jobs import Awaited, awaited_by
from gsched.web.mirror.job_rows import MirroredJob

DEPTH = 3
MOST_NODES = 40
WIDTH, HEIGHT, ACROSS, DOWN, EDGE = 176, 46, 240, 62, 8
"""Of a node, from one to the next, and around all of them; in pixels."""
LONGEST_NAME = 20


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """A job or an array, at a place. `level` 0: the one that it is about, below: what that waits for."""

    number: int
    name: str
    state: str
    """Empty: nothing is known of it any more. Of an array what most of its jobs that have not ended are, if any."""
    level: int
    count: int = 1
    """Jobs of an array."""
    x: int = 0
    y: int = 0

    @property
    def short_name(self) -> str:
        """So much of it as there is room for."""
        return self.name if len(self.name) <= LONGEST_NAME else self.name[: LONGEST_NAME - 1] + "…"


class GraphEdge(msgspec.Struct, frozen=True, kw_only=True):
    """`after` waits for `first`; the words are the conditions' names."""

    first: GraphNode
    after: GraphNode
    kinds: tuple[str, ...]

    @property
    def path(self) -> str:
        """The line, as SVG has it."""
        x1, y1 = self.first.x + WIDTH, self.first.y + HEIGHT // 2
        x2, y2 = self.after.x, self.after.y + HEIGHT // 2
        middle = (x1 + x2) // 2
        return f"M{x1} {y1} C{middle} {y1} {middle} {y2} {x2 - 6} {y2}"


class DependencyGraph(msgspec.Struct, frozen=True, kw_only=True):
    """Laid out; `is_cut`: there are more."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    is_cut: bool

    @property
    def width(self) -> int:
        """In pixels."""
        return max(node.x for node in self.nodes) + WIDTH + EDGE

    @property
    def height(self) -> int:
        """In pixels."""
        return max(node.y for node in self.nodes) + HEIGHT + EDGE

    @property
    def before(self) -> list[GraphEdge]:
        """What is waited for, as lines of a list: the nearest first."""
        return sorted((edge for edge in self.edges if edge.after.level <= 0), key=lambda edge: -edge.after.level)

    @property
    def behind(self) -> list[GraphEdge]:
        """What waits, the nearest first."""
        return sorted((edge for edge in self.edges if edge.after.level > 0), key=lambda edge: edge.after.level)


def graph_of(job_id: int, conditions: str, rows: Iterable[MirroredJob]) -> DependencyGraph | None:
    """The graph around a job; None where it waits for nothing and nothing waits for it."""
    known = _Known(job_id, conditions, rows)
    levels, is_cut = _levels(job_id, known)
    if len(levels) < 2:
        return None
    places: dict[int, int] = {}
    nodes = {}
    least = min(levels.values())
    for number in sorted(levels, key=lambda each: (levels[each], array_of(each), index_of(each))):
        level = levels[number]
        row = places[level] = places.get(level, -1) + 1
        x, y = EDGE + (level - least) * ACROSS, EDGE + row * DOWN
        nodes[number] = msgspec.structs.replace(known.node(number), level=level, x=x, y=y)
    edges = tuple(
        GraphEdge(first=nodes[first], after=nodes[after], kinds=kinds)
        for after in nodes
        for first, kinds in known.before(after).items()
        if first in nodes
    )
    return DependencyGraph(nodes=tuple(nodes.values()), edges=edges, is_cut=is_cut)


def _levels(job_id: int, known: _Known) -> tuple[dict[int, int], bool]:
    """Number of each node -> its level, by steps from the job."""
    levels, is_cut = {job_id: 0}, False
    for step, following in ((-1, known.before), (1, known.behind)):
        layer = [job_id]
        for level in range(1, DEPTH + 1):
            found = [each for number in layer for each in following(number)]
            layer = []
            for each in found:
                if each in levels:
                    continue
                if len(levels) >= MOST_NODES:
                    is_cut = True
                    break
                levels[each] = step * level
                layer.append(each)
        is_cut = is_cut or any(each not in levels for number in layer for each in following(number))
    return levels, is_cut


class _Known:
    """What is known of all jobs, by the numbers of nodes."""

    def __init__(self, job_id: int, conditions: str, rows: Iterable[MirroredJob]) -> None:
        self._job_id = job_id
        self._own = awaited_by(conditions)
        self._rows: dict[int, MirroredJob] = {}
        self._arrays: dict[int, list[MirroredJob]] = {}
        self._behind: dict[int, list[int]] = {}
        for row in rows:
            self._rows[row.job_id] = row
            if row.array_id:
                self._arrays.setdefault(row.array_id, []).append(row)
            for awaited in row.waits_for:
                waiting = self._behind.setdefault(awaited.number, [])
                number = self._node_of(row)
                if number not in waiting[-1:]:
                    waiting.append(number)

    def _node_of(self, row: MirroredJob) -> int:
        """Elements are shown as their array, but the one that it is about."""
        return row.array_id if row.array_id and row.job_id != self._job_id else row.job_id

    def before(self, number: int) -> Mapping[int, tuple[str, ...]]:
        """What the node waits for -> by which conditions."""
        found: dict[int, tuple[str, ...]] = {}
        for awaited in self._awaited(number):
            kinds = found.get(awaited.number, ())
            found[awaited.number] = kinds if awaited.kind in kinds else (*kinds, awaited.kind)
        return found

    def _awaited(self, number: int) -> Iterator[Awaited]:
        if number == self._job_id:
            yield from self._own
        elif number in self._rows:
            yield from self._rows[number].waits_for
        elif number in self._arrays:
            yield from self._arrays[number][0].waits_for

    def behind(self, number: int) -> list[int]:
        """What waits for the node, or for the array whose element it is; not its own array."""
        found = [*self._behind.get(number, ()), *(self._behind.get(array_of(number), ()) if index_of(number) else ())]
        own = {number, array_of(number)}
        return sorted({each for each in found if each not in own})

    def node(self, number: int) -> GraphNode:
        """Without a place yet."""
        row = self._rows.get(number)
        if row is not None:
            return GraphNode(number=number, name=row.name, state=row.state, level=0)
        members = self._arrays.get(number)
        if not members:
            return GraphNode(number=number, name="", state="", level=0)
        states = [row.state for row in members if row.state not in FINISHED] or [row.state for row in members]
        state = max(set(states), key=lambda each: (states.count(each), each))
        return GraphNode(number=number, name=members[0].name, state=state, level=0, count=len(members))
