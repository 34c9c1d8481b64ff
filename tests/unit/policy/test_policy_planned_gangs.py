"""Starts of jobs on several hosts are planned for the earliest time there is, between and beside other planned jobs."""

from __future__ import annotations

import math

from msgspec import structs
from placing_cluster import host, kind
from test_policy_limits_ahead import on
from timed_cluster import TimedCluster

from gsched.model.ledgers.allocation import Allocation
from gsched.model.queues.queue import Queue

QUEUES = [Queue(name="q", backfill=True, reserved_jobs=3), Queue(name="r")]


def with_gpus(name: str, first: int) -> Allocation:
    """The GPUs of the host from that one on."""
    (part,) = on(name, 1, gpus=4).hosts
    return Allocation(hosts=(structs.replace(part, gpus=part.gpus[first:]),))


def test_hosts_that_a_planned_job_needs_later_are_left_out() -> None:
    """The first waits for three GPUs of each host until 82, and leaves none on host a. The second could start there at
    3, if it did not run for so long: it takes hosts c and d at 17.
    """
    cluster = TimedCluster(*(host(name) for name in "abcd"), queues=QUEUES)
    for name in "abcd":
        cluster.devices(name, 4)
    cluster.hold_until(math.inf, kind(queue="r"), on("a", 1, gpus=1))
    for name, ends_at, first_gpu in (("a", 3.0, 1), ("b", 82.0, 0), ("c", 17.0, 0)):
        cluster.hold_until(ends_at, kind(queue="r"), with_gpus(name, first_gpu))
    (first,) = cluster.add(kind("span[ptile=1] rusage[ngpus_excl_p=3]", slots=4, run_s=124.0))
    (second,) = cluster.add(kind("span[ptile=1] rusage[ngpus_excl_p=1]", slots=2, run_s=128.0))
    cluster.step(0.0)
    assert cluster.planned[first].at == 82.0
    assert (cluster.planned[second].at, sorted(cluster.planned[second].hosts)) == (17.0, ["c", "d"])


def test_a_gap_between_other_planned_jobs_is_found() -> None:
    """The first has host b from 10 to 19, the second all hosts from 30 on; on a and b the third fits between them."""
    cluster = TimedCluster(*(host(name, ncpus=4) for name in "abcd"), slots=4, queues=QUEUES)
    for name, slots, ends_at in (("b", 4, 10.0), ("c", 2, 12.0), ("c", 2, 30.0), ("d", 4, 30.0)):
        cluster.hold_until(ends_at, kind(queue="r"), on(name, slots))
    (first,) = cluster.add(kind("span[hosts=1]", slots=4, run_s=9.0, asked_hosts=("b",)))
    (second,) = cluster.add(kind("span[ptile=4]", slots=16, run_s=100.0))
    (third,) = cluster.add(kind("span[ptile=4]", slots=8, run_s=10.0))
    cluster.step(0.0)
    assert [cluster.planned[each].at for each in (first, second, third)] == [10.0, 30.0, 19.0]
    assert sorted(cluster.planned[third].hosts) == ["a", "b"]
