"""Turns in a queue with fairshare: whose job is next, from the top of its share tree down.

Queues of one share tree take turns together: of one user those of the queue of larger PRIORITY come first. It knows
nothing of hosts, and nothing of queues outside the tree.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from gsched.model.scheduling.snapshot import Bucket, JobLine
from gsched.policy.order.arrival_order import BUCKET, KIND, ArrivalEntry, ClassInQueue, next_of
from gsched.policy.order.fairshare import ShareNode, ShareTree

_UNKNOWN = float("-inf")
"""Rank of someone whose jobs have not been looked at yet: before everybody of equal priority, so that they are."""
_RANKED: Final = 4
"""So many fields of an entry say who comes first."""


class ShareTurns:
    """Turns in a queue with fairshare. Priorities only fall and ranks only grow while a cycle lasts, so what a heap
    holds is never too late: a head is checked, and put back if it has become worse, when it is looked at.
    """

    def __init__(
        self,
        tree: ShareTree,
        kinds: Iterable[ClassInQueue],
        dropped: Container[Bucket],
        priorities: Mapping[str, int] | None = None,
    ) -> None:
        """`priorities`: PRIORITY of queues of one share tree."""
        self._kinds = list(kinds)
        priorities = priorities or {}
        self._turns: dict[ShareNode, _Group] = {tree.root: _Group(tree.root)}
        self._root = self._turns[tree.root]
        owners: dict[ShareNode, _Owner] = {}
        for kind in self._kinds:
            if kind.dead:
                continue
            for bucket, line in kind.lines():
                leaf = tree.leaf(bucket.user, bucket.user_group)
                owner = owners.get(leaf)
                if owner is None:
                    owner = owners[leaf] = _Owner(leaf, dropped)
                    self._join(owner)
                owner.add(-priorities.get(kind.queue, 0), bucket, line, kind)

    def head(self) -> ArrivalEntry | None:
        """The next to be served."""
        if all(kind.dead for kind in self._kinds):
            return None
        return self._root.head()

    def advance(self, *, dropped: bool) -> None:
        """The head was served; `dropped`: its bucket goes."""
        self._root.advance(dropped=dropped)

    def _join(self, turn: _Owner | _Group) -> None:
        parent = turn.node.parent
        assert parent is not None
        group = self._turns.get(parent)
        if group is None:
            group = self._turns[parent] = _Group(parent)
            self._join(group)
        group.add(turn)


class _Owner:
    """A user in a share tree: the heap of his buckets' heads, made when it is his turn for the first time; of further
    queues of the tree when those before have none of his jobs left.
    """

    __slots__ = ("_dropped", "_heap", "_lines", "level", "node")

    def __init__(self, node: ShareNode, dropped: Container[Bucket]) -> None:
        self.node = node
        self.level = 0
        """The negative of PRIORITY of the queue that his head is of."""
        self._lines: dict[int, list[tuple[Bucket, JobLine, ClassInQueue]]] = {}
        """Level -> what has not been opened yet."""
        self._dropped = dropped
        self._heap: list[ArrivalEntry] = []

    def add(self, level: int, bucket: Bucket, line: JobLine, kind: ClassInQueue) -> None:
        self._lines.setdefault(level, []).append((bucket, line, kind))

    def head(self) -> ArrivalEntry | None:
        while True:
            heap = self._heap
            while heap:
                first = heap[0]
                if first[KIND].dead or (self._dropped and first[BUCKET] in self._dropped):
                    heappop(heap)
                else:
                    return first
            if not self._lines:
                return None
            self._open_next()

    def _open_next(self) -> None:
        heap = self._heap
        self.level = min(self._lines)
        for bucket, line, kind in self._lines.pop(self.level):
            entry = None if kind.dead else kind.open(bucket, line)
            if entry is not None:
                heap.append(entry)
        heapify(heap)

    def advance(self, *, dropped: bool) -> None:
        heap = self._heap
        if not heap:
            return
        following = None if dropped else next_of(heap[0])
        if following is None:
            heappop(heap)
        else:
            heapreplace(heap, following)


class _Group:
    """A group (or the queue itself) in a share tree: those below it who may have jobs to serve, by priority."""

    __slots__ = ("_heap", "level", "node")

    def __init__(self, node: ShareNode) -> None:
        self.node = node
        self.level = 0
        """As of the owner of its head."""
        self._heap: list[tuple[float, float, float, float, int, int, _Owner | _Group]] = []

    def add(self, turn: _Owner | _Group) -> None:
        heappush(self._heap, (-turn.node.priority, _UNKNOWN, 0.0, 0.0, 0, -len(self._heap), turn))

    def head(self) -> ArrivalEntry | None:
        heap = self._heap
        while heap:
            entry = heap[0]
            turn = entry[-1]
            first = turn.head()
            if first is None:
                heappop(heap)
                continue
            fresh = (-turn.node.priority, turn.level, *first[:_RANKED], turn)
            if fresh == entry:
                self.level = turn.level
                return first
            heapreplace(heap, fresh)
        return None

    def advance(self, *, dropped: bool) -> None:
        self._heap[0][-1].advance(dropped=dropped)
