"""On random traces: a plan once made is met, nobody holds a GPU twice, and nobody is preempted for nothing."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_cluster import Ask, Cluster, Preemption, ask_of, kind

from gsched.model.queues.preempt_sparing import Sparing
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Bucket
from tests.support.property_examples import examples

FEW, NIGHTS = 10, 10_000


@dataclass
class World:
    """Events in order of time on a plain cluster; jobs end by their run limits at the latest."""

    cluster: Cluster
    promised: dict[int, float] = field(default_factory=dict)
    """Job -> the first time it was planned for while nobody came before it."""
    started: dict[int, float] = field(default_factory=dict)

    def play(self, jobs: list[tuple[float, Bucket, float]], check: bool) -> None:
        """`jobs`: arrival, kind, run time."""
        events: list[tuple[float, int, int]] = []
        for number, (arrival, _, _) in enumerate(jobs):
            heapq.heappush(events, (arrival, 1, number))
        numbers: dict[int, float] = {}
        while events:
            now = events[0][0]
            while events and events[0][0] == now:
                _, what, number = heapq.heappop(events)
                if what == 0:
                    self.cluster.end(number)
                else:
                    _, bucket, lasts = jobs[number]
                    numbers[self.cluster.wait(bucket)] = lasts
            self.step(now, check)
            for job_id, at in self.started.items():
                if at == now and job_id in self.cluster.running:
                    heapq.heappush(events, (now + numbers[job_id], 0, job_id))

    def step(self, now: float, check: bool) -> None:
        done = self.cluster.cycle(now)
        self.cluster.audit()
        for job_id in done.started:
            self.started[job_id] = now
        head = min(self.cluster.waiting, default=0)
        plan = done.planned.get(head)
        if plan is not None and plan.at is not None:
            first = self.promised.setdefault(head, plan.at)
            assert not check or plan.at <= first, f"job {head} was planned for {first}, now for {plan.at}"
        for job_id, first in self.promised.items():
            if check and job_id in self.cluster.waiting:
                assert now <= first, f"job {job_id} was planned for {first} and waits at {now}"
        if not self.cluster.running and self.cluster.waiting:
            assert not self.able(), "an idle cluster starts nothing"

    def able(self) -> list[int]:
        """Waiting jobs that an empty cluster could take."""
        hosts = len(self.cluster.hosts)
        slots = min(host_ledger.max_slots or 0 for host_ledger in self.cluster.ledger.hosts.values())
        found = []
        for job_id, bucket in self.cluster.waiting.items():
            ask = ask_of(bucket)
            if ask.slots <= (slots if ask.hosts == 1 else slots * hosts):
                found.append(job_id)
        return found


def trace(seed: int, queues: tuple[str, ...] = ("q",)) -> tuple[Cluster, list[tuple[float, Bucket, float]]]:
    chance = random.Random(seed)
    hosts, slots, gpus = chance.randint(1, 4), chance.choice((2, 4, 8)), chance.choice((0, 2, 4))
    backfill = chance.random() < 0.7
    some = chance.choice((1, 16))
    cluster = Cluster(hosts, slots, gpus, [Queue(name=name, backfill=backfill, reserved_jobs=some) for name in queues])
    jobs = []
    at = 0.0
    for _ in range(chance.randint(5, 25)):
        at += chance.choice((0, 0, 1, 5, 20))
        several = hosts > 1 and chance.random() < 0.2
        wanted = chance.randint(1, slots * hosts if several else slots)
        ask = Ask(
            wanted,
            chance.randint(0, gpus) if chance.random() < 0.6 else 0,
            chance.choice((0.0, 0.0, 300.0, 700.0)),
            0 if several else 1,
        )
        limit = float(chance.randint(1, 60))
        lasts = limit if chance.random() < 0.5 else float(chance.randint(1, int(limit)))
        jobs.append((at, kind(ask, chance.choice(queues), limit, exclusive=chance.random() < 0.1), lasts))
    return cluster, jobs


def meet(seeds: range) -> int:
    """Jobs planned for on the traces; asserts that nothing delayed one."""
    planned = 0
    for seed in seeds:
        cluster, jobs = trace(seed)
        world = World(cluster)
        try:
            world.play(jobs, check=True)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        planned += len(world.promised)
        for job_id, first in world.promised.items():
            assert world.started[job_id] <= first, f"seed {seed}: job {job_id}"
    return planned


def test_nothing_delays_a_planned_job_on_random_traces() -> None:
    assert meet(range(FEW)) > FEW  # else nothing was tried


@pytest.mark.nightly
def test_nothing_delays_a_planned_job_on_thousands_of_random_traces() -> None:
    assert meet(range(FEW, FEW + NIGHTS)) > NIGHTS


@pytest.mark.parametrize("seeds", [range(FEW), pytest.param(range(FEW, 1_000), marks=pytest.mark.nightly)])
def test_two_queues_of_equal_priority_keep_their_promises(seeds: range) -> None:
    for seed in seeds:
        cluster, jobs = trace(seed, ("q", "r"))
        world = World(cluster)
        world.play(jobs, check=True)
        assert all(world.started[job_id] <= first for job_id, first in world.promised.items()), f"seed {seed}"


@given(st.integers(0, 10**9))
@settings(max_examples=examples(13), deadline=None)
def test_every_job_that_fits_starts_in_the_end(seed: int) -> None:
    cluster, jobs = trace(seed, ("q", "r"))
    world = World(cluster)
    world.play(jobs, check=False)
    assert not world.able()


def preemptive(seed: int) -> Cluster:
    chance = random.Random(seed)
    queues = [
        Queue(name="high", priority=9, preemption=Preemption(preemptive=()), backfill=True),
        Queue(name="low", priority=1, backfill=True),
    ]
    return Cluster(chance.randint(1, 3), 4, 0, queues, min_run_before_preempt_s=10.0, sparing=Sparing(most=3))


@given(st.integers(0, 10**9))
@settings(max_examples=examples(12), deadline=None)
def test_preempted_jobs_run_their_time_between_preemptions(seed: int) -> None:
    chance = random.Random(seed)
    cluster = preemptive(seed)
    left: dict[int, float] = {}
    went_on: dict[int, float] = {}
    for now in map(float, range(150)):
        if chance.random() < 0.3:
            queue = chance.choice(("high", "low"))
            job_id = cluster.wait(kind(Ask(chance.randint(1, 4)), queue, None))
            left[job_id] = float(chance.randint(1, 30))
        for job_id in [each.job_id for each in cluster.running.values() if each.state == "RUN"]:
            left[job_id] -= 1.0
            if left[job_id] <= 0:
                cluster.end(job_id)
        done = cluster.cycle(now)
        cluster.audit()
        went_on.update(dict.fromkeys([*done.started, *done.resumed], now))
        for each in done.preempted:
            assert now - went_on[each.job_id] >= 10.0
            assert each.job_id not in done.resumed
            assert cluster.running[each.job_id].preempted <= 3
        assert math.isfinite(now)
