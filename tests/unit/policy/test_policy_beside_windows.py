"""Planned jobs beside advance reservations: whoever runs when one begins leaves room for it and for each other."""

from __future__ import annotations

import pytest
from placing_cluster import host, kind
from test_policy_limits_ahead import EACH, on, section
from timed_cluster import TimedCluster

from gsched.base.coded_text import sentence
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import AdvanceReservation, Plan
from gsched.policy.backfill.advance_reservation_guard import KEPT_FOR_WINDOW

QUEUES = [Queue(name="q", backfill=True), Queue(name="r", backfill=True)]


def window(start: float, end: float, slots: int, gpus: int = 0, name: str = "carl#0") -> AdvanceReservation:
    return AdvanceReservation(name, ("carl",), start, end, {"a": slots}, {"a": gpus} if gpus else {})


def cluster_with(*windows: AdvanceReservation, gpus: int = 0) -> TimedCluster:
    cluster = TimedCluster(host("a", ncpus=8), queues=QUEUES, reservations=windows)
    return cluster.devices("a", gpus) if gpus else cluster


def texts(plan: Plan) -> list[str]:
    return [sentence(each.text) for found in plan.reasons.values() for each in found]


def test_who_starts_now_leaves_a_planned_job_and_a_reservation_that_begins_beside_it_enough_together() -> None:
    """The planned job has 6 of 8 slots from 50 to 150, the reservation 2 from 100 on: 2 are free only until then."""
    cluster = cluster_with(window(100.0, 200.0, slots=2))
    cluster.hold_until(50.0, kind(), on("a", 4))
    (planned,) = cluster.add(kind("span[hosts=1]", slots=6, run_s=100.0))
    (kept_back,) = cluster.add(kind("span[hosts=1]", slots=2, queue="r", run_s=300.0))
    (slipped_in,) = cluster.add(kind("span[hosts=1]", slots=2, queue="r", run_s=100.0))
    plan = cluster.step(0.0)
    assert cluster.planned[planned].at == 50.0
    assert slipped_in in cluster.started and kept_back not in cluster.started
    assert f"Resources are reserved for job <{planned}>" in texts(plan)
    cluster.step(50.0)
    assert cluster.started[planned] == 50.0


def test_the_same_of_gpus() -> None:
    cluster = cluster_with(window(100.0, 200.0, slots=0, gpus=1), gpus=4)
    cluster.hold_until(50.0, kind(), on("a", 1, gpus=2))
    (planned,) = cluster.add(kind("rusage[ngpus_excl_p=3]", run_s=100.0))
    (kept_back,) = cluster.add(kind("rusage[ngpus_excl_p=1]", queue="r", run_s=300.0))
    (without,) = cluster.add(kind(queue="r", run_s=300.0))
    cluster.step(0.0)
    assert cluster.planned[planned].at == 50.0
    assert without in cluster.started and kept_back not in cluster.started
    cluster.step(50.0)
    assert cluster.started[planned] == 50.0


def test_two_jobs_are_not_planned_where_a_reservation_that_begins_leaves_room_for_one() -> None:
    cluster = cluster_with(window(100.0, 200.0, slots=2))
    cluster.hold_until(50.0, kind(), on("a", 8))
    (first,) = cluster.add(kind("span[hosts=1]", slots=6, run_s=100.0))
    (second,) = cluster.add(kind("span[hosts=1]", slots=2, queue="r", run_s=100.0))
    cluster.step(0.0)
    assert (cluster.planned[first].at, cluster.planned[second].at) == (50.0, 150.0)
    cluster.step(50.0)
    cluster.step(150.0)
    assert (cluster.started[first], cluster.started[second]) == (50.0, 150.0)


@pytest.mark.parametrize("overlapping", [True, False])
def test_reservations_that_overlap_are_kept_together(overlapping: bool) -> None:
    second = window(150.0, 300.0, slots=4, name="carl#1") if overlapping else window(200.0, 300.0, 4, name="carl#1")
    cluster = cluster_with(window(100.0, 200.0, slots=4), second)
    (job,) = cluster.add(kind("span[hosts=1]", slots=2, run_s=180.0))
    plan = cluster.step(0.0)
    assert (job not in cluster.started) is overlapping
    assert (sentence(KEPT_FOR_WINDOW) in texts(plan)) is overlapping


def test_a_job_of_several_hosts_is_planned_where_no_reservation_begins_while_it_runs() -> None:
    """Host b is free when a gets free, but is kept from 103 on; so it takes a and c then, not a and b at 165."""
    kept = AdvanceReservation("carl#0", ("carl",), 103.0, 165.0, {"b": 8}, {})
    cluster = TimedCluster(
        host("a", ncpus=8), host("b", ncpus=8), host("c", ncpus=7), queues=QUEUES, reservations=(kept,)
    )
    cluster.hold_until(98.0, kind(), on("a", 8))
    (planned,) = cluster.add(kind("span[ptile=4]", slots=8, run_s=234.0))
    cluster.step(0.0)
    assert (cluster.planned[planned].at, set(cluster.planned[planned].hosts)) == (98.0, {"a", "c"})


def test_a_plan_is_not_put_off_to_when_what_were_ended_now_would_be_gone() -> None:
    """That is at 21, and the reservation ends at 5. There are limits, so that it is looked for other times."""
    kept = AdvanceReservation("carl#0", ("carl",), 0.0, 5.0, {"b": 8}, {})
    hosts = [host("a", ncpus=8), host("b", ncpus=8)]
    few = section(users=EACH, jobs=2)
    cluster = TimedCluster(*hosts, queues=QUEUES, reservations=(kept,), limits=(few,), terminate_s=21.0)
    (planned,) = cluster.add(kind("span[ptile=4]", slots=8, run_s=234.0))
    cluster.step(0.0)
    assert cluster.planned[planned].at == 5.0
