"""Planned starts and the windows of queues: a time is promised only while the queue is open."""

from __future__ import annotations

import math

import pytest
from placing_cluster import kind
from test_policy_limits_ahead import on
from timed_cluster import TimedCluster

from gsched.base.coded_text import sentence
from gsched.model.queues.queue import Queue
from gsched.model.queues.window import Window
from gsched.model.scheduling.snapshot import Snapshot
from gsched.policy.order.dispatch_windows import DispatchWindows

ANY = Queue(name="r", backfill=True)


def opened(*windows: tuple[int, int]) -> tuple[Window, ...]:
    return tuple(Window(*each) for each in windows)


@pytest.mark.parametrize(
    ("queue", "closes"),
    [
        (Queue(name="q"), math.inf),
        (Queue(name="q", dispatch_window=opened((0, 2))), 120.0),
        (Queue(name="q", run_window=opened((0, 3)), dispatch_window=opened((0, 5))), 180.0),
        (Queue(name="q", dispatch_window=opened((0, 2), (1, 4))), 240.0),
        (Queue(name="q", dispatch_window=opened((2, 3))), 30.0),
        (Queue(name="q", dispatch_window=opened((0, 720), (720, 0))), 691_200.0),
    ],
)
def test_a_queue_closes_when_its_windows_are_over(queue: Queue, closes: float) -> None:
    cluster = TimedCluster(queues=[queue])
    snapshot: Snapshot = cluster.snapshot(30.0)
    assert DispatchWindows(snapshot, 30.0).closes("q") == closes


def test_no_start_is_planned_for_a_time_at_which_the_queue_is_closed() -> None:
    cluster = TimedCluster(queues=[Queue(name="q", dispatch_window=opened((0, 2), (10, 20)), reserved_jobs=2), ANY])
    cluster.hold_until(90.0, kind(queue="r"), on("a", 4))
    cluster.hold_until(200.0, kind(queue="r"), on("a", 4))
    (soon,) = cluster.add(kind(slots=4, run_s=60.0))
    (late,) = cluster.add(kind(slots=8, run_s=60.0))
    cluster.step(0.0)
    assert cluster.planned[soon].at == 90.0
    assert cluster.planned[late].at is None
    assert sentence(cluster.planned[late].text) == "unknown: its queue closes before, by its time windows"
    cluster.step(90.0)
    cluster.step(200.0)
    assert soon in cluster.started and late not in cluster.started
    cluster.step(600.0)
    assert cluster.started[late] == 600.0


def test_later_cycles_say_as_well_that_the_queue_closes_first() -> None:
    cluster = TimedCluster(queues=[Queue(name="q", dispatch_window=opened((0, 2), (10, 20))), ANY])
    cluster.hold_until(200.0, kind(queue="r"), on("a", 8))
    (late,) = cluster.add(kind(slots=8, run_s=60.0))
    for now in (0.0, 1.0, 70.0):
        cluster.step(now)
        assert sentence(cluster.planned[late].text) == "unknown: its queue closes before, by its time windows"


def test_a_plan_beyond_new_windows_is_given_up() -> None:
    cluster = TimedCluster(queues=[Queue(name="q"), ANY])
    cluster.hold_until(200.0, kind(queue="r"), on("a", 8))
    (job,) = cluster.add(kind(slots=4, run_s=60.0))
    cluster.step(0.0)
    assert cluster.planned[job].at == 200.0
    cluster.queues["q"] = Queue(name="q", dispatch_window=opened((0, 2)))
    cluster.step(1.0)
    assert cluster.planned[job].at is None
