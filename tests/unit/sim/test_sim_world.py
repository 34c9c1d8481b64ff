"""The real engine in virtual time: jobs come and go as they should, and plans hold on random traces."""

from __future__ import annotations

from typing import Any

import pytest

from gsched.model.config import Params
from gsched.model.queues.preempt_sparing import Sparing
from gsched.model.queues.queue import Preemption, Queue
from gsched.sim.trace import Recipe, TraceJob, random_trace
from gsched.sim.world import START, Fate, World, simulated_config

FILLING = (Queue(name="normal", backfill=True),)
FEW, NIGHTS = 3, 4000


def job(arrives: float = 0.0, runs: float = 10.0, **more: object) -> TraceJob:
    return TraceJob(**({"arrives_s": arrives, "runs_s": runs, "limit_s": int(runs)} | more))  # type: ignore[arg-type]


def times(fates: dict[int, Fate]) -> list[tuple[float | None, float | None]]:
    """Start and end of each job, in seconds of the trace."""
    return [
        (
            None if fate.first_start is None else fate.first_start - START,
            None if fate.ended_at is None else fate.ended_at - START,
        )
        for fate in fates.values()
    ]


def test_jobs_run_one_after_the_other_where_there_is_room() -> None:
    world = World(simulated_config(slots=2))
    assert times(world.run([job(0, 10), job(0, 20), job(5, 10), job(6, 10)])) == [(0, 10), (0, 20), (10, 20), (20, 30)]
    assert world.waiting() == world.running() == []


def test_gang_and_priority_of_a_trace() -> None:
    world = World(
        simulated_config(hosts=2, slots=8, gpus=4, params=Params(max_user_priority=10)), gpus=4, audit_every=3
    )
    gang = job(1, 10, slots=2, gpus=4, spread=True, tasks_per_host=1, priority=9)
    fates = world.run(
        [job(0, 5, gpus=4, priority=1), job(0, 5, gpus=4, priority=1), job(1, 5, gpus=1, priority=1), gang]
    )
    assert times(fates) == [(0, 5), (0, 5), (15, 20), (5, 15)]
    _, allocation = fates[4].starts[0]
    assert [(part.slots, len(part.gpus)) for part in allocation.hosts] == [(1, 4), (1, 4)]


def test_run_limit_ends_a_job() -> None:
    world = World(simulated_config())
    assert times(world.run([job(0, 100, limit_s=30)])) == [(0, 30)]


def test_devices_are_held_by_one_job_at_a_time() -> None:
    world = World(simulated_config(slots=8, gpus=2), gpus=2)
    fates = world.run([job(0, 10, gpus=1), job(0, 10, gpus=1), job(0, 10, gpus=2)])
    assert times(fates) == [(0, 10), (0, 10), (10, 20)]
    first, second = (fate.starts[0][1].hosts[0].gpus[0].index for fate in list(fates.values())[:2])
    assert {first, second} == {0, 1}


def test_big_job_is_not_starved_by_small_ones() -> None:
    small = [job(float(at), 100.0) for at in range(0, 1000, 10)]
    fates = World(simulated_config(slots=4, queues=FILLING)).run([*small, job(55.0, 10.0, slots=4)])
    big = next(fate for fate in fates.values() if fate.job.slots == 4)
    assert big.promised_at is not None and big.first_start is not None
    assert big.first_start <= big.promised_at
    assert big.first_start - START == 210.0  # after the two small jobs that waited before it


def test_suspended_job_runs_its_whole_time() -> None:
    queues = (Queue(name="normal", priority=1), Queue(name="high", priority=9, preemption=Preemption(preemptive=())))
    world = World(simulated_config(slots=1, queues=queues))
    low, high = world.run([job(0, 100), job(30, 20, queue="high")]).values()
    assert (high.first_start, high.ended_at) == (START + 30, START + 50)
    assert (low.stops, low.resumes, low.ended_at) == ([START + 30], [START + 50], START + 120)


def test_requeued_job_gives_its_devices_to_the_preemptor() -> None:
    queues = (Queue(name="normal", priority=1), Queue(name="high", priority=9, preemption=Preemption(preemptive=())))
    config = simulated_config(slots=4, gpus=1, queues=queues, params=Params(preempt_requeue=True))
    world = World(config, gpus=1, ends_after_s=3.0)
    low, high = world.run([job(0, 100, gpus=1, rerunnable=True), job(30, 20, gpus=1, queue="high")]).values()
    assert high.first_start == START + 33
    assert [at - START for at, _ in low.starts] == [0, 53]
    assert low.ended_at == START + 153


def test_equal_traces_give_equal_runs() -> None:
    trace = random_trace(7, Recipe(most_gpus=2, spread=0.3))
    one, two = (World(simulated_config(2, 4, 2, FILLING), gpus=2) for _ in range(2))
    assert one.run(trace) == two.run(trace)
    assert one.decisions == two.decisions


def play(seed: int, **more: Any) -> int:
    """Plans made on a random trace; asserts that each was met."""
    hosts, slots, gpus = 1 + seed % 4, (2, 4, 8)[seed % 3], (0, 2, 4)[seed // 3 % 3]
    queues = (Queue(name="normal", backfill=seed % 5 > 0, exclusive=True),)
    recipe = Recipe(
        most_slots=slots,
        most_gpus=gpus,
        most_mem_mib=600.0,
        spread=0.2 if hosts > 1 else 0.0,
        most_spread=slots * hosts,
        exclusive=0.1,
        **more,
    )
    world = World(simulated_config(hosts, slots, gpus, queues), gpus=gpus, mem_mib=1000.0)
    world.expect(random_trace(seed, recipe))
    promised: dict[int, float] = {}
    for _ in world.steps():
        head = min(world.waiting(), default=0)  # nobody comes before it
        plan = world.engine.cycles.planned.get(head)
        if plan is not None and plan.at is not None:
            assert plan.at <= promised.setdefault(head, plan.at), f"seed {seed}: job {head} is put off"
        if not world.running():  # an idle cluster starts what fits: who waits can never start
            assert all(world.fates[job_id].plans[-1][1].at is None for job_id in world.waiting()), f"seed {seed}"
    fates = world.fates
    for number, fate in fates.items():
        if number in promised:
            assert fate.first_start is not None, f"seed {seed}: job {number} never starts"
            assert fate.first_start <= promised[number], f"seed {seed}: job {number} starts after its plan"
        assert fate.ended_at is not None or not fate.starts
    assert not world.running() and not world.parts()
    return len(promised)


def test_plans_are_met_on_random_traces() -> None:
    assert sum(play(seed) for seed in range(FEW)) > FEW


def test_plans_are_met_where_memory_is_given_back_early() -> None:
    assert sum(play(seed, mem_ends=0.7, longest_s=600) for seed in range(FEW)) > FEW


def test_memory_that_is_given_back_early_is_planned_with() -> None:
    world = World(simulated_config(slots=4), mem_mib=1000.0)
    first = TraceJob(arrives_s=0, runs_s=1000, limit_s=1000, mem_mib=800, mem_s=100)
    decaying = TraceJob(arrives_s=0, runs_s=1000, limit_s=1000, mem_mib=200, mem_s=600, mem_decays=True)
    one, two, three = world.run([first, decaying, TraceJob(arrives_s=1, runs_s=10, limit_s=10, mem_mib=900)]).values()
    assert one.first_start == two.first_start == START
    # 900 of 1000 are free when the decay has half of its ten steps behind it.
    assert three.first_start == three.promised_at == START + 300


def test_memory_that_is_given_back_on_several_hosts_is_planned_with() -> None:
    world = World(simulated_config(hosts=2, slots=4), mem_mib=1000.0)
    first = TraceJob(arrives_s=0, runs_s=900, limit_s=900, mem_mib=800, mem_s=100)
    wide = TraceJob(arrives_s=1, runs_s=10, limit_s=10, slots=6, mem_mib=900, spread=True)
    *_, last = world.run([first, first, wide]).values()
    assert last.first_start == last.promised_at == START + 100


def compete(seed: int) -> int:
    """Preemptions on a random trace of two queues; asserts that none was too early or too many."""
    queues = (
        Queue(name="low", priority=1, backfill=True),
        Queue(name="high", priority=9, preemption=Preemption(preemptive=()), backfill=True),
    )
    params = Params(min_run_before_preempt_s=10.0, sparing=Sparing(most=2), preempt_requeue=seed % 2 > 0)
    gpus = 2 if seed % 2 else 0
    config = simulated_config(1 + seed % 3, 4, gpus, queues, params=params)
    world = World(config, gpus=gpus, ends_after_s=float(seed % 4))
    recipe = Recipe(jobs=25, queues=("low", "high"), most_gpus=gpus, rerunnable=0.7, longest_s=100, unlimited=0.2)
    stops = 0
    for fate in world.run(random_trace(seed, recipe)).values():
        assert fate.ended_at is not None
        began = [at for at, _ in fate.starts] + fate.resumes
        assert len(fate.resumes) <= len(fate.stops)  # one that is stopped may still be requeued
        assert len(fate.stops) + len(fate.starts) - 1 <= 2
        for at in fate.stops:
            assert at - max(each for each in began if each <= at) >= 10.0
        stops += len(fate.stops) + len(fate.starts) - 1
    return stops


def test_nobody_is_preempted_again_at_once() -> None:
    assert sum(compete(seed) for seed in range(FEW)) > 5


@pytest.mark.nightly
def test_nobody_is_preempted_again_at_once_on_thousands_of_traces() -> None:
    for seed in range(FEW, NIGHTS):
        compete(seed)


@pytest.mark.nightly
def test_plans_are_met_on_thousands_of_traces_where_memory_is_given_back_early() -> None:
    for seed in range(FEW, NIGHTS):
        play(seed, mem_ends=0.7, longest_s=600)


@pytest.mark.nightly
def test_plans_are_met_on_thousands_of_random_traces() -> None:
    for seed in range(FEW, NIGHTS):
        play(seed)
