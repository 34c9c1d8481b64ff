"""Streaks of equal jobs give each job what it would get by itself: every plan is the one that is made job by job."""

from __future__ import annotations

from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from placing_cluster import Cluster, host, kind, places

from gsched.model.queue import Queue
from gsched.model.snapshot import Bucket, Plan
from gsched.policy.cycle import schedule
from gsched.policy.place import Placer
from gsched.policy.streak import Streak

TEXTS = ("", "rusage[ngpus_excl_p=1]", "rusage[ngpus_excl_p=2,mem=150]", "rusage[mem=300]", "rusage[ngpus=1]",
         "select[ngpus>1] rusage[ngpus=1]", "select[mem>400] rusage[mem=200]", "order[mem] rusage[mem=100]",
         "order[-slots]", "rusage[ngpus_shared=1]", "rusage[mem=100:ngpus_excl_p=1] span[hosts=1]",
         "affinity[core(1)]")  # fmt: skip
GPUS = ("", "", "num=1", "num=2:mode=exclusive_process", "share=0.5", "num=1:gpack=yes")


@st.composite
def kinds(draw: st.DrawFn) -> Bucket:
    return kind(
        draw(st.sampled_from(TEXTS)),
        queue=draw(st.sampled_from(["q", "r"])),
        user=draw(st.sampled_from(["ann", "bob"])),
        slots=draw(st.integers(1, 2)),
        gpu=draw(st.sampled_from(GPUS)),
        run_s=draw(st.sampled_from([None, 60.0])),
        exclusive=draw(st.integers(0, 9)) == 0,
        avoid_host=draw(st.sampled_from(["", "", "b"])),
        job_group=draw(st.sampled_from(["", "", "/g"])),
    )


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    names = "abcd"[: draw(st.integers(1, 4))]
    limited: dict[str, Any] = draw(st.sampled_from([{}, {}, {"user_limit": 3}, {"job_limit": 4}, {"host_limit": 2}]))
    options: dict[str, Any] = draw(
        st.sampled_from(
            [
                {},
                {},
                {"user_limits": {"ann": 3.0}},
                {"job_group_limits": {"/g": 2}},
                {"reserve_cores_per_gpu": 2},
                {"job_accept_interval_s": 1.0},
            ]
        )
    )
    cluster = Cluster(
        *[host(name, values={"r15s": draw(st.sampled_from([0.0, 1.0]))}) for name in names],
        slots=draw(st.sampled_from([4, 8, None])),
        queues=(Queue(name="q", priority=draw(st.sampled_from([1, 2])), **limited), Queue(name="r", priority=1)),
        **options,
    )
    for name in names:
        cluster.devices(name, draw(st.integers(0, 4)), model=draw(st.sampled_from(["", "A100"])))
        if draw(st.booleans()):
            cluster.hold(name, *range(draw(st.integers(0, 1))), mem=draw(st.sampled_from([0.0, 400.0])))
    return cluster


def both(cluster: Cluster) -> tuple[Plan, Plan, int]:
    """(in streaks, job by job, how many jobs a streak placed)."""
    with mock.patch.object(Streak, "take", autospec=True, side_effect=Streak.take) as taken:
        fast = cluster.plan()
    with mock.patch.object(Placer, "streak", return_value=None):
        return fast, cluster.plan(), taken.call_count


@settings(max_examples=300, deadline=None)
@given(clusters(), st.lists(st.tuples(kinds(), st.integers(1, 6)), min_size=1, max_size=5))
def test_each_job_gets_what_it_would_get_by_itself(cluster: Cluster, asked: list[tuple[Bucket, int]]) -> None:
    known: dict[Any, Any] = {}
    for bucket, count in asked:
        # Equal classes are one object, as in the master.
        shared = known.setdefault(bucket.requirement, bucket.requirement)
        cluster.add(bucket._replace(requirement=shared), count)
    fast, single, _ = both(cluster)
    assert fast == single
    cluster.carry_out(fast)
    cluster.options["planned"] = fast.planned
    fast, single, _ = both(cluster)
    assert fast == single


def test_equal_jobs_fill_a_host_in_a_streak_and_then_the_next() -> None:
    cluster = Cluster(host("a"), host("b"), slots=8).devices("a", 4).devices("b", 4)
    bucket = kind("rusage[ngpus_excl_p=1]")
    ids = cluster.add(bucket, 3) + cluster.add(bucket._replace(user="bob"), 6)
    fast, single, taken = both(cluster)
    assert fast == single
    assert places(fast) == dict(zip(ids, "aaaabbbb", strict=False))
    assert taken >= 4


def test_a_streak_ends_where_another_class_comes_between() -> None:
    cluster = Cluster(host("a"), host("b"), slots=4).devices("a", 2).devices("b", 2)
    one, two = kind("rusage[ngpus_excl_p=1]"), kind("rusage[mem=100]", slots=3)
    for bucket in (one, one, one, two, one):
        cluster.add(bucket)
    fast, single, _ = both(cluster)
    assert fast == single


def test_the_budget_counts_the_jobs_of_a_streak() -> None:
    cluster = Cluster(host("a"), slots=8)
    cluster.add(kind(), 8)
    plan = schedule(cluster.snapshot(), 1000.0, 6)
    assert plan.truncated and 0 < len(plan.placements) < 6
