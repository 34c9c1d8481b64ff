"""A start is planned for the first job of a queue, and for the first on hosts that none of those before it can use."""

from __future__ import annotations

from placing_cluster import host, kind
from test_policy_limits_ahead import on
from timed_cluster import TimedCluster

from gsched.base.coded_text import sentence
from gsched.model.queues.queue import Queue


def cluster_of(**queue: object) -> TimedCluster:
    """Hosts a, b and c, each full until 100, 200 and 300."""
    queues = [Queue(name="q", backfill=True, **queue), Queue(name="r")]  # type: ignore[arg-type]
    cluster = TimedCluster(host("a"), host("b"), host("c"), queues=queues)
    for name, until in (("a", 100.0), ("b", 200.0), ("c", 300.0)):
        cluster.hold_until(until, kind(queue="r"), on(name, 8))
    return cluster


def test_jobs_on_hosts_of_their_own_are_planned_too() -> None:
    cluster = cluster_of()
    first, second, _ = (cluster.add(kind(slots=8, run_s=60.0, asked_hosts=(name,)))[0] for name in ("a", "b", "b"))
    cluster.add(kind(slots=8, run_s=60.0, asked_hosts=("a", "c")))
    cluster.step(0.0)
    planned = {job_id: plan.at for job_id, plan in cluster.planned.items() if plan.hosts}
    assert planned == {first: 100.0, second: 200.0}


def test_who_can_use_all_hosts_leaves_no_hosts_apart() -> None:
    cluster = cluster_of()
    (first,) = cluster.add(kind(slots=8, run_s=60.0))
    cluster.add(kind(slots=8, run_s=60.0, asked_hosts=("c",)))
    cluster.step(0.0)
    assert [job_id for job_id, plan in cluster.planned.items() if plan.hosts] == [first]


def test_nothing_is_reserved_where_the_queue_says_so() -> None:
    cluster = cluster_of(reserved_jobs=0)
    cluster.add(kind(slots=8, run_s=60.0))
    cluster.step(0.0)
    assert not cluster.planned
    (small,) = cluster.add(kind(slots=1, run_s=500.0))
    cluster.step(100.0)  # the big one has the host, as it comes first
    assert small not in cluster.started
    cluster.step(200.0)
    assert cluster.started[small] == 200.0


def test_a_job_that_can_never_start_takes_no_place() -> None:
    cluster = cluster_of()
    (never,) = cluster.add(kind("span[hosts=1]", slots=9, run_s=60.0))
    (big,) = cluster.add(kind(slots=8, run_s=60.0))
    cluster.step(0.0)
    assert not cluster.planned[never].hosts and cluster.planned[big].at == 100.0


def test_who_can_never_start_is_told_so_behind_the_planned_ones_too() -> None:
    cluster = cluster_of()
    (first,) = cluster.add(kind(slots=8, run_s=60.0))
    behind = [cluster.add(kind("span[hosts=1]", slots=9 + number, run_s=60.0))[0] for number in range(6)]
    (could,) = cluster.add(kind(slots=7, run_s=60.0))
    cluster.step(0.0)
    cluster.step(1.0)  # so many are looked at in one cycle
    assert cluster.planned[first].at == 100.0
    assert all(sentence(cluster.planned[each].text).startswith("never: Not enough") for each in behind)
    assert not cluster.planned[could].text and not cluster.planned[could].hosts


def test_who_was_told_nothing_behind_the_planned_one_is_planned_when_it_comes_first() -> None:
    cluster = cluster_of()
    (first,) = cluster.add(kind(slots=8, run_s=60.0))
    (second,) = cluster.add(kind(slots=7, run_s=60.0))
    cluster.step(0.0)
    assert not cluster.planned[second].hosts
    cluster.pending = {bucket: ids for bucket, ids in cluster.pending.items() if first not in ids}
    cluster.first_promise.clear()
    cluster.step(1.0)
    assert cluster.planned[second].at == 100.0
