"""Who is served first: queues by priority; within a queue by rank (-sp, then the order of submission) or by fairshare.

It never decides whether a job may start or where. What it costs grows with the jobs that are served and with the
buckets of classes that can be placed at all, never with the jobs that wait.

    order = ServingOrder(snapshot, live, closed)
    for job_id, bucket in order:          exactly one of the following, or nothing, before the next turn:
        order.placed(bucket, allocation)      it starts: counts for fairshare
        order.drop(bucket)                    no more jobs of this bucket
        order.drop_class(queue, requirement)  no more jobs of this class in this queue, whoever owns them
        order.drop_queue(queue)               no more jobs of this queue
    order.passed_over()                   keys (as in Plan.reasons) that a reason is owed for
    order.unreached()                     keys that were not come to, when the loop was left early

`live`: the requirement classes that could be placed on some host; None: all. `closed`: queues that start nothing
(gsched.policy.limits.LimitUse.closed_queues). Jobs of other classes and of those queues are never touched.

The order, with every tie-break:
- The queue of larger PRIORITY first. A queue that no longer exists has priority 0.
- Queues of equal priority are one queue: those without fairshare are merged by rank; one with fairshare offers the
  first job of the user whose turn it is; of all these offers the smallest (rank, job id) is served.
- Without fairshare: the smallest (rank, job id).
- With fairshare: from the top of the share tree down, the group or user of the largest dynamic priority among those
  who have a job to serve; among equals the one whose next job has the smallest (rank, job id). Then his jobs by rank.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain
from typing import Any, Final

from gsched.model.allocation import Allocation
from gsched.model.snapshot import (
    Bucket,
    Head,
    HeadLine,
    Line,
    QueueIndex,
    Rank,
    RequirementClass,
    Snapshot,
    index_of_queues,
    queues_of,
)
from gsched.policy.fairshare import ShareNode, ShareTree, tree_of

ReasonKey = Bucket | tuple[str, RequirementClass]
"""A key of Plan.reasons: one bucket, or all jobs of a class in a queue."""

_Entry = tuple[float, float, int, int, int, Bucket, Iterator[tuple[Rank, int]], "_Kind"]
"""The head of a bucket: its rank and job, _OPEN, what follows it, its class. The rank lies open because that compares
in half the time; job ids (and versions of heads) differ, so nothing beyond them is compared.
"""
_OPEN: Final = -1
"""In the place where a head that pending jobs remember has its version: less than any."""
_JOB: Final = 3
_VERSION: Final = 4
_BUCKET: Final = 5
_KIND: Final = 7
_UNKNOWN = float("-inf")
"""Rank of someone whose jobs have not been looked at yet: before everybody of equal priority, so that they are."""


class _Kind:
    """The jobs of one requirement class in one queue. The heap of its buckets' heads is made when it is needed: of the
    heads that pending jobs remember, each of which is opened when it comes to the top, or by looking at all lines.
    """

    __slots__ = ("_buckets", "dead", "heap", "queue", "requirement")

    def __init__(self, queue: str, requirement: RequirementClass, buckets: Mapping[Bucket, Line]) -> None:
        self.queue = queue
        self.requirement = requirement
        self._buckets = buckets
        self.heap: list[_Entry | Head] = []
        self.dead = False

    def lines(self) -> Iterator[tuple[Bucket, Line]]:
        """Its buckets with their jobs."""
        queue = self.queue
        return ((bucket, line) for bucket, line in self._buckets.items() if bucket.queue == queue)

    def gather(self, index: QueueIndex | None) -> None:
        """Make the heap."""
        if index is not None:
            self.heap = [*index.heads(self.queue, self.requirement)]
            return
        heap = self.heap
        for bucket, line in self.lines():
            entry = self.open(bucket, line)
            if entry is not None:
                heap.append(entry)
        heapify(heap)

    def open(self, bucket: Bucket, line: Line) -> _Entry | None:
        """The head of a line that is to be served from; None when it is empty."""
        following = iter(line)
        for (priority, order, index), job_id in following:
            return priority, order, index, job_id, _OPEN, bucket, following, self
        return None

    def head(self) -> _Entry | None:
        """The first job of all."""
        heap = self.heap
        while heap:
            first = heap[0]
            if first[_VERSION] == _OPEN:
                return first  # type: ignore[return-value]  # only entries are open
            line: HeadLine = first[_BUCKET]  # type: ignore[assignment]  # and a head has its line there
            entry = None
            if line.version == first[_VERSION]:
                following = line.after_first()
                if following is None:
                    entry = self.open(line.bucket, line)
                else:
                    entry = (*first[:_VERSION], _OPEN, line.bucket, following, self)
            if entry is None:
                heappop(heap)
            else:
                heapreplace(heap, entry)
        return None


class ServingOrder:
    """See the module. Iterate once."""

    def __init__(
        self,
        snapshot: Snapshot,
        live: Container[RequirementClass] | None = None,
        closed: Collection[str] = (),
        trees: Mapping[str, ShareTree] | None = None,
    ) -> None:
        """`trees`: share trees of queues to go on with."""
        self._snapshot = snapshot
        self._kinds: dict[str, dict[RequirementClass, _Kind]] = {}
        self._trees: dict[str, ShareTree] = dict(trees or {})
        self._untouched: list[RequirementClass] = []
        self._owed: dict[ReasonKey, None] = {}
        self._dropped: set[Bucket] = set()
        self._current: Bucket | None = None
        self._is_current_dropped = False
        for requirement, buckets in snapshot.pending.items():
            if live is None or requirement in live:
                self._sort_in(requirement, buckets)
            else:
                self._untouched.append(requirement)
        for queue in closed:
            self.drop_queue(queue)

    def __iter__(self) -> Iterator[tuple[int, Bucket]]:
        queues = self._snapshot.queues
        levels: dict[int, list[str]] = {}
        for name in sorted(self._kinds):
            levels.setdefault(queues[name].priority if name in queues else 0, []).append(name)
        return chain.from_iterable(self._serve(levels[priority]) for priority in sorted(levels, reverse=True))

    def drop(self, bucket: Bucket) -> None:
        """Serve no more jobs of this bucket."""
        self._owed[bucket] = None
        if bucket is self._current:
            self._is_current_dropped = True
        else:
            self._dropped.add(bucket)

    def drop_class(self, queue: str, requirement: RequirementClass) -> None:
        """Serve no more jobs of this requirement class in this queue, whoever owns them."""
        kind = self._kinds.get(queue, {}).get(requirement)
        if kind is not None:
            kind.dead = True
            self._owed[queue, requirement] = None

    def drop_queue(self, queue: str) -> None:
        """Serve no more jobs of this queue. A reason is owed for each of its classes."""
        for requirement, kind in self._kinds.get(queue, {}).items():
            kind.dead = True
            self._owed[queue, requirement] = None

    def placed(self, bucket: Bucket, allocation: Allocation) -> None:
        """A job of the bucket starts; in a queue with fairshare its owner's priority falls."""
        tree = self._trees.get(bucket.queue)
        if tree is not None:
            gpus = sum(len(part.gpus) for part in allocation.hosts)
            tree.placed(tree.leaf(bucket.user, bucket.user_group), allocation.slots, gpus)

    @property
    def trees(self) -> Mapping[str, ShareTree]:
        """Share trees of the queues that were come to, with what was placed."""
        return self._trees

    def passed_over(self) -> list[ReasonKey]:
        """What a reason is owed for: dropped buckets, dropped classes and those that were not live, by queue.

        Together with the jobs that were served these are all jobs, once the loop has come to its end.
        """
        owed = dict(self._owed)
        for requirement in self._untouched:
            for queue in queues_of(self._snapshot.pending, requirement):
                owed[queue, requirement] = None
        return list(owed)

    def unreached(self) -> list[ReasonKey]:
        """Classes that may still have jobs to serve: for a loop that was left early."""
        return [
            (queue, requirement)
            for queue, kinds in self._kinds.items()
            for requirement, kind in kinds.items()
            if not kind.dead
        ]

    def _sort_in(self, requirement: RequirementClass, buckets: Mapping[Bucket, Line]) -> None:
        for queue in queues_of(self._snapshot.pending, requirement):
            self._kinds.setdefault(queue, {})[requirement] = _Kind(queue, requirement, buckets)

    def _serve(self, names: list[str]) -> Iterator[tuple[int, Bucket]]:
        """The jobs of queues of one priority."""
        turns: list[_Arrivals | _ShareTurns] = []
        arriving: list[_Kind] = []
        for name in names:
            queue = self._snapshot.queues.get(name)
            if queue is not None and queue.fairshare is not None:
                tree = self._trees.get(name) or tree_of(self._snapshot, queue)
                self._trees[name] = tree
                turns.append(_ShareTurns(tree, self._kinds[name], self._dropped))
            else:
                arriving += self._kinds[name].values()
        if arriving:
            turns.append(_Arrivals(arriving, self._dropped, index_of_queues(self._snapshot.pending)))
        others = turns[1:]
        while turns:
            chosen, first = turns[0], turns[0].head()
            for other in others:
                head = other.head()
                if first is None or (head is not None and head < first):
                    chosen, first = other, head
            if first is None:
                return
            bucket = first[_BUCKET]
            self._current, self._is_current_dropped = bucket, False
            yield first[_JOB], bucket
            chosen.advance(dropped=self._is_current_dropped)
        self._current = None


class _Arrivals:
    """First come first served over the classes of queues: a heap of classes over heaps of buckets, so that a dropped
    class costs one step however many buckets it has.
    """

    def __init__(self, kinds: list[_Kind], dropped: Container[Bucket], index: QueueIndex | None) -> None:
        self._dropped = dropped
        self._heap: list[_Entry] = []
        for kind in kinds:
            if not kind.dead:
                kind.gather(index)
                first = kind.head()
                if first is not None:
                    self._heap.append(first)
        heapify(self._heap)

    def head(self) -> _Entry | None:
        """The next to be served."""
        heap = self._heap
        while heap:
            top = heap[0]
            kind = top[_KIND]
            if not kind.dead and not self._dropped and kind.heap and kind.heap[0] is top:
                return top  # as it is nearly always
            first = None if kind.dead else kind.head()
            if first is None:
                heappop(heap)
            elif self._dropped and first[_BUCKET] in self._dropped:
                heappop(kind.heap)
            elif first is top:
                return first
            else:
                heapreplace(heap, first)
        return None

    def advance(self, *, dropped: bool) -> None:
        """The head was served; `dropped`: its bucket goes."""
        heap = self._heap
        kind = heap[0][_KIND]
        if kind.dead:
            return
        _advance(kind.heap, dropped=dropped)
        first = kind.head()
        if first is None:
            heappop(heap)
        else:
            heapreplace(heap, first)


class _ShareTurns:
    """Turns in a queue with fairshare. Priorities only fall and ranks only grow while a cycle lasts, so what a heap
    holds is never too late: a head is checked, and put back if it has become worse, when it is looked at.
    """

    def __init__(self, tree: ShareTree, kinds: Mapping[RequirementClass, _Kind], dropped: Container[Bucket]) -> None:
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

    def head(self) -> _Entry | None:
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
        self.lines: list[tuple[Bucket, Line, _Kind]] = []
        self._dropped = dropped
        self._heap: list[_Entry] | None = None

    def head(self) -> _Entry | None:
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
            if first[_KIND].dead or (self._dropped and first[_BUCKET] in self._dropped):
                heappop(heap)
            else:
                return first
        return None

    def advance(self, *, dropped: bool) -> None:
        if self._heap:
            _advance(self._heap, dropped=dropped)


class _Group:
    """A group (or the queue itself) in a share tree: those below it who may have jobs to serve, by priority."""

    __slots__ = ("_heap", "node")

    def __init__(self, node: ShareNode) -> None:
        self.node = node
        self._heap: list[tuple[float, float, float, int, int, _Owner | _Group]] = []

    def add(self, turn: _Owner | _Group) -> None:
        heappush(self._heap, (-turn.node.priority, _UNKNOWN, 0.0, 0, -len(self._heap), turn))

    def head(self) -> _Entry | None:
        heap = self._heap
        while heap:
            entry = heap[0]
            turn = entry[-1]
            first = turn.head()
            if first is None:
                heappop(heap)
                continue
            fresh = (-turn.node.priority, *first[:_VERSION], turn)
            if fresh == entry:
                return first
            heapreplace(heap, fresh)
        return None

    def advance(self, *, dropped: bool) -> None:
        self._heap[0][-1].advance(dropped=dropped)


def _advance(heap: list[Any], *, dropped: bool) -> None:
    """Replace the head, which is open, by the next job of its bucket, if there is one and it is wanted."""
    _, _, _, _, _, bucket, following, kind = heap[0]
    if not dropped:
        for (priority, order, index), job_id in following:
            heapreplace(heap, (priority, order, index, job_id, _OPEN, bucket, following, kind))
            return
    heappop(heap)
