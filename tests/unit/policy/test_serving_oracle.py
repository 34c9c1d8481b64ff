"""The judge of order and idle GPUs: it finds each defect in histories made by hand, and nothing in clean ones."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.support.serving_order.serving_history import PastCluster, PastJob, PastQueue, Run
from tests.support.serving_order.serving_oracle import judge
from tests.support.serving_order.serving_verdict import Verdict

ONE_HOST = {"a": (4, 16)}
TWO_HOSTS = {"a": (4, 16), "b": (4, 16)}


def ran(number: int, start: float, end: float, *hosts: str, **more: Any) -> PastJob:
    """A job that ran; it was submitted at 0, in order of the numbers, unless told otherwise."""
    run = Run(start=start, end=end, hosts=hosts or ("a",))
    return PastJob(**({"number": number, "submitted": 0.0, "hosts": len(run.hosts), "runs": (run,)} | more))


def waits(number: int, **more: Any) -> PastJob:
    """A job that never started."""
    return PastJob(**({"number": number, "submitted": 0.0} | more))


def found(verdict: Verdict) -> list[tuple[int, int, bool]]:
    return [(each.job, each.older, each.delayed) for each in verdict.inversions]


def assert_clean(verdict: Verdict) -> None:
    assert verdict.inversions == () and verdict.idle == (), [*map(str, (*verdict.inversions, *verdict.idle))]


def queue(**more: Any) -> dict[str, PastQueue]:
    return {"normal": PastQueue(**more)}


def test_nothing_happened() -> None:
    assert_clean(judge(PastCluster(hosts=ONE_HOST), []))


def test_first_come_first_served_is_clean() -> None:
    jobs = [ran(n, 10.0 * ((n - 1) // 4), 10.0 * ((n - 1) // 4) + 10.0) for n in range(1, 13)]
    assert_clean(judge(PastCluster(hosts=ONE_HOST), jobs))


def test_big_job_that_starts_before_older_small_ones() -> None:
    small = [ran(n, 0.0, 10.0) for n in range(1, 5)] + [ran(n, 20.0, 30.0) for n in range(5, 9)]
    verdict = judge(PastCluster(hosts=ONE_HOST), [*small, ran(9, 10.0, 20.0, gpus=4, submitted=0.5)])
    assert found(verdict) == [(9, 5, False)]
    assert str(verdict.inversions[0]) == (
        "job 9 started at 10 before job 5, which could have started instead and waits on"
    )
    assert verdict.idle == ()


def test_the_same_is_right_where_the_big_job_has_the_larger_sp() -> None:
    small = [ran(n, 0.0, 10.0) for n in range(1, 5)] + [ran(n, 20.0, 30.0) for n in range(5, 9)]
    assert_clean(judge(PastCluster(hosts=ONE_HOST), [*small, ran(9, 10.0, 20.0, gpus=4, submitted=0.5, priority=9)]))


def test_smaller_sp_that_starts_first() -> None:
    jobs = [ran(1, 0.0, 10.0, gpus=4, priority=1), ran(2, 10.0, 20.0, gpus=4, priority=90)]
    assert found(judge(PastCluster(hosts=ONE_HOST), jobs)) == [(1, 2, False)]


def test_several_small_jobs_that_took_what_a_big_one_could_have_had() -> None:
    big = ran(1, 20.0, 30.0, gpus=4)
    small = [ran(n, 10.0, 20.0, submitted=5.0) for n in range(2, 6)]
    verdict = judge(PastCluster(hosts=ONE_HOST), [ran(9, 0.0, 10.0, gpus=4, submitted=-1.0), big, *small])
    assert found(verdict) == [(n, 1, False) for n in range(2, 6)]


def test_queue_of_larger_priority_comes_first_and_queues_do_not_mix_otherwise() -> None:
    queues = {"high": PastQueue(priority=9), "low": PastQueue(priority=1)}
    first = [ran(1, 0.0, 10.0, gpus=4, queue="low"), ran(2, 10.0, 20.0, gpus=4, queue="high")]
    assert found(judge(PastCluster(hosts=ONE_HOST, queues=queues), first)) == [(1, 2, False)]
    other = [ran(1, 10.0, 20.0, gpus=4, queue="low"), ran(2, 0.0, 10.0, gpus=4, queue="high", submitted=0.0)]
    assert_clean(judge(PastCluster(hosts=ONE_HOST, queues=queues), other))


@pytest.mark.parametrize(
    "own",
    [{"usable": frozenset("b")}, {"held": ((0.0, 20.0),)}, {"counts_in": ("ann",)}],
    ids=["requirement", "hold", "limit"],
)
def test_older_job_that_could_not_start_then(own: dict[str, Any]) -> None:
    """Host b is full until 20, a hold ends then, and so does the job that the limit counts already."""
    cluster = PastCluster(hosts=TWO_HOSTS, most_jobs={"ann": 1})
    there = ran(1, 0.0, 20.0, "b", gpus=4, counts_in=("ann",))
    host = "b" if "usable" in own else "a"
    jobs = [there, ran(2, 20.0, 30.0, host, gpus=2, **own), ran(3, 5.0, 20.0, "a", gpus=2, submitted=5.0)]
    assert_clean(judge(cluster, jobs))
    plain = [there, ran(2, 20.0, 30.0, host, gpus=2), ran(3, 5.0, 20.0, "a", gpus=2, submitted=5.0)]
    assert found(judge(cluster, plain)) == [(3, 2, False)]


def test_limit_that_the_later_job_has_used_up() -> None:
    cluster = PastCluster(hosts=ONE_HOST, most_jobs={"ann": 1})
    jobs = [ran(1, 10.0, 20.0, counts_in=("ann",)), ran(2, 0.0, 10.0, counts_in=("ann",))]
    verdict = judge(cluster, jobs)
    assert found(verdict) == [(2, 1, False)]
    assert verdict.idle == ()  # the limit was full


# -- reservations -----------------------------------------------------------------------------------------------------


def with_head(limit: float | None, ends: float, head_at: float = 10.0) -> list[PastJob]:
    """Two GPUs are in use until 10, the head wants all four, a later job takes one from 1 on."""
    return [
        ran(1, 0.0, 10.0, gpus=2, limit_s=10.0),
        ran(2, head_at, head_at + 10.0, gpus=4, limit_s=10.0),
        ran(3, 1.0, ends, gpus=2, limit_s=limit, submitted=1.0),
    ]


def test_backfill_that_ends_in_time_is_clean() -> None:
    assert_clean(judge(PastCluster(hosts=ONE_HOST), with_head(9.0, 10.0)))


@pytest.mark.parametrize("limit", [9.5, None])
def test_backfill_that_may_run_longer_delays_the_first_job(limit: float | None) -> None:
    """By what was known: it may have ended in time all the same."""
    verdict = judge(PastCluster(hosts=ONE_HOST), with_head(limit, 10.0))
    assert found(verdict) == [(3, 2, True)]
    assert str(verdict.inversions[0]).endswith("before job 2, whose reservation it puts off and waits on")
    assert_clean(judge(PastCluster(hosts=ONE_HOST, queues=queue(reserved=0)), with_head(limit, 10.0)))


def test_estimate_stands_for_a_limit() -> None:
    assert_clean(judge(PastCluster(hosts=ONE_HOST, estimate_s=9.0), with_head(None, 10.0)))
    assert found(judge(PastCluster(hosts=ONE_HOST, estimate_s=90.0), with_head(None, 10.0))) == [(3, 2, True)]


def test_a_job_whose_time_nobody_knows_does_not_wait_for_those_who_started_since() -> None:
    """Unless they have a limit: they end before those of whom nobody knows when."""
    first = ran(1, 0.0, 10.0, gpus=2)
    verdict = judge(PastCluster(hosts=ONE_HOST), [first, *with_head(None, 10.0)[1:]])
    assert found(verdict) == [(3, 2, True)]
    assert_clean(judge(PastCluster(hosts=ONE_HOST), [first, *with_head(50.0, 10.0)[1:]]))


def test_beside_a_job_whose_time_nobody_knows_others_start_where_it_would_still_fit() -> None:
    """It wants three of four GPUs of one of the hosts: one job beside it on the first, and any on the second."""
    head = ran(2, 10.0, 20.0, "a", gpus=3, limit_s=10.0)
    running = [ran(1, 0.0, 10.0, "a", gpus=2), ran(5, 0.0, 30.0, "b", gpus=2, priority=1)]
    beside = ran(3, 1.0, 10.0, "a", submitted=1.0)
    elsewhere = [ran(n, 1.0, 10.0, "b", submitted=1.0) for n in (6, 7)]
    assert_clean(judge(PastCluster(hosts=TWO_HOSTS), [*running, head, beside, *elsewhere]))
    waited = [replace(each, submitted=0.0) for each in elsewhere]
    idle = judge(PastCluster(hosts=TWO_HOSTS), [*running, head, beside, *waited]).idle
    assert [(each.at, each.gpus) for each in idle] == [(0.0, 2)]
    too_many = replace(beside, number=4)
    assert found(judge(PastCluster(hosts={"a": (4, 16)}), [running[0], head, beside, too_many])) == [(4, 2, True)]


def test_two_backfills_of_which_only_both_delay() -> None:
    """The head wants three of four at 10; one that runs on may stay, the second takes what it needs."""
    head = ran(2, 10.0, 20.0, gpus=3, limit_s=10.0)
    late = [ran(n, 1.0, 10.0, gpus=1, limit_s=100.0, submitted=1.0) for n in (3, 4)]
    verdict = judge(PastCluster(hosts=ONE_HOST), [ran(1, 0.0, 10.0, gpus=2, limit_s=10.0), head, *late])
    assert found(verdict) == [(4, 2, True)]
    assert_clean(judge(PastCluster(hosts=ONE_HOST), [ran(1, 0.0, 10.0, gpus=2, limit_s=10.0), head, late[0]]))


def test_backfill_on_a_host_that_the_gang_does_not_need() -> None:
    hosts = TWO_HOSTS | {"c": (2, 16)}
    gang = ran(3, 10.0, 20.0, "a", "b", gpus=4, limit_s=10.0)
    busy = [ran(1, 0.0, 10.0, "a", gpus=4, limit_s=10.0)]
    aside = ran(4, 1.0, 50.0, "c", gpus=2, submitted=1.0)
    assert_clean(judge(PastCluster(hosts=hosts), [*busy, gang, aside]))
    inside = ran(4, 1.0, 10.0, "b", gpus=2, submitted=1.0)
    assert found(judge(PastCluster(hosts=hosts), [*busy, gang, inside])) == [(4, 3, True)]


def test_conservative_protects_more_than_the_first() -> None:
    """Job 2 waits for all of host a until 10, job 3 for all of b until 20; job 4 runs on b beyond that."""
    jobs = [
        ran(1, 0.0, 10.0, "a", gpus=4, limit_s=10.0),
        ran(5, 0.0, 20.0, "b", gpus=2, limit_s=20.0),
        ran(2, 10.0, 40.0, "a", gpus=4, limit_s=30.0, submitted=1.0),
        ran(3, 20.0, 40.0, "b", gpus=4, limit_s=20.0, submitted=1.0),
        ran(4, 2.0, 20.0, "b", gpus=2, limit_s=30.0, submitted=2.0),
    ]
    assert_clean(judge(PastCluster(hosts=TWO_HOSTS), jobs))
    assert found(judge(PastCluster(hosts=TWO_HOSTS, queues=queue(reserved=2)), jobs)) == [(4, 3, True)]


@pytest.mark.parametrize("bound", [False, True])
def test_what_is_reserved_for_the_second_depends_on_where_the_first_is(bound: bool) -> None:
    """The first waits for 3 GPUs until 100, on host a or b. The second, which wants all of a host, has a at 100 if the
    first has to be on b; else that may be on a, and the second has b at 300: job 6, which is on a until 410, delays it
    only where the first is bound.
    """
    jobs = [
        ran(1, 0.0, 100.0, "a", gpus=3, limit_s=100.0),
        ran(2, 0.0, 100.0, "b", gpus=3, limit_s=100.0),
        ran(3, 0.0, 300.0, "b", gpus=1, limit_s=300.0),
        ran(4, 100.0, 600.0, "b" if bound else "a", gpus=3, limit_s=500.0, usable=frozenset("b") if bound else None),
        ran(5, 410.0 if bound else 300.0, 600.0, "a" if bound else "b", gpus=4, limit_s=300.0),
        ran(6, 10.0, 410.0, "a", gpus=1, limit_s=400.0, submitted=10.0),
    ]
    verdict = judge(PastCluster(hosts=TWO_HOSTS, queues=queue(reserved=2)), jobs)
    assert found(verdict) == ([(6, 5, True)] if bound else [])


def test_limit_counts_nobody_for_whose_end_a_reservation_waits() -> None:
    """Two jobs of Ann may run at once. Job 3, which wants all of host a, waits for job 1 of which nobody knows when it
    ends, and job 4 for host b until 16: beside job 1 first, then beside job 3. So nothing is left for job 5 till then.
    """
    ann = {"counts_in": ("ann",)}
    jobs = [
        ran(1, 0.0, 100.0, "a", **ann),
        ran(2, 0.0, 16.0, "b", gpus=4, limit_s=16.0),
        ran(3, 100.0, 110.0, "a", gpus=4, usable=frozenset("a"), **ann),
        ran(4, 16.0, 50.0, "b", gpus=4, **ann),
        ran(5, 50.0, 60.0, "a", limit_s=200.0, **ann),
    ]
    assert_clean(judge(PastCluster(hosts=TWO_HOSTS, most_jobs={"ann": 2}, queues=queue(reserved=2)), jobs))
    (idle,) = judge(PastCluster(hosts=TWO_HOSTS, most_jobs={"ann": 2}), jobs).idle
    assert (idle.at, idle.until, idle.gpus, idle.job) == (0.0, 16.0, 1, 5)


def test_each_has_its_earliest_start_beside_those_before_it_wherever_they_are() -> None:
    """Nobody knows when job 4 starts, nor whether on host a or b. If on a, jobs 5 and 6 could start at once; as it is
    on b, they have to wait for a, and job 7 delays nobody on b.
    """
    jobs = [
        ran(1, 0.0, 200.0, "a"),
        ran(2, 0.0, 100.0, "b"),
        ran(3, 0.0, 48.0, "a", gpus=3, limit_s=48.0),
        ran(4, 100.0, 110.0, "b", gpus=4),
        ran(5, 48.0, 150.0, "a", gpus=2),
        ran(6, 48.0, 150.0, "a"),
        ran(7, 0.0, 90.0, "b", gpus=2, limit_s=138.0),
    ]
    assert_clean(judge(PastCluster(hosts=TWO_HOSTS, queues=queue(reserved=3)), jobs))


def test_job_too_large_for_the_cluster_has_no_reservation() -> None:
    jobs = [ran(1, 0.0, 10.0, gpus=2, limit_s=10.0), waits(2, gpus=5), ran(3, 1.0, 50.0, gpus=2, submitted=1.0)]
    assert_clean(judge(PastCluster(hosts=ONE_HOST), jobs))


def test_older_small_job_may_wait_where_it_would_delay_and_the_younger_would_not() -> None:
    head = ran(2, 10.0, 20.0, gpus=4, limit_s=10.0)
    long, short = ran(3, 20.0, 70.0, gpus=2, limit_s=50.0), ran(4, 1.0, 10.0, gpus=2, limit_s=9.0, submitted=1.0)
    running = ran(1, 0.0, 10.0, gpus=2, limit_s=10.0)
    assert_clean(judge(PastCluster(hosts=ONE_HOST), [running, head, long, short]))
    alike = ran(3, 20.0, 29.0, gpus=2, limit_s=9.0)
    assert (4, 3, False) in found(judge(PastCluster(hosts=ONE_HOST), [running, head, alike, short]))


# -- idle GPUs --------------------------------------------------------------------------------------------------------


def test_idle_gpus_for_a_younger_job() -> None:
    """Three of four GPUs are left idle until the big job's turn, though small ones wait and nobody knows when it is."""
    small = [ran(1, 0.0, 10.0), *(ran(n, 20.0, 30.0) for n in range(2, 6))]
    verdict = judge(PastCluster(hosts=ONE_HOST), [*small, ran(9, 10.0, 20.0, gpus=4, submitted=0.0)])
    (idle,) = verdict.idle
    assert (idle.at, idle.until, idle.gpus, idle.job) == (0.0, 10.0, 3, 2)
    assert verdict.idle_gpu_seconds == 30.0
    assert str(idle) == "3 GPUs were idle from 0 to 10 while job 2 waited"
    assert found(verdict) == [(9, 2, False)]


def test_gpus_kept_for_the_first_job_are_not_idle_for_nothing() -> None:
    jobs = [
        ran(1, 0.0, 10.0, gpus=2, limit_s=10.0),
        ran(2, 10.0, 20.0, gpus=4, limit_s=10.0),
        ran(3, 20.0, 70.0, gpus=2, limit_s=50.0),
    ]
    assert_clean(judge(PastCluster(hosts=ONE_HOST), jobs))
    (idle,) = judge(PastCluster(hosts=ONE_HOST, queues=queue(reserved=0)), jobs).idle
    assert (idle.at, idle.until, idle.gpus, idle.job) == (0.0, 10.0, 2, 3)
    short = ran(3, 20.0, 25.0, gpus=2, limit_s=10.0)
    (idle,) = judge(PastCluster(hosts=ONE_HOST), [*jobs[:2], short]).idle
    assert (idle.gpus, idle.job) == (2, 3)


def test_idle_only_as_far_as_limits_admit_and_for_longer_than_the_grace() -> None:
    cluster = PastCluster(hosts=ONE_HOST, most_jobs={"ann": 2})
    jobs = [waits(n, counts_in=("ann",), left_at=50.0) for n in (1, 2, 3)]
    (idle,) = judge(cluster, jobs).idle
    assert (idle.gpus, idle.gpu_seconds) == (2, 100.0)
    assert judge(cluster, jobs, grace_s=50.0).idle == ()
    (idle,) = judge(cluster, jobs, until=10.0).idle
    assert idle.gpu_seconds == 20.0


def test_gpus_free_on_too_few_hosts_are_not_idle() -> None:
    busy = [ran(1, 0.0, 10.0, "a", gpus=2, limit_s=10.0), ran(2, 0.0, 10.0, "b", gpus=2, limit_s=10.0)]
    assert_clean(judge(PastCluster(hosts=TWO_HOSTS), [*busy, ran(3, 10.0, 20.0, "a", gpus=3)]))


# -- fairshare, and what is not in order ------------------------------------------------------------------------------


def test_turn_of_the_user_who_has_less() -> None:
    queues = queue(shares={"ann": 1, "bob": 1})
    running = [ran(n, 0.0, 100.0, user="ann") for n in (1, 2, 3)]
    wrong = [*running, ran(4, 5.0, 50.0, user="ann", submitted=5.0), ran(5, 50.0, 60.0, user="bob", submitted=5.0)]
    assert found(judge(PastCluster(hosts=ONE_HOST, queues=queues), wrong)) == [(4, 5, False)]
    right = [*running, ran(4, 50.0, 60.0, user="ann", submitted=5.0), ran(5, 5.0, 50.0, user="bob", submitted=5.0)]
    assert_clean(judge(PastCluster(hosts=ONE_HOST, queues=queues), right))


def test_shares_and_run_time_give_the_turn() -> None:
    """Ann's three slots weigh less than bob's two, by shares of 9 to 1."""
    running = [*(ran(n, 0.0, 100.0, user="ann") for n in (1, 2)), ran(3, 0.0, 100.0, user="bob")]
    jobs = [*running, ran(4, 5.0, 50.0, user="bob", submitted=5.0), ran(5, 50.0, 60.0, user="ann", submitted=5.0)]
    cluster = PastCluster(hosts=ONE_HOST, queues=queue(shares={"ann": 9, "bob": 1}))
    assert found(judge(cluster, jobs)) == [(4, 5, False)]
    hours = {"run_time": 0.0, "gpu_run_time": 0.0, "job": 3.0}
    cluster = PastCluster(hosts=ONE_HOST, queues=queue(shares={"ann": 1, "bob": 1}, factors=hours))
    assert_clean(judge(cluster, jobs))


@pytest.mark.parametrize("owner", ["ann", "cat"])
@pytest.mark.parametrize("killed_at", [math.inf, 35.0])
def test_a_reservation_is_kept_when_another_turn_comes_with_those_who_started_beside_it(
    owner: str, killed_at: float
) -> None:
    """Two GPUs are reserved for Cat's job 5, beside whose place jobs 7 and 8 start. At 30 it is Ann's turn: job 5 keeps
    the place, and waits for job 1 alone, and job 9 may leave it too little. When it is gone, Ann's equal job 6 may have
    it as it was; another one of Cat's own waits for jobs 7 and 8 as well, and nothing is against job 9.
    """
    cat, ann = {"user": "cat"}, {"user": "ann"}
    jobs = [
        ran(1, 0.0, 40.0, **cat),
        ran(2, 0.0, 10.0, **cat),
        ran(3, 0.0, 20.0, **cat),
        ran(4, 0.0, 30.0, **ann),
        waits(5, gpus=2, left_at=killed_at, **cat),
        waits(6, gpus=2, user=owner, **({} if owner == "ann" else {"priority": 1, "submitted": 25.0})),
        ran(7, 10.0, 60.0, **cat),
        ran(8, 20.0, 60.0, **cat),
        waits(9, **ann),
    ]
    cluster = PastCluster(hosts=ONE_HOST, queues=queue(shares={"ann": 1, "cat": 3}))
    verdict = judge(cluster, jobs, until=40.0)
    assert not verdict.inversions
    idle = [(35.0, 9)] if (owner, killed_at) == ("cat", 35.0) else []
    assert [(each.at, each.job) for each in verdict.idle] == idle


@pytest.mark.parametrize("first", ["cat", "ann"])
def test_who_has_the_reservation_comes_before_whose_turn_it_is(first: str) -> None:
    """All GPUs, one of them free, are reserved for Cat's job 2 when Ann comes, of whom none runs. One of the two has
    them at 20.
    """
    running = [ran(1, 0.0, 20.0, gpus=3, user="cat")]
    starts = {"cat": (20.0, 30.0), "ann": (30.0, 20.0)}[first]
    cat = ran(2, starts[0], starts[0] + 10.0, gpus=4, user="cat", submitted=1.0)
    ann = ran(3, starts[1], starts[1] + 10.0, gpus=4, user="ann", submitted=5.0)
    cluster = PastCluster(hosts=ONE_HOST, queues=queue(shares={"ann": 1, "cat": 1}))
    assert found(judge(cluster, [*running, cat, ann])) == ([] if first == "cat" else [(3, 2, False)])


def test_who_waits_for_what_is_all_in_use_is_passed_by_whose_turn_it_is() -> None:
    jobs = [
        ran(1, 0.0, 20.0, gpus=4, user="cat"),
        ran(2, 30.0, 40.0, gpus=4, user="cat", submitted=1.0),
        ran(3, 20.0, 30.0, gpus=4, user="ann", submitted=5.0),
    ]
    cluster = PastCluster(hosts=ONE_HOST, queues=queue(shares={"ann": 1, "cat": 1}))
    assert found(judge(cluster, jobs)) == []


def test_within_a_user_the_order_of_submission_holds_under_fairshare() -> None:
    queues = queue(shares={"ann": 1, "bob": 1})
    jobs = [ran(1, 10.0, 20.0, gpus=4, user="ann"), ran(2, 0.0, 10.0, gpus=4, user="ann")]
    assert found(judge(PastCluster(hosts=ONE_HOST, queues=queues), jobs)) == [(2, 1, False)]


def test_who_is_requeued_waits_in_its_old_place() -> None:
    runs = (Run(start=0.0, end=5.0, hosts=("a",)), Run(start=15.0, end=20.0, hosts=("a",)))
    again = PastJob(number=1, submitted=0.0, gpus=4, runs=runs)
    verdict = judge(PastCluster(hosts=ONE_HOST), [again, ran(2, 5.0, 15.0, gpus=4)])
    assert found(verdict) == [(2, 1, False)]


def test_history_that_cannot_be() -> None:
    twice = [ran(1, 0.0, 10.0, gpus=3), ran(2, 5.0, 10.0, gpus=3)]
    with pytest.raises(ValueError, match=r"job 2 started at 5\.0 on a, which had no room"):
        judge(PastCluster(hosts=ONE_HOST), twice)
    with pytest.raises(ValueError, match=r"job 1 of 0\.0 ran from 5\.0 to 5\.0"):
        judge(PastCluster(hosts=ONE_HOST), [ran(1, 5.0, 5.0)])
    with pytest.raises(ValueError, match=r"job 1 of 6\.0 ran from 5\.0 to 7\.0"):
        judge(PastCluster(hosts=ONE_HOST), [ran(1, 5.0, 7.0, submitted=6.0)])
