"""The first jobs of classes that were passed over come in serving order, where shares say who is next too."""

from __future__ import annotations

from planning_cluster import Ask, Cluster, kind

from gsched.model.queue import Queue
from gsched.model.snapshot import Bucket, FairshareUse
from gsched.model.user import Share
from gsched.policy.order.blocked_heads import first_jobs, kind_of
from gsched.policy.order.fairshare import tree_of

FAIR = Queue(name="fair", priority=5, fairshare=(Share("ann", 1), Share("bob", 1)))
PLAIN = Queue(name="plain", priority=5)
HIGH = Queue(name="high", priority=9)


def of(user: str, slots: int = 8, queue: str = "fair") -> Bucket:
    return kind(Ask(slots))._replace(user=user, queue=queue)


def cluster(*jobs: Bucket) -> Cluster:
    """The jobs are numbered from 1. Ann has used much."""
    made = Cluster(queues=(FAIR, PLAIN, HIGH), shares={"fair": {"ann": FairshareUse(run_s=1e6)}})
    for bucket in jobs:
        made.wait(bucket)
    return made


def firsts(made: Cluster, **more: object) -> list[int]:
    kinds = {kind_of(bucket) for bucket in made.waiting.values()}
    return [job_id for job_id, _ in first_jobs(made.snapshot(), kinds, **more)]  # type: ignore[arg-type]


def test_of_a_class_the_job_of_him_whose_turn_it_is() -> None:
    assert firsts(cluster(of("ann"), of("bob"), of("bob"))) == [2]


def test_classes_come_in_the_order_of_turns() -> None:
    assert firsts(cluster(of("ann", 8), of("ann", 7), of("bob", 6))) == [3, 1, 2]


def test_queues_of_higher_priority_come_first_and_equal_ones_are_merged() -> None:
    made = cluster(of("ann", 8), of("cat", 7, "plain"), of("bob", 6), of("cat", 5, "high"))
    assert firsts(made) == [4, 2, 3, 1]


def test_what_the_cycle_has_placed_counts() -> None:
    made = cluster(of("ann"), of("bob"))
    tree = tree_of(made.snapshot(), FAIR)
    tree.placed(tree.leaf("bob"), 10**6)
    assert firsts(made, trees={"fair": tree}) == [1]


def test_without_fairshare_the_first_come() -> None:
    assert firsts(cluster(of("bob", 8, "plain"), of("ann", 8, "plain"), of("ann", 7, "plain"))) == [1, 3]


def test_who_has_been_placed_waits_no_more() -> None:
    plain = cluster(of("bob", 8, "plain"), of("ann", 8, "plain"), of("ann", 7, "plain"))
    assert firsts(plain, started={1, 3}) == [2]
    fair = cluster(of("ann"), of("bob"), of("bob"), of("ann", 7))
    assert firsts(fair, started={2}) == [3, 4]
    assert firsts(fair, started={2, 3, 4}) == [1]
