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

`reserved`: jobs that something is reserved for; only those of queues with fairshare count.
`live`: the requirement classes that could be placed on some host; None: all. `closed`: queues that start nothing
(gsched.policy.limits.job_limits.LimitUse.closed_queues). Jobs of other classes and of those queues are never touched.

The order, with every tie-break:
- The queue of larger PRIORITY first. A queue that no longer exists has priority 0.
- Queues of one share tree (FAIRSHARE_QUEUES) are one queue, at the largest priority of theirs; of one user those of the
  queue of larger PRIORITY come first. With DISPATCH_ORDER=QUEUE each is served at its own.
- Queues of equal priority are one queue: those without fairshare are merged by rank; one with fairshare offers the
  first job of the user whose turn it is; of all these offers the smallest (rank, job id) is served.
- Without fairshare: the smallest (rank, job id).
- With fairshare: jobs that something is reserved for, in the order in which they are named; then, from the top of the
  share tree down, the group or user of the largest dynamic priority among those who have a job to serve; among equals
  the one whose next job is of the queue of larger PRIORITY, then has the smallest (rank, job id). Then his jobs, alike.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from itertools import chain

from gsched.model.ledgers.allocation import Allocation
from gsched.model.scheduling.snapshot import Bucket, JobLine, RequirementClass, Snapshot, index_of_queues, queues_of
from gsched.policy.order.arrival_order import BUCKET, JOB, Arrivals, ClassInQueue
from gsched.policy.order.fairshare import ShareTree, queue_priority, serving_priority, tree_of
from gsched.policy.order.fairshare_turns import ShareTurns
from gsched.policy.order.reserved_first import ReservedFirst, ReservedJob

ReasonKey = Bucket | tuple[str, RequirementClass]
"""A key of Plan.reasons: one bucket, or all jobs of a class in a queue."""


class ServingOrder:
    """See the module. Iterate once."""

    def __init__(
        self,
        snapshot: Snapshot,
        live: Container[RequirementClass] | None = None,
        closed: Collection[str] = (),
        trees: Mapping[str, ShareTree] | None = None,
        reserved: Iterable[ReservedJob] = (),
    ) -> None:
        """`trees`: share trees of queues to go on with."""
        self._snapshot = snapshot
        self._kinds: dict[str, dict[RequirementClass, ClassInQueue]] = {}
        self._trees: dict[str, ShareTree] = dict(trees or {})
        self._reserved: dict[str, list[ReservedJob]] = {}
        for job in reserved:
            self._reserved.setdefault(_owner(snapshot, job[1].queue), []).append(job)
        self._untouched: list[RequirementClass] = []
        self._owed: dict[ReasonKey, None] = {}
        self._dropped: set[Bucket] = set()
        self._over: set[str] = set()
        """Queues whose turn is over."""
        self._arrivals: dict[str, Arrivals] = {}
        """Queue without fairshare whose turn has begun -> the jobs of all of its priority."""
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
        """Queues by PRIORITY, the largest first; the jobs of queues of equal PRIORITY together."""
        queues = self._snapshot.queues
        levels: dict[int, list[str]] = {}
        for name in sorted(self._kinds):
            levels.setdefault(serving_priority(queues, name), []).append(name)
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

    def has_others(self, classes: Container[ReasonKey]) -> bool:
        """Whether perhaps a job is to be served yet that is of none of these classes of queues."""
        for name, kinds in self._kinds.items():
            if name in self._over:
                continue
            arrivals = self._arrivals.get(name)
            for requirement, kind in kinds.items():
                if kind.dead or (name, requirement) in classes:
                    continue
                if arrivals is None or arrivals.has(kind):
                    return True
        return False

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

    def close(self) -> None:
        """End it, and break its reference cycles, so that memory is freed at once."""
        for kinds in self._kinds.values():
            for kind in kinds.values():
                kind.close()
        for arrivals in self._arrivals.values():
            arrivals.close()

    def _sort_in(self, requirement: RequirementClass, buckets: Mapping[Bucket, JobLine]) -> None:
        for queue in queues_of(self._snapshot.pending, requirement):
            self._kinds.setdefault(queue, {})[requirement] = ClassInQueue(queue, requirement, buckets)

    def _serve(self, names: list[str]) -> Iterator[tuple[int, Bucket]]:
        """The jobs of queues of one priority."""
        turns: list[Arrivals | ShareTurns | ReservedFirst] = []
        arriving: list[str] = []
        sharing: dict[str, list[str]] = {}
        for name in names:
            queue = self._snapshot.queues.get(name)
            if queue is not None and queue.fairshare is not None:
                sharing.setdefault(queue.share_owner, []).append(name)
            else:
                arriving.append(name)
        turns += [self._take_turns(each) for each in sharing.values()]
        if arriving:
            turns.append(self._arrive(arriving))
        others = turns[1:]
        while turns:
            chosen, first = turns[0], turns[0].head()
            for other in others:
                head = other.head()
                if first is None or (head is not None and head < first):
                    chosen, first = other, head
            if first is None:
                break
            bucket = first[BUCKET]
            self._current, self._is_current_dropped = bucket, False
            yield first[JOB], bucket
            chosen.advance(dropped=self._is_current_dropped)
        self._current = None
        self._over.update(names)

    def _arrive(self, names: list[str]) -> Arrivals:
        """The jobs of queues without fairshare."""
        kinds = [kind for name in names for kind in self._kinds[name].values()]
        arrivals = Arrivals(kinds, self._dropped, index_of_queues(self._snapshot.pending))
        self._arrivals.update(dict.fromkeys(names, arrivals))
        return arrivals

    def _take_turns(self, names: list[str]) -> ShareTurns | ReservedFirst:
        """The jobs of queues of one share tree."""
        queues = self._snapshot.queues
        queue = queues[names[0]]
        tree = self._trees.get(queue.name) or tree_of(self._snapshot, queue)
        self._trees.update(dict.fromkeys(queue.share_queues or names, tree))
        kinds = [kind for name in names for kind in self._kinds[name].values()]
        priorities = {name: queue_priority(queues, name) for name in names} if len(names) > 1 else None
        turns = ShareTurns(tree, kinds, self._dropped, priorities)
        reserved = [job for job in self._reserved.get(queue.share_owner, ()) if job[1].queue in names]
        return ReservedFirst(turns, kinds, reserved, self._dropped) if reserved else turns


def _owner(snapshot: Snapshot, name: str) -> str:
    queue = snapshot.queues.get(name)
    return name if queue is None else queue.share_owner
