"""Planned jobs beside one that waits for jobs of which nobody knows when they end: who is promised a time has it."""

from __future__ import annotations

import math

import pytest
from placing_cluster import host, kind
from test_policy_limits_ahead import on
from timed_cluster import TimedCluster

from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import Share

QUEUES = [
    Queue(name="q", backfill=True),
    Queue(name="r", backfill=True),
    Queue(name="s", backfill=True, reserved_jobs=2),
]


def waiting_for_nobody_knows_whom(slots: int, wanted: int) -> TimedCluster:
    """On one host 4 slots are held nobody knows how long; who wants many waits for them, and then 2 more are taken."""
    cluster = TimedCluster(host("a", ncpus=slots), slots=slots, queues=QUEUES).devices("a", 1)
    cluster.hold_until(math.inf, kind(), on("a", 4))
    cluster.hold_until(50.0, kind("rusage[ngpus_excl_p=1]", queue="s"), on("a", 1, gpus=1))
    (waiting,) = cluster.add(kind("span[hosts=1]", slots=wanted))
    cluster.step(0.0)
    assert cluster.planned[waiting].hosts and cluster.planned[waiting].at is None
    (beside,) = cluster.add(kind("span[hosts=1]", queue="r", slots=2))
    cluster.step(1.0)
    assert cluster.started[beside] == 1.0
    return cluster


def test_no_time_is_promised_that_is_refused_for_those_who_started_since() -> None:
    cluster = waiting_for_nobody_knows_whom(8, 6)
    (promised,) = cluster.add(kind("rusage[ngpus_excl_p=1]", queue="s"))
    cluster.step(2.0)
    plan = cluster.planned.get(promised)
    assert plan is None or plan.at is None
    (short,) = cluster.add(kind("rusage[ngpus_excl_p=1] span[hosts=1]", queue="s", run_s=100.0))
    cluster.step(3.0)
    assert cluster.planned[short].at == 50.0
    cluster.step(50.0)
    assert cluster.started[short] == 50.0 and promised not in cluster.started


def test_the_same_of_what_a_limit_leaves() -> None:
    """The user may have 8 slots: 2 run, 6 wait for two GPUs, 2 run since; one more would leave them 5."""
    cluster = TimedCluster(slots=16, queues=QUEUES, user_limits={"ann": 8}).devices("a", 3)
    cluster.hold_until(math.inf, kind("rusage[ngpus_excl_p=2]"), on("a", 2, gpus=2))
    held = HeldGpu(uuid="a2", index=2, claim="ngpus_excl_p")
    of_other = Allocation(hosts=(HostAllocation(host="a", slots=1, gpus=(held,)),))
    cluster.hold_until(50.0, kind("rusage[ngpus_excl_p=1]", queue="s", user="eve"), of_other)
    (waiting,) = cluster.add(kind("rusage[ngpus_excl_p=2] span[hosts=1]", slots=6))
    cluster.step(0.0)
    assert cluster.planned[waiting].hosts and cluster.planned[waiting].at is None
    (beside,) = cluster.add(kind(queue="r", slots=2))
    cluster.step(1.0)
    assert cluster.started[beside] == 1.0
    (promised,) = cluster.add(kind("rusage[ngpus_excl_p=1]", queue="s"))
    cluster.step(2.0)
    first = cluster.planned[promised].at if promised in cluster.planned else None
    cluster.step(50.0)
    assert first is None and promised not in cluster.started


def test_who_started_since_is_not_counted_twice_against_a_known_time() -> None:
    """At 50 4 slots are held of old, 2 since, 1 from now on, and 4 are to start: that is all."""
    cluster = waiting_for_nobody_knows_whom(11, 8)
    (planned,) = cluster.add(kind("rusage[ngpus_excl_p=1] span[hosts=1]", queue="s", slots=4, run_s=10.0))
    cluster.step(2.0)
    assert cluster.planned[planned].at == 50.0
    (more,) = cluster.add(kind("span[hosts=1]", queue="r", slots=1))
    cluster.step(3.0)
    assert cluster.started[more] == 3.0
    cluster.step(50.0)
    assert cluster.started[planned] == 50.0


def test_two_that_start_in_one_cycle_leave_enough_together() -> None:
    """Two of four are held nobody knows how long, who wants three waits: of two small ones only one starts."""
    cluster = TimedCluster(host("a", ncpus=4), slots=4, queues=QUEUES)
    cluster.hold_until(math.inf, kind(), on("a", 2))
    cluster.add(kind("span[hosts=1]", slots=3))
    small = cluster.add(kind("span[hosts=1]"), 2)
    cluster.step(0.0)
    assert [each in cluster.started for each in small] == [True, False]
    cluster.step(0.0)
    cluster.step(1.0)
    assert small[1] not in cluster.started


def test_who_came_before_is_not_held_against_those_who_come_later() -> None:
    """It waits for a job of the higher queue that started since as for those of old; one more leaves it three."""
    cluster = TimedCluster(host("a", ncpus=4), slots=4, queues=[*QUEUES, Queue(name="high", priority=90)])
    cluster.hold_until(math.inf, kind(), on("a", 2))
    cluster.add(kind("span[hosts=1]", slots=3))
    cluster.step(0.0)
    (higher,) = cluster.add(kind("span[hosts=1]", queue="high"))
    cluster.step(1.0)
    small = cluster.add(kind("span[hosts=1]"), 2)
    cluster.step(2.0)
    assert cluster.started[higher] == 1.0
    assert [each in cluster.started for each in small] == [True, False]


def two_in_vain() -> tuple[TimedCluster, int, int]:
    """The first ones of two queues want a whole host; of a job there nobody knows that it ends at 10."""
    cluster = TimedCluster(host("a", ncpus=4), slots=4, queues=[*QUEUES, Queue(name="high", priority=90)])
    cluster.lasts[cluster.last + 1] = 10.0
    cluster.hold_until(math.inf, kind(), on("a", 1))
    cluster.hold_until(100.0, kind(), on("a", 2))
    (higher,) = cluster.add(kind("span[hosts=1]", queue="high", slots=4, run_s=50.0))
    (lower,) = cluster.add(kind("span[hosts=1]", slots=4, run_s=50.0))
    cluster.step(0.0)
    return cluster, higher, lower


def test_it_is_looked_again_once_it_is_known_when_those_before_start() -> None:
    cluster, higher, lower = two_in_vain()
    assert cluster.planned[higher].hosts and not cluster.planned[lower].hosts
    cluster.step(10.0)
    assert (cluster.planned[higher].at, cluster.planned[lower].at) == (100.0, 150.0)


def test_a_place_that_was_sought_in_vain_is_sought_again_once_a_job_has_ended() -> None:
    """The first one waits for all of the host. Beside it the second has a place once one has ended of which nobody knew
    how long it runs: until the first starts, for which another one of those has to end, too, it has ended itself.
    """
    cluster = TimedCluster(host("a", ncpus=8), slots=8, queues=QUEUES)
    cluster.hold_until(math.inf, kind(), on("a", 2))
    cluster.lasts[cluster.last + 1] = 10.0
    cluster.hold_until(math.inf, kind(), on("a", 1))
    cluster.hold_until(100.0, kind(), on("a", 4))
    (first,) = cluster.add(kind("span[hosts=1]", queue="s", slots=8))
    (second,) = cluster.add(kind("span[hosts=1]", queue="s", slots=6, run_s=50.0))
    cluster.step(0.0)
    assert cluster.planned[first].hosts and not cluster.planned[second].hosts
    cluster.step(10.0)
    assert cluster.planned[first].at is None and cluster.planned[second].at == 100.0


def test_the_first_of_a_queue_is_its_planned_one_though_there_is_no_place_for_it_yet() -> None:
    """So nothing is kept for the second; and a small one of nobody knows which length takes what is free."""
    cluster, higher, _ = two_in_vain()
    (second,) = cluster.add(kind("span[hosts=1]", slots=2, run_s=300.0))
    (small,) = cluster.add(kind("span[hosts=1]", run_s=200.0))
    cluster.step(1.0)
    assert cluster.planned[higher].at is None
    assert second not in cluster.planned or not cluster.planned[second].hosts
    assert cluster.started[small] == 1.0


def test_who_started_later_is_remembered_when_the_time_is_no_longer_known() -> None:
    """One takes what it leaves at 50; then one of the higher queue comes of which nobody knows how long it runs."""
    cluster = TimedCluster(host("a", ncpus=4), slots=4, queues=[*QUEUES, Queue(name="high", priority=90)])
    cluster.hold_until(50.0, kind(), on("a", 2))
    (waiting,) = cluster.add(kind("span[hosts=1]", slots=3, run_s=10.0))
    (beside,) = cluster.add(kind("span[hosts=1]"))
    cluster.step(0.0)
    assert cluster.planned[waiting].at == 50.0 and beside in cluster.started
    cluster.add(kind("span[hosts=1]", queue="high"))
    cluster.step(1.0)
    assert cluster.planned[waiting].hosts and cluster.planned[waiting].at is None
    (another,) = cluster.add(kind("span[hosts=1]"))
    cluster.step(50.0)
    assert another not in cluster.started


def test_it_is_planned_anew_once_its_limit_lets_it_in() -> None:
    """Ann may have four slots. Nobody knew how long three of them were in use, and now they are free."""
    queues = [*QUEUES, Queue(name="high", priority=90)]
    cluster = TimedCluster(host("a", ncpus=8), slots=8, queues=queues, user_limits={"ann": 4})
    cluster.hold_until(50.0, kind(user="eve"), on("a", 5))
    (waiting,) = cluster.add(kind("span[hosts=1]", slots=4, run_s=10.0))
    cluster.step(0.0)
    assert cluster.planned[waiting].at == 50.0
    (higher,) = cluster.add(kind("span[hosts=1]", queue="high", slots=3))
    cluster.lasts[higher] = 5.0
    (small,) = cluster.add(kind("span[hosts=1]"))
    cluster.step(1.0)
    assert higher in cluster.started and cluster.planned[waiting].at is None
    cluster.step(6.0)
    assert cluster.planned[waiting].at == 50.0 and small not in cluster.started


@pytest.mark.parametrize(("shares", "owner"), [((), "ann"), (("ann", "bob"), "ann"), (("ann", "bob"), "bob")])
def test_who_started_before_a_job_had_the_place_of_another_is_not_held_against_it(
    shares: tuple[str, ...], owner: str
) -> None:
    """The first one is killed; the next of its kind waits for the small job as for those of old. Of another user who
    takes turns with its own it has the very place of the first, and waits no longer than that would have.
    """
    fair = tuple(Share(name, 1) for name in shares) or None
    queues = [Queue(name="q", backfill=True, fairshare=fair), Queue(name="r", backfill=True)]
    cluster = TimedCluster(host("a", ncpus=4), slots=4, queues=queues)
    cluster.hold_until(math.inf, kind(), on("a", 2))
    cluster.lasts[cluster.last + 1] = 5.0
    cluster.hold_until(math.inf, kind(), on("a", 1))
    big = kind("span[hosts=1]", slots=3)
    (first,), (second,) = cluster.add(big), cluster.add(kind("span[hosts=1]", slots=3, user=owner))
    cluster.step(0.0)
    (small,) = cluster.add(kind("span[hosts=1]", queue="r"))
    cluster.step(1.0)
    assert cluster.planned[first].hosts and cluster.started[small] == 1.0
    cluster.pending[big].remove(first)
    cluster.step(2.0)
    assert cluster.planned[second].hosts
    (another,) = cluster.add(kind("span[hosts=1]", queue="r"))
    cluster.step(5.0)
    assert (another in cluster.started) == (owner == "ann")
