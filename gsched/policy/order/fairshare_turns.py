"""Turns in a queue with fairshare: whose job is next, from the top of its share tree down.

It knows nothing of hosts, and nothing of other queues.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from gsched.model.scheduling.snapshot import Bucket, JobLine, RequirementClass
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
        self, tree: ShareTree, kinds: Mapping[RequirementClass, ClassInQueue], dropped: Container[Bucket]
    ) -> None:
        self._kinds = list(kinds.values())
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
                owner.lines.append((bucket, line, kind))

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
    """A user in a share tree: the heap of his buckets' heads, made when it is his turn for the first time."""

    __slots__ = ("_dropped", "_heap", "lines", "node")

    def __init__(self, node: ShareNode, dropped: Container[Bucket]) -> None:
        self.node = node
        self.lines: list[tuple[Bucket, JobLine, ClassInQueue]] = []
        self._dropped = dropped
        self._heap: list[ArrivalEntry] | None = None

    def head(self) -> ArrivalEntry | None:
        heap = self._heap
        if heap is None:
            heap = self._heap = []
            for bucket, line, kind in self.lines:
                entry = None if kind.dead else kind.open(bucket, line)
                if entry is not None:
                    heap.append(entry)
            heapify(heap)
        while heap:
            first = heap[0]
            if first[KIND].dead or (self._dropped and first[BUCKET] in self._dropped):
                heappop(heap)
            else:
                return first
        return None

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

    __slots__ = ("_heap", "node")

    def __init__(self, node: ShareNode) -> None:
        self.node = node
        self._heap: list[tuple[float, float, float, int, int, _Owner | _Group]] = []

    def add(self, turn: _Owner | _Group) -> None:
        heappush(self._heap, (-turn.node.priority, _UNKNOWN, 0.0, 0, -len(self._heap), turn))

    def head(self) -> ArrivalEntry | None:
        heap = self._heap
        while heap:
            entry = heap[0]
            turn = entry[-1]
            first = turn.head()
            if first is None:
                heappop(heap)
                continue
            fresh = (-turn.node.priority, *first[:_RANKED], turn)
            if fresh == entry:
                return first
            heapreplace(heap, fresh)
        return None

    def advance(self, *, dropped: bool) -> None:
        self._heap[0][-1].advance(dropped=dropped)
