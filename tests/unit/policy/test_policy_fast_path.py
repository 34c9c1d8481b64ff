"""The short way gives each job what the long one would: every plan is the one that is made without it."""

from __future__ import annotations

import contextlib
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from placing_cluster import PROCESS, SHARED, Cluster, host, kind, places

from gsched.model.hosts.host import Gpu
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Bucket, Plan
from gsched.policy.cycle import schedule
from gsched.policy.devices import idle_levels
from gsched.policy.match import columns_rank
from gsched.policy.match.columns_rank import Ranking
from gsched.policy.place import fast_path
from gsched.policy.place.placement import Placer
from tests.support.property_examples import examples

TEXTS = ("", "rusage[ngpus_excl_p=1]", "rusage[ngpus_excl_p=2,mem=150]", "rusage[mem=300]", "rusage[ngpus=1]",
         "select[ngpus>1] rusage[ngpus=1]", "select[mem>400] rusage[mem=200]", "order[mem] rusage[mem=100]",
         "order[-slots]", "rusage[ngpus_shared=1]", "rusage[mem=100:ngpus_excl_p=1] span[hosts=1]",
         "affinity[core(1)]")  # fmt: skip
TAKER = fast_path.taker
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
        mode, shared_jobs = draw(st.sampled_from([PROCESS, PROCESS, SHARED])), draw(st.integers(1, 2))
        cluster.devices(name, draw(st.integers(0, 4)), mode, shared_jobs, model=draw(st.sampled_from(["", "A100"])))
        if draw(st.booleans()):
            cluster.hold(name, *range(draw(st.integers(0, 1))), mem=draw(st.sampled_from([0.0, 400.0])))
    return cluster


def both(cluster: Cluster) -> tuple[Plan, Plan, int]:
    """(plan with the short way, plan without it, how many jobs took it)."""
    taken = 0

    def taker(*known: Any) -> Any:
        take = TAKER(*known)

        def counted(job_id: int) -> Any:
            nonlocal taken
            part = take(job_id)
            taken += part is not None
            return part

        return counted

    with mock.patch.object(fast_path, "taker", taker):
        short = cluster.plan()
    with mock.patch.object(Placer, "fast_path", return_value=None):
        return short, cluster.plan(), taken


@settings(max_examples=examples(50), deadline=None)
@given(clusters(), st.lists(st.tuples(kinds(), st.integers(1, 6)), min_size=1, max_size=5))
def test_each_job_gets_what_it_would_get_by_itself(cluster: Cluster, asked: list[tuple[Bucket, int]]) -> None:
    known: dict[Any, Any] = {}
    for bucket, count in asked:
        # Equal classes are one object, as in the master.
        shared = known.setdefault(bucket.requirement, bucket.requirement)
        cluster.add(bucket._replace(requirement=shared), count)
    short, long, _ = both(cluster)
    assert short == long
    cluster.carry_out(short)
    cluster.options["planned"] = short.planned
    short, long, _ = both(cluster)
    assert short == long


@settings(max_examples=examples(50), deadline=None)
@given(
    clusters(),
    st.lists(st.tuples(kinds(), st.integers(1, 6)), min_size=1, max_size=5),
    st.sampled_from([0, 1, 48]),
    st.booleans(),
)
def test_the_common_order_places_as_an_order_of_each_class_does(
    cluster: Cluster, asked: list[tuple[Bucket, int]], most_passed: int, is_short: bool
) -> None:
    for bucket, count in asked:
        cluster.add(bucket, count)
    with contextlib.ExitStack() as patched:
        if not is_short:
            patched.enter_context(mock.patch.object(Placer, "fast_path", return_value=None))
        with (
            mock.patch.object(idle_levels, "MOST_PASSED", most_passed),
            mock.patch.object(columns_rank, "_MOST_OTHERS", 99),
        ):
            common = cluster.plan()
        with mock.patch.object(Ranking, "_may_use_levels", return_value=False):
            assert cluster.plan() == common


def test_jobs_fill_one_host_after_the_other_whatever_classes_alternate() -> None:
    cluster = Cluster(host("a"), host("b"), slots=8).devices("a", 4).devices("b", 4)
    one, two = kind("rusage[ngpus_excl_p=1]"), kind("rusage[ngpus_excl_p=1,mem=100]", user="bob")
    ids = [each for _ in range(5) for bucket in (one, two) for each in cluster.add(bucket)]
    short, long, taken = both(cluster)
    assert short == long
    assert places(short) == dict(zip(ids, "aaaabbbb", strict=False))
    assert taken == 8


def test_select_sees_what_the_short_way_took() -> None:
    cluster = Cluster(host("a"), host("b", values={"r15s": 1.0}), slots=8)
    ids = cluster.add(kind("select[mem>=600] rusage[mem=200]"), 7)
    short, long, taken = both(cluster)
    assert short == long
    assert places(short) == dict(zip(ids, "aaabbb", strict=False))
    assert taken == 6


def test_where_devices_are_not_alike_jobs_go_the_long_way() -> None:
    cluster = Cluster(host("a"), slots=8)
    cluster.gpus("a", *(Gpu(uuid=f"a{i}", index=i, mode=mode) for i, mode in enumerate((SHARED, PROCESS, PROCESS))))
    cluster.add(kind("rusage[ngpus_excl_p=1]"), 3)
    short, long, taken = both(cluster)
    assert short == long and len(short.placements) == 2
    assert taken == 0


def test_the_budget_counts_the_jobs_of_the_short_way() -> None:
    cluster = Cluster(host("a"), slots=8)
    cluster.add(kind(), 8)
    plan = schedule(cluster.snapshot(), 1000.0, 6)
    assert plan.truncated and 0 < len(plan.placements) < 6
