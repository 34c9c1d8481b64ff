"""Preemption as the state keeps it: slots given up, GPUs kept, requeues, and the way back."""

from __future__ import annotations

import pytest
from core_world import World, gpu_spec, load, make_config, spec

from gsched.base.coded_text import sentence
from gsched.core.audit import audit
from gsched.core.instruction import ResumeAttempt, SuspendAttempt, TerminateAttempt
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import Params
from gsched.model.event import JobNoted
from gsched.model.hosts.host import HostConfig
from gsched.model.queues.queue import Preemption, Queue

QUEUES = (
    Queue(name="high", priority=9, preemption=Preemption(preemptive=())),
    Queue(name="normal", priority=1),
)


def full(requeue: bool = False, **wanted: object) -> tuple[World, int]:
    """A host of two slots, both held by a job of low priority that has run for a while."""
    params = Params(preempt_requeue=requeue, min_run_before_preempt_s=10.0)
    world = World(make_config([HostConfig(name="a", max_slots=2)], QUEUES, params=params))
    (low,) = world.run(gpu_spec(1, slots=2, **wanted))
    world.wait(20)
    return world, low


def test_a_suspended_job_gives_its_slots_and_keeps_its_gpus() -> None:
    world, low = full()
    (high,) = world.submit(spec(queue="high", slots=2))
    world.settle()
    assert (world.state(low), world.state(high)) == ("SSUSP", "RUN")
    assert world.orders()[-2:] == [SuspendAttempt("a", low, 1), world.orders()[-1]]
    assert sentence(world.job(low).suspend_reason) == f"The job was preempted because of a higher priority job <{high}>"
    host_ledger = world.engine.state.ledger.host("a")
    assert host_ledger.slots_used == 2 and len(host_ledger.holders) == 1
    world.check_replay()
    again = ClusterState.load(world.engine.state.dump())
    assert audit(again) == [] and again.ledger.host("a").slots_used == 2
    world.started(high)
    world.ended(high)
    world.settle()
    assert world.state(low) == "RUN" and world.orders()[-1] == ResumeAttempt("a", low, 1)
    assert world.engine.state.running[low].resumed_at == world.now
    assert world.job(low).preempted == 1
    world.check_replay()


@pytest.mark.parametrize("rerunnable", [True, False])
def test_requeue_requeues_a_rerunnable_job_for_slots_too_and_says_why_it_suspends_another(rerunnable: bool) -> None:
    world, low = full(requeue=True, rerunnable=rerunnable)
    (high,) = world.submit(spec(queue="high", slots=2))
    world.settle()
    if rerunnable:
        assert world.orders()[-1] == TerminateAttempt("a", low, 1, "TERM_PREEMPT")
        world.ended(low)
        world.settle()
        assert (world.state(low), world.state(high)) == ("PEND", "RUN")
    else:
        assert (world.state(low), world.state(high)) == ("SSUSP", "RUN")
        assert sentence(world.job(low).suspend_reason).endswith("not requeued: it is not rerunnable")
    world.check_replay()


@pytest.mark.parametrize(("urgent", "slots"), [(20, 1), (4, 5), (1, 20)])
def test_requeue_requeues_all_of_several_rerunnable_jobs(urgent: int, slots: int) -> None:
    """For one that waits after the other, while those that were told to end are still there: nobody is suspended."""
    params = Params(preempt_requeue=True, min_run_before_preempt_s=10.0)
    world = World(make_config([HostConfig(name="a", max_slots=20)], QUEUES, params=params))
    lows = world.run(*[spec(rerunnable=True)] * 20)
    world.wait(20)
    highs = world.submit(*[spec(queue="high", slots=slots)] * urgent)
    for _ in range(25):
        world.settle()
        assert all(world.state(low) in ("RUN", "PEND") for low in lows)
        told = [low for low in lows if world.job(low).requeue_by and world.state(low) == "RUN"]
        for low in told[:7]:
            world.ended(low, exit_code=None, signal=15)
        world.wait(1)
    assert [world.state(low) for low in lows] == ["PEND"] * 20
    assert [world.job(low).requeues for low in lows] == [1] * 20
    assert [world.state(high) for high in highs] == ["RUN"] * urgent
    world.check_replay()


def test_a_rerunnable_job_that_is_suspended_beside_one_that_is_not_says_so() -> None:
    params = Params(preempt_requeue=True, min_run_before_preempt_s=10.0)
    world = World(make_config([HostConfig(name="a", max_slots=2)], QUEUES, params=params))
    lows = world.run(spec(rerunnable=True), spec())
    world.wait(20)
    (high,) = world.submit(spec(queue="high", slots=2))
    world.settle()
    assert [world.state(each) for each in (*lows, high)] == ["SSUSP", "SSUSP", "RUN"]
    assert "not requeued: rerunnable jobs hold too little" in sentence(world.job(lows[0]).suspend_reason)


def test_a_reconfiguration_that_lifts_what_protected_the_victim_counts_at_once() -> None:
    """Who looked in vain for somebody to displace looks again after seconds: under other rules there is no waiting."""
    hosts = [HostConfig(name="a", max_slots=2)]
    world = World(make_config(hosts, QUEUES, params=Params(min_run_before_preempt_s=1000.0)))
    (low,) = world.run(gpu_spec(1, slots=2))
    world.wait(20)
    (high,) = world.submit(spec(queue="high", slots=2))
    world.settle()
    assert (world.state(low), world.state(high)) == ("RUN", "PEND")
    world.reconfigure(make_config(hosts, QUEUES, params=Params(min_run_before_preempt_s=10.0)))
    world.settle()
    assert (world.state(low), world.state(high)) == ("SSUSP", "RUN")


def test_who_was_preempted_cannot_simply_be_resumed() -> None:
    world, low = full()
    (high,) = world.submit(spec(queue="high", slots=2))
    world.settle()
    world.control("stop", low)
    assert world.state(low) == "USUSP"
    again = ClusterState.load(world.engine.state.dump())
    assert again.ledger.host("a").slots_used == 2
    assert world.modify(low, description="x") == [""]
    assert world.engine.state.ledger.host("a").slots_used == 2
    (error,) = world.control("resume", low)
    assert error == f"its slots are taken by job {high}; it goes on by itself when they are free"
    world.control("kill", high)
    world.ended(high, exit_code=None, signal=9)
    world.settle()
    assert world.state(low) == "USUSP"  # stopped by its owner: it does not go on by itself
    assert world.control("resume", low) == [""] and world.state(low) == "RUN"
    world.check_replay()


def test_windows_and_loads_do_not_wake_a_preempted_job() -> None:
    world, low = full()
    (high,) = world.submit(spec(queue="high", slots=2))
    world.settle()
    world.wait(5)
    world.report(load=load())
    assert (world.state(low), world.state(high)) == ("SSUSP", "RUN")


def test_a_preempted_job_may_end_be_killed_or_lose_its_host() -> None:
    for how in ("end", "kill", "lose"):
        world, low = full()
        (high,) = world.submit(spec(queue="high", slots=2))
        world.settle()
        if how == "lose":
            world.disconnect()
            world.wait(40)
            assert world.state(low) == "UNKWN"
            world.connect(held=[(low, 1), (high, 1)])
            assert world.state(low) == "SSUSP"
        world.control("kill", low)
        world.ended(low, exit_code=None, signal=9)
        assert world.state(low) == "EXIT" and world.engine.state.ledger.host("a").slots_used == 2
        world.check_replay()


def test_gpus_are_freed_by_requeueing_only() -> None:
    world, low = full(requeue=True, rerunnable=True)
    (high,) = world.submit(gpu_spec(4, queue="high", slots=2))
    world.settle()
    assert (world.state(low), world.state(high)) == ("RUN", "PEND")
    assert world.orders()[-1] == TerminateAttempt("a", low, 1, "TERM_PREEMPT")
    since = len(world.instructions)
    world.wait(1)
    world.settle()
    assert not world.orders(since)  # asked once
    world.ended(low, exit_code=None, signal=15)
    world.settle()
    assert (world.state(low), world.state(high)) == ("PEND", "RUN")
    assert world.job(low).preempted == 1 and world.job(low).requeues == 1
    world.check_replay()
    world.started(high)
    world.ended(high)
    world.settle()
    assert (world.state(low), world.job(low).attempt) == ("RUN", 2)
    world.check_replay()


def test_the_young_are_spared() -> None:
    params = Params(min_run_before_preempt_s=100.0)
    world = World(make_config([HostConfig(name="a", max_slots=2)], QUEUES, params=params))
    (low,) = world.run(spec(slots=2))
    (high,) = world.submit(spec(queue="high"))
    world.settle()
    assert (world.state(low), world.state(high)) == ("RUN", "PEND")
    world.wait(100)
    world.settle()
    assert (world.state(low), world.state(high)) == ("SSUSP", "RUN")


def test_a_plan_is_carried_out_bit_by_bit() -> None:
    world = World(make_config(params=Params(max_dispatch_per_cycle=2)))
    ids = world.submit(*[spec()] * 5)
    counts = []
    while world.engine.cycles.needs_cycle:
        world.cycle()
        assert world.engine.cycles.failure is None
        counts.append(sum(world.state(job_id) == "RUN" for job_id in ids))
        assert all(world.reasons(job_id) for job_id in ids)
    assert counts == [2, 4, 5]


# -- TERMINATE_WHEN ---------------------------------------------------------------------------------------------------

LOST = (QUEUES[0], Queue(name="normal", priority=1, terminate_when=("PREEMPT",)), Queue(name="other", priority=1))


@pytest.mark.parametrize("requeue", [False, True])
def test_a_queue_has_its_preempted_jobs_ended_for_good(requeue: bool) -> None:
    params = Params(preempt_requeue=requeue, min_run_before_preempt_s=10.0)
    world = World(make_config([HostConfig(name="a", max_slots=2)], LOST, params=params))
    (low,) = world.run(gpu_spec(1, slots=2, rerunnable=requeue))
    world.wait(20)
    (high,) = world.submit(gpu_spec(2, queue="high", slots=2))  # its GPU is needed as well
    world.settle()
    assert world.orders()[-1] == TerminateAttempt("a", low, 1, "TERM_PREEMPT")
    assert world.state(high) == "PEND"
    noted = [event for event in world.events if isinstance(event, JobNoted) and event.job_id == low]
    assert sentence(noted[-1].text) == (
        "It is ended instead of suspended (TERMINATE_WHEN): "
        f"The job was preempted because of a higher priority job <{high}>"
    )
    world.settle()
    assert world.orders().count(TerminateAttempt("a", low, 1, "TERM_PREEMPT")) == 1  # once
    world.ended(low, exit_code=None, signal=15, term_reason="TERM_PREEMPT")
    world.settle()
    assert (world.state(low), world.state(high)) == ("EXIT", "RUN")
    result = world.job(low).result
    assert result is not None and result.term_reason == "TERM_PREEMPT"
    world.check_replay()


def test_nobody_is_ended_for_good_where_another_can_be_suspended() -> None:
    params = Params(min_run_before_preempt_s=10.0)
    world = World(make_config([HostConfig(name="a", max_slots=2)], LOST, params=params))
    lost, other = world.run(spec(), spec(queue="other", rerunnable=True))
    world.wait(20)
    (high,) = world.submit(spec(queue="high"))
    world.settle()
    assert [world.state(each) for each in (lost, other, high)] == ["RUN", "SSUSP", "RUN"]
    (second,) = world.submit(spec(queue="high"))
    world.settle()
    assert world.orders()[-1] == TerminateAttempt("a", lost, 1, "TERM_PREEMPT")
    world.ended(lost, exit_code=None, signal=15)
    world.settle()
    assert [world.state(each) for each in (lost, other, second)] == ["EXIT", "SSUSP", "RUN"]
    world.check_replay()
