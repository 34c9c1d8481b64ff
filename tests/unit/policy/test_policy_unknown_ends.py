"""Planned jobs beside one that waits for jobs of which nobody knows when they end: who is promised a time has it."""

from __future__ import annotations

import math

from placing_cluster import host, kind
from test_policy_limits_ahead import on
from timed_cluster import TimedCluster

from gsched.model.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.queue import Queue

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
