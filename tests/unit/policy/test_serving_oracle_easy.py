"""The judge of order and the bench's EASY backfilling, each written by itself, agree on random histories."""

from __future__ import annotations

import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.saturation_oracles import Place, Work, easy, least_makespan, most_gpu_seconds
from tests.support.property_examples import examples
from tests.support.serving_order.serving_history import PastCluster, PastJob, PastQueue, Run
from tests.support.serving_order.serving_oracle import judge
from tests.support.serving_order.serving_verdict import Verdict

HOSTS, GPUS = 3, 4
NAMES = [f"h{number}" for number in range(HOSTS)]
SEEDS = st.integers(0, 10**9)


def random_work(seed: int) -> list[Work]:
    """Jobs of whole seconds, gangs among them."""
    chance = random.Random(seed)
    jobs, arrives = [], 0.0
    for _ in range(chance.randint(5, 40)):
        arrives += chance.choice((0, 0, 0, 1, 5))
        hosts = chance.choice((1, 1, 1, 1, 2, HOSTS))
        lasts, gpus = float(chance.randint(1, 30)), chance.randint(1, GPUS)
        priority = chance.choice((0, 0, 5))
        jobs.append(Work(arrives=arrives, lasts=lasts, gpus=gpus, hosts=hosts, priority=priority))
    return jobs


def judged(works: list[Work], places: list[Place], thought: list[float] | None = None) -> Verdict:
    known = [work.lasts for work in works] if thought is None else thought
    jobs = [
        PastJob(
            number=number,
            submitted=work.arrives,
            hosts=work.hosts,
            gpus=work.gpus,
            priority=work.priority,
            limit_s=None if math.isinf(known[number - 1]) else known[number - 1],
            runs=(Run(start=at.start, end=at.start + work.lasts, hosts=tuple(NAMES[host] for host in at.hosts)),),
        )
        for number, (work, at) in enumerate(zip(works, places, strict=True), 1)
    ]
    queues = {"normal": PastQueue(reserves_without_time=False)}  # as EASY backfilling does
    return judge(PastCluster(hosts=dict.fromkeys(NAMES, (GPUS, 99)), queues=queues), jobs)


@given(SEEDS)
@settings(max_examples=examples(17), deadline=None)
def test_easy_backfilling_is_in_order_and_leaves_nothing_idle(seed: int) -> None:
    works = random_work(seed)
    verdict = judged(works, easy(works, HOSTS, GPUS))
    assert [*map(str, (*verdict.inversions, *verdict.idle))] == []


@given(SEEDS)
@settings(max_examples=examples(17), deadline=None)
def test_the_same_where_run_limits_are_too_long_or_unknown(seed: int) -> None:
    works, chance = random_work(seed), random.Random(seed)
    thought = [work.lasts * chance.choice((1, 2, 5, math.inf)) for work in works]
    verdict = judged(works, easy(works, HOSTS, GPUS, thought), thought)
    assert [*map(str, (*verdict.inversions, *verdict.idle))] == []


def test_smallest_first_is_found_out_on_most_histories() -> None:
    """The same cluster serves by size."""
    found = 0
    for seed in range(20):
        works = random_work(seed)
        by_size = [
            Work(arrives=w.arrives, lasts=w.lasts, gpus=w.gpus, hosts=w.hosts, priority=-w.gpus * w.hosts)
            for w in works
        ]
        found += bool(judged(works, easy(by_size, HOSTS, GPUS)).inversions)
    assert found > 10


@given(SEEDS)
@settings(max_examples=examples(12), deadline=None)
def test_nothing_delivers_more_than_the_bound(seed: int) -> None:
    works = random_work(seed)
    places = easy(works, HOSTS, GPUS)
    end = max(place.start + work.lasts for place, work in zip(places, works, strict=True))
    assert end >= least_makespan(works, HOSTS * GPUS) * (1 - 1e-9)
    for until in (end / 4, end / 2, end):
        delivered = sum(
            work.gpus * work.hosts * max(0.0, min(until, place.start + work.lasts) - place.start)
            for place, work in zip(places, works, strict=True)
        )
        assert delivered <= most_gpu_seconds(works, HOSTS * GPUS, until) + 1e-6
