"""Which of two jobs is served first, and the rule of the order that decides it: for whoever asks, never for a cycle.

`ServingOrder` itself is asked who comes first. The rule is told of the values that it compares (`queue_priority`, the
nodes of its share trees, ranks); nothing here sorts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from gsched.base.ids import array_of
from gsched.model.scheduling.snapshot import Bucket, JobLine, Rank, RequirementClass, Snapshot
from gsched.model.views.view import ShareView
from gsched.policy.order.fairshare import ShareNode, ShareTree, queue_priority, serving_priority
from gsched.policy.order.reserved_first import ReservedJob
from gsched.policy.order.serving_order import ServingOrder

QUEUE_PRIORITY: Final = "queue_priority"
FAIRSHARE: Final = "fairshare"
JOB_PRIORITY: Final = "job_priority"
SUBMISSION: Final = "submission"
MOVED: Final = "moved"
ELEMENT: Final = "element"
TURN: Final = "turn"
RESERVED: Final = "reserved"
MOST_SERVED = 1_000
"""Jobs that are served before the two are come to, at the most; of more, the two alone are looked at."""
_Pending = Mapping[RequirementClass, Mapping[Bucket, JobLine]]


class OrderedJob(NamedTuple):
    """A job in the order, or one that would be."""

    job_id: int
    bucket: Bucket
    rank: Rank


@dataclass(frozen=True, slots=True)
class OrderVerdict:
    """`first` is served before `second` because of `rule`: one of the words above."""

    first: OrderedJob
    second: OrderedJob
    rule: str
    shares: tuple[ShareView, ShareView] | None = None
    """Of the first and the second: where their ways in the share tree of their queue part; None: they do not."""


def who_is_first(
    snapshot: Snapshot, one: OrderedJob, other: OrderedJob, reserved: Sequence[ReservedJob] = ()
) -> OrderVerdict:
    """Of two different jobs the one that a cycle comes to first, as long as none has been placed. They are looked at
    with the others that wait where it can depend on these: with fairshare, groups take turns. `reserved`: as of
    ServingOrder, of queues with fairshare alone.
    """
    alone = replace(snapshot, pending=_contenders(snapshot, one, other))
    verdict = _first_of(alone, one, other, ())
    if not reserved:
        return verdict
    first = _first_of(alone, one, other, reserved).first
    if first == verdict.first:
        return verdict
    # Else a third job has the reservation, and comes before the second, in whose queue users take turns.
    rule = RESERVED if any(bucket == first.bucket for _, bucket in reserved) else TURN
    return OrderVerdict(first, verdict.first, rule, _turned(verdict.shares))


def _first_of(snapshot: Snapshot, one: OrderedJob, other: OrderedJob, reserved: Sequence[ReservedJob]) -> OrderVerdict:
    order = ServingOrder(snapshot, reserved=reserved)
    try:
        first = next(job_id for job_id, _ in order if job_id in (one.job_id, other.job_id))
        ahead, behind = (one, other) if first == one.job_id else (other, one)
        return _verdict(snapshot, order.trees, ahead, behind)
    finally:
        order.close()


def _turned(shares: tuple[ShareView, ShareView] | None) -> tuple[ShareView, ShareView] | None:
    return None if shares is None else (shares[1], shares[0])


def _contenders(snapshot: Snapshot, one: OrderedJob, other: OrderedJob) -> _Pending:
    """Those of the queues of their priority, or these two alone."""
    found: dict[RequirementClass, dict[Bucket, JobLine]] = {}
    queues, left = {one.bucket.queue, other.bucket.queue}, MOST_SERVED
    if any(name in snapshot.queues and snapshot.queues[name].fairshare is not None for name in queues):
        levels = {serving_priority(snapshot.queues, name) for name in queues}
        for requirement, lines in snapshot.pending.items():
            for bucket, line in lines.items():
                if serving_priority(snapshot.queues, bucket.queue) in levels:
                    found.setdefault(requirement, {})[bucket] = line
                    left -= len(line)
            if left < 0:
                found = {}
                break
    for job in (one, other):
        lines_of_class = found.setdefault(job.bucket.requirement, {})
        entries = {*lines_of_class.get(job.bucket, ()), (job.rank, job.job_id)}
        lines_of_class[job.bucket] = tuple(sorted(entries))
    return found


def _verdict(snapshot: Snapshot, trees: Mapping[str, ShareTree], first: OrderedJob, second: OrderedJob) -> OrderVerdict:
    queues = snapshot.queues
    names = (first.bucket.queue, second.bucket.queue)
    if serving_priority(queues, names[0]) != serving_priority(queues, names[1]):
        return OrderVerdict(first, second, QUEUE_PRIORITY)
    tree = trees.get(names[0]) if trees.get(names[0]) is trees.get(names[1]) else None
    nodes = None if tree is None else _parting(tree, first.bucket, second.bucket)
    shares = None if tree is None or nodes is None else (tree.row_of(nodes[0]), tree.row_of(nodes[1]))
    if shares is not None and shares[0].priority != shares[1].priority:
        return OrderVerdict(first, second, FAIRSHARE, shares)
    if tree is not None and queue_priority(queues, names[0]) != queue_priority(queues, names[1]):
        return OrderVerdict(first, second, QUEUE_PRIORITY)
    if (first.rank, first.job_id) > (second.rank, second.job_id):
        return OrderVerdict(first, second, TURN, shares)
    return OrderVerdict(first, second, _rule_of_ranks(first, second), shares)


def _parting(tree: ShareTree, first: Bucket, second: Bucket) -> tuple[ShareNode, ShareNode] | None:
    one, other = _way(tree.leaf(first.user, first.user_group)), _way(tree.leaf(second.user, second.user_group))
    return next(((a, b) for a, b in zip(one, other, strict=False) if a is not b), None)


def _way(leaf: ShareNode) -> list[ShareNode]:
    """From the top of the tree to the leaf."""
    way, node = [leaf], leaf.parent
    while node is not None:
        way.append(node)
        node = node.parent
    return way[::-1]


def _rule_of_ranks(first: OrderedJob, second: OrderedJob) -> str:
    if first.rank.priority != second.rank.priority:
        return JOB_PRIORITY
    if first.rank.order == second.rank.order:
        return ELEMENT
    is_moved = any(each.rank.order != array_of(each.job_id) for each in (first, second))
    return MOVED if is_moved else SUBMISSION
