"""Preemption: who makes room for whom, what is held for whom, and when a preempted job goes on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from planning_cluster import Ask, Cluster, Preemption, kind

from gsched.base.coded_text import sentence
from gsched.model.ledgers.ledger import Ledger, miscounts
from gsched.model.queues.preempt_sparing import SparedTime, Sparing
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Preempted
from gsched.policy.preempt.preemption import may_preempt

ONE = Ask()
GPU = Ask(1, gpus=1)
HIGH = Queue(name="high", priority=9, preemption=Preemption(preemptive=()), backfill=True)
LOW = Queue(name="low", priority=1, backfill=True)
MIDDLE = Queue(name="middle", priority=5, backfill=True)


def cluster_of(*queues: Queue, hosts: int = 1, slots: int = 4, gpus: int = 4, **more: Any) -> Cluster:
    return Cluster(hosts, slots, gpus, queues or (HIGH, MIDDLE, LOW), **more)


@pytest.mark.parametrize(
    ("mine", "its", "expected"),
    [
        (Preemption(), Preemption(), False),
        (Preemption(preemptive=()), Preemption(), True),
        (Preemption(preemptive=(("low", 2),)), Preemption(), True),
        (Preemption(preemptive=(("other", 0),)), Preemption(), False),
        (Preemption(), Preemption(preemptable_by=()), True),
        (Preemption(), Preemption(preemptable_by=("high",)), True),
        (Preemption(), Preemption(preemptable_by=("other",)), False),
    ],
)
def test_who_may_preempt_whom(mine: Preemption, its: Preemption, expected: bool) -> None:
    high, low = Queue(name="high", priority=9, preemption=mine), Queue(name="low", priority=1, preemption=its)
    assert may_preempt(high, low) is expected
    assert not may_preempt(low, high)
    assert not may_preempt(high, Queue(name="low", priority=9, preemption=its))


def test_suspended_job_gives_its_slots_at_once_and_goes_on_afterwards() -> None:
    cluster = cluster_of()
    victim = cluster.run(kind(Ask(4), "low"))
    urgent = cluster.wait(kind(Ask(2), "high"))
    done = cluster.cycle(10.0)
    assert done.preempted == [Preempted(victim.job_id, urgent, requeue=False)]
    assert set(done.started) == {urgent}
    cluster.audit()
    assert cluster.cycle(11.0).resumed == []
    cluster.end(urgent)
    assert cluster.cycle(12.0).resumed == [victim.job_id]
    cluster.audit()


def test_fewest_then_lowest_queue_then_shortest_run() -> None:
    cluster = cluster_of(slots=5)
    cluster.run(kind(ONE, "middle"), started_at=3.0)
    cluster.run(kind(ONE, "low"), started_at=1.0)
    young = cluster.run(kind(ONE, "low"), started_at=2.0)
    pair = cluster.run(kind(Ask(2), "middle"), started_at=0.0)
    cluster.wait(kind(ONE, "high"))
    assert [each.job_id for each in cluster.cycle(10.0, apply=False).preempted] == [young.job_id]
    cluster.waiting.clear()
    cluster.wait(kind(Ask(2), "high"))
    assert [each.job_id for each in cluster.cycle(10.0, apply=False).preempted] == [pair.job_id]


def test_preferred_queue_goes_first() -> None:
    high = Queue(name="high", priority=9, preemption=Preemption(preemptive=(("low", 0), ("middle", 2))))
    cluster = cluster_of(high, MIDDLE, LOW, slots=2)
    middle = cluster.run(kind(ONE, "middle"))
    cluster.run(kind(ONE, "low"), started_at=5.0)
    cluster.wait(kind(ONE, "high"))
    assert [each.job_id for each in cluster.cycle(10.0).preempted] == [middle.job_id]


def test_who_is_spared() -> None:
    cluster = cluster_of(slots=4, min_run_before_preempt_s=60.0, sparing=Sparing(most=2))
    cluster.run(kind(ONE, "low"), started_at=100.0)  # too young
    cluster.run(kind(ONE, "low"), preempted=2)  # often enough
    cluster.run(kind(ONE, "low"), resumed_at=100.0)  # has just gone on
    ending = cluster.run(kind(ONE, "low"), is_ending=True)
    cluster.wait(kind(Ask(2), "high"))
    assert cluster.cycle(110.0).preempted == []
    cluster.end(ending.job_id)
    assert len(cluster.cycle(170.0).preempted) == 1


@pytest.mark.parametrize(
    ("of_application", "of_queue", "of_cluster", "spared"),
    [
        (Sparing(), Sparing(), Sparing(run=SparedTime(60.0)), True),
        (Sparing(), Sparing(), Sparing(run=SparedTime(61.0)), False),
        (Sparing(), Sparing(run=SparedTime(61.0)), Sparing(run=SparedTime(60.0)), False),
        (Sparing(run=SparedTime(60.0)), Sparing(run=SparedTime(61.0)), Sparing(), True),
        (Sparing(), Sparing(run=SparedTime(60.0, is_percent=True)), Sparing(), True),
        (Sparing(), Sparing(run=SparedTime(61.0, is_percent=True)), Sparing(), False),
        (Sparing(), Sparing(finish=SparedTime(40.0)), Sparing(), True),
        (Sparing(), Sparing(finish=SparedTime(39.0)), Sparing(), False),
        (Sparing(finish=SparedTime(40.0, is_percent=True)), Sparing(), Sparing(), True),
        (Sparing(), Sparing(most=1), Sparing(), True),
        (Sparing(), Sparing(most=2), Sparing(most=1), False),
        (Sparing(), Sparing(), Sparing(interval_s=61), True),
        (Sparing(), Sparing(interval_s=60), Sparing(interval_s=61), False),
        (Sparing(interval_s=61), Sparing(interval_s=0), Sparing(), True),
    ],
)
def test_who_is_spared_by_what_is_set(
    of_application: Sparing, of_queue: Sparing, of_cluster: Sparing, spared: bool
) -> None:
    low = msgspec.structs.replace(LOW, sparing=of_queue)
    settings: dict[str, Any] = {"sparing": of_cluster, "application_sparing": {"care": of_application}}
    cluster = cluster_of(HIGH, low, slots=1, **settings)
    job = kind(ONE, "low")._replace(application="care")
    cluster.run(job, started_at=100.0, preempted=1)
    cluster.wait(kind(ONE, "high"))
    assert (cluster.cycle(160.0).preempted == []) is spared


def test_a_part_of_a_run_time_that_nobody_knows_spares_nobody() -> None:
    cluster = cluster_of(slots=1, sparing=Sparing(SparedTime(0.0, is_percent=True), SparedTime(100.0, is_percent=True)))
    cluster.run(kind(ONE, "low", run_s=None), started_at=100.0)
    cluster.wait(kind(ONE, "high"))
    assert len(cluster.cycle(160.0).preempted) == 1


def test_gpus_come_back_only_from_requeued_jobs() -> None:
    cluster = cluster_of(slots=8, gpus=2)
    cluster.run(kind(Ask(1, gpus=2), "low"), rerunnable=True)
    cluster.wait(kind(GPU, "high"))
    assert cluster.cycle(10.0).preempted == []
    cluster.options["preempt_requeue"] = True
    assert cluster.cycle(11.0).preempted == []  # it does not look again at once
    done = cluster.cycle(15.0)
    assert done.preempted == [Preempted(1, 2, requeue=True)]
    assert not done.started
    assert done.planned[2].at == 25.0
    assert done.planned[2].hosts == ("h0",)


@pytest.mark.parametrize(("is_over", "at"), [(False, 615.0), (True, 25.0)])
def test_only_who_goes_on_later_has_time_to_save_its_state(is_over: bool, at: float) -> None:
    low = msgspec.structs.replace(LOW, terminate_when=("PREEMPT",) if is_over else ())
    cluster = cluster_of(HIGH, low, slots=8, gpus=2, preempt_requeue=True)
    cluster.run(kind(Ask(1, gpus=2), "low"), rerunnable=True, saves_s=600.0)
    waits = cluster.wait(kind(GPU, "high"))
    done = cluster.cycle(15.0)
    assert done.preempted == [Preempted(1, waits, requeue=True)] and done.planned[waits].at == at


def test_job_that_cannot_be_run_again_is_not_requeued() -> None:
    cluster = cluster_of(slots=8, gpus=2, preempt_requeue=True)
    cluster.run(kind(Ask(1, gpus=2), "low"))
    cluster.wait(kind(GPU, "high"))
    assert cluster.cycle(10.0).preempted == []


def test_what_gets_free_is_held_for_the_preemptor() -> None:
    cluster = cluster_of(slots=8, gpus=2, preempt_requeue=True)
    cluster.run(kind(Ask(1, gpus=1), "low"), rerunnable=True)
    cluster.run(kind(Ask(1, gpus=1), "low"))
    urgent = cluster.wait(kind(GPU, "high"))
    cluster.cycle(10.0)
    assert cluster.cycle(11.0).preempted == []  # room is coming
    thief = cluster.wait(kind(GPU, "low"))
    cluster.end(1)
    done = cluster.cycle(12.0)
    assert set(done.started) == {urgent}
    assert thief not in done.started


def test_freed_devices_are_not_taken_before_the_preemptor_can_start() -> None:
    cluster = cluster_of(slots=8, gpus=2, preempt_requeue=True)
    for _ in range(2):
        cluster.run(kind(GPU, "low"), rerunnable=True)
    urgent = cluster.wait(kind(Ask(1, gpus=2), "high"))
    assert len(cluster.cycle(10.0).preempted) == 2
    thief = cluster.wait(kind(GPU, "low"))
    cluster.end(1)  # the other one takes its time
    assert not cluster.cycle(12.0).started
    cluster.end(2)
    assert set(cluster.cycle(13.0).started) == {urgent}
    assert thief in cluster.waiting


def test_victims_of_a_job_on_several_hosts() -> None:
    cluster = cluster_of(hosts=3, slots=4)
    for number in range(3):
        cluster.run(kind(Ask(2), "low"), f"h{number}", started_at=float(number))
        cluster.run(kind(Ask(2), "middle"), f"h{number}")
    urgent = cluster.wait(kind(Ask(4, hosts=0), "high"))
    done = cluster.cycle(10.0)
    assert sorted(each.job_id for each in done.preempted) == [3, 5]
    assert {part.host for part in done.started[urgent].hosts} == {"h1", "h2"}
    cluster.audit()


def test_suspended_jobs_come_before_new_ones_of_their_queue() -> None:
    cluster = cluster_of(slots=4)
    victim = cluster.run(kind(Ask(3), "low"))
    urgent = cluster.wait(kind(Ask(2), "high"))
    cluster.cycle(10.0)
    new = cluster.wait(kind(Ask(2), "low"))
    cluster.end(urgent)
    refused = cluster.cycle(11.0)
    assert refused.resumed == [victim.job_id]
    assert sentence(refused.refused[new].text) == "Higher or equal priority jobs already suspended by system"


def test_preempted_job_waits_while_its_slots_are_planned_for_a_higher_queue() -> None:
    cluster = cluster_of(Queue(name="high", priority=9, preemption=Preemption(preemptive=())), LOW, slots=4)
    victim = cluster.run(kind(Ask(3), "low"))
    first = cluster.wait(kind(Ask(4), "high"))
    cluster.cycle(10.0)
    second = cluster.wait(kind(Ask(4), "high"))
    cluster.end(first)
    done = cluster.cycle(20.0)
    assert set(done.started) == {second}
    assert done.resumed == []
    cluster.end(second)
    assert cluster.cycle(30.0).resumed == [victim.job_id]


def test_ledger_keeps_all_but_the_slots_of_a_suspended_job() -> None:
    cluster = cluster_of(slots=4)
    victim = cluster.run(kind(Ask(3, gpus=2, mem=100.0), "low"))
    truth, fork = cluster.ledger, cluster.ledger.fork()
    fork.suspend(victim.key, victim.allocation)
    host_ledger = fork.host("h0")
    assert (host_ledger.free_slots, len(host_ledger.holders), host_ledger.reserved) == (4, 2, {"mem": 100.0})
    assert not list(miscounts(host_ledger))
    assert (truth.host("h0").free_slots, truth.suspended) == (1, {})
    fork.resume(victim.key, victim.allocation)
    assert (fork.host("h0").free_slots, fork.suspended) == (1, {})
    fork.suspend(victim.key, victim.allocation)
    fork.give(victim.key, victim.allocation)
    assert (fork.host("h0").free_slots, fork.suspended, list(miscounts(fork.host("h0")))) == (4, {}, [])
    with pytest.raises(KeyError):
        Ledger().suspend(victim.key, victim.allocation)


def test_who_waits_for_a_suspended_job_does_not_keep_it_from_going_on() -> None:
    cluster = cluster_of(slots=4, gpus=2)
    victim = cluster.run(kind(Ask(2, gpus=2), "low"))
    urgent = cluster.wait(kind(Ask(4), "high"))
    cluster.cycle(10.0)
    waits = cluster.wait(kind(Ask(4, gpus=2), "high"))
    cluster.end(urgent)
    done = cluster.cycle(20.0)
    assert sentence(done.planned[waits].text) == f"unknown: job {victim.job_id} is suspended"
    assert done.resumed == [victim.job_id]


def test_nobody_is_suspended_whose_end_a_planned_job_waits_for() -> None:
    """A suspended job keeps its devices: the planned one, which was to have them at 30, would wait nobody knows how
    long. Somebody else may be suspended.
    """
    queues = [Queue(name="high", priority=9, preemption=Preemption(preemptive=()), backfill=True), Queue(name="low")]
    cluster = Cluster(1, 4, 4, queues)
    holds = cluster.run(kind(Ask(2, 3), "low"), ends_at=30.0)
    other = cluster.run(kind(Ask(2), "low"), ends_at=500.0)
    first = cluster.wait(kind(Ask(1, 4), "high"))
    assert cluster.cycle(10.0).planned[first].at == 30.0
    second = cluster.wait(kind(Ask(1), "high", run_s=5.0))
    done = cluster.cycle(20.0)
    assert [each.job_id for each in done.preempted] == [other.job_id] and second in done.started
    third = cluster.wait(kind(Ask(3), "high", run_s=5.0))
    again = cluster.cycle(21.0)
    assert not again.preempted and third in cluster.waiting and again.planned[first].at == 30.0
    cluster.end(holds.job_id)
    assert first in cluster.cycle(30.0).started
