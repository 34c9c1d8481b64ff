"""The order in which jobs of one queue start, as a user of a small cluster sees it: the real engine in virtual time."""

from __future__ import annotations

import random

import pytest

from gsched.model.config import Params
from gsched.model.queues.queue import Queue
from gsched.sim.trace import TraceJob
from gsched.sim.world import START, Fate, World, simulated_config

pytestmark = pytest.mark.slow

HOSTS, GPUS, SLOTS = 3, 4, 512


def job(arrives: float, runs: float, gpus: int = 1, **more: object) -> TraceJob:
    return TraceJob(arrives_s=arrives, runs_s=runs, gpus=gpus, **more)  # type: ignore[arg-type]


def played(jobs: list[TraceJob], hosts: int = HOSTS, **queue: object) -> list[Fate]:
    """What became of them, in the order of submission."""
    queues = (Queue(name="normal", **({"backfill": True} | queue)),)  # type: ignore[arg-type]
    config = simulated_config(hosts, SLOTS, GPUS, queues, params=Params(max_user_priority=100))
    return list(World(config, gpus=GPUS).run(jobs).values())


def start(fate: Fate) -> float:
    assert fate.first_start is not None
    return fate.first_start - START


@pytest.mark.parametrize("limit", [None, 60])
@pytest.mark.parametrize("big", [1, 2])
def test_a_big_job_passes_nobody_who_came_before(big: int, limit: int | None) -> None:
    chance = random.Random(1)
    small = [job(0.0, chance.uniform(2.0, 4.0), limit_s=limit) for _ in range(40)]
    fates = played([*small, *(job(0.5, 3.0, GPUS, limit_s=limit) for _ in range(big))])
    assert all(start(before) <= start(fate) for fate in fates[40:] for before in fates[:40])


def test_larger_sp_starts_first() -> None:
    chance = random.Random(1)
    high = [job(0.0, chance.uniform(2.0, 4.0), priority=90) for _ in range(80)]
    fates = played([*high, *(job(0.5, 3.0, GPUS, priority=1) for _ in range(4))])
    assert max(start(fate) for fate in fates[:80]) <= min(start(fate) for fate in fates[80:])


def test_who_states_a_limit_does_not_wait_longer() -> None:
    def last_small(limit: int | None, **queue: object) -> float:
        chance = random.Random(2)
        small = [job(0.0, chance.uniform(2.0, 4.0), limit_s=limit) for _ in range(60)]
        fates = played([*small, *(job(0.5, 3.0, GPUS, limit_s=limit) for _ in range(6))], **queue)
        return max(start(fate) for fate in fates[:60])

    assert last_small(60) <= last_small(None)
    assert last_small(60, backfill=False) <= last_small(None, backfill=False)


@pytest.mark.parametrize("limit", [None, 100])
@pytest.mark.parametrize("reserved", [1, 16])
def test_a_stream_of_small_jobs_does_not_starve_a_big_one(reserved: int, limit: int | None) -> None:
    """Twice as many small jobs as the cluster can run keep coming; the big one waits for those before it, no longer."""
    stream = [job(float(at), 100.0, limit_s=limit) for at in range(0, 600, 12)]
    fates = played([*stream, job(1.0, 50.0, GPUS, limit_s=limit)], 1, reserved_jobs=reserved)
    (big,) = (fate for fate in fates if fate.job.gpus == GPUS)
    assert start(big) <= 1.0 + 100.0


def test_several_big_jobs_start_one_after_the_other() -> None:
    """They wait for what ran when they came, and for each other."""
    stream = [job(float(at), 100.0, limit_s=100) for at in range(0, 900, 12)]
    big = [job(1.0 + number, 50.0, GPUS, limit_s=50) for number in range(4)]
    fates = played([*stream, *big], 1)
    assert sorted(start(fate) for fate in fates if fate.job.gpus == GPUS) == [100.0, 150.0, 200.0, 250.0]


def test_without_reservations_small_jobs_leave_nothing_idle_for_a_big_one() -> None:
    stream = [job(float(at), 100.0, limit_s=100) for at in range(0, 1000, 12)]
    fates = played([*stream, job(50.0, 50.0, GPUS, limit_s=50)], 1, reserved_jobs=0)
    (big,) = (fate for fate in fates if fate.job.gpus == GPUS)
    assert start(big) > 1000.0


# -- starts that are only estimated -----------------------------------------------------------------------------------

PAST = [job(0.0, 100.0) for _ in range(8)]
"""Of them it is known, from 200 on, that jobs of one GPU run for 100 s."""


def big_and_small(stream: list[TraceJob], **queue: object) -> tuple[float, list[float]]:
    """When a big job starts that comes at 250, beside one that is expected to end at 300, and when the stream does."""
    fates = played([*PAST, job(200.0, 100.0), job(250.0, 50.0, GPUS, limit_s=50), *stream], 1, **queue)
    (big,) = (fate for fate in fates if fate.job.gpus == GPUS)
    return start(big), [start(fate) for fate in fates if fate.job.arrives_s > 250.0]


def test_gpus_are_in_use_until_the_latest_start() -> None:
    """It is told to start at 300, after a wait of 50 s. Others may put it off until 400, and would end at 360."""
    stream = [job(260.0, 100.0) for _ in range(3)]
    assert big_and_small(stream) == (360.0, [260.0] * 3)
    assert big_and_small(stream, plan_delay=1.0) == (300.0, [350.0] * 3)
    assert big_and_small(stream, plan_delay=0.0) == (300.0, [350.0] * 3)
    assert big_and_small(stream, reserved_jobs=16) == (300.0, [350.0] * 3)


def test_who_would_end_after_the_latest_start_waits() -> None:
    stream = [job(301.0, 100.0) for _ in range(3)]
    assert big_and_small(stream) == (300.0, [350.0] * 3)


@pytest.mark.parametrize("longer", [1.0, 3.0])
def test_a_stream_of_jobs_without_limits_does_not_starve_a_big_one(longer: float) -> None:
    """They come all the time, and from then on run longer than all before them: the estimate says 100 s for a while."""
    stream = [job(251.0 + 12 * number, 100.0 * longer) for number in range(100)]
    big, starts = big_and_small(stream)
    assert any(each < big for each in starts)
    assert big <= 400.0 + 100.0 * longer, "those had started before the latest start"


@pytest.mark.slow
def test_gpus_are_used_better_than_where_nobody_may_put_a_start_off() -> None:
    """Of all sizes, without limits: the last one of 120 starts earlier, and on the whole they wait for less long."""
    chance = random.Random(3)
    mixed = [job(0.0, chance.uniform(60.0, 1200.0), chance.choice((1, 1, 2, 4))) for _ in range(120)]

    def waits(**queue: object) -> list[float]:
        return [start(fate) for fate in played(mixed, 2, **queue)]

    usual, strict = waits(), waits(plan_delay=0.0)
    assert sum(usual) < 0.95 * sum(strict) and max(usual) < max(strict)
