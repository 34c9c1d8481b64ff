"""The workloads of bench/saturation.py: jobs that come to a few hosts in one order, made from a seed.

Times are seconds. A gang takes the same on each of several hosts. Sizes and durations of the two large mixes follow
what was published of the clusters: Philly (Jeon et al., USENIX ATC 2019) and Helios (Hu et al., SC 2021); no job of
theirs is used.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gsched.sim.trace import TraceJob

LONGEST_S = 2 * 3600.0
"""Longer jobs are cut off there: else a run would end with days of a few long ones."""


ROUND_MIN = (5, 10, 15, 30, 60, 90, 120, 180, 240, 480, 720)
"""Run limits that people state, in minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs and the cluster they come to."""

    says: str
    jobs: Sequence[TraceJob]
    hosts: int
    gpus: int = 4
    """On each host."""
    backfill: bool = False
    """BACKFILL of the queue."""


@dataclass(frozen=True, slots=True)
class Mix:
    """Sizes of jobs and how long they last."""

    sizes: dict[int, float] = field(hash=False)
    """GPUs in all -> share of the jobs."""
    median_s: float
    mean_s: float
    longest_s: float

    def draw(self, chance: random.Random) -> tuple[int, float]:
        """GPUs and run time: log-normal; as published, jobs of more GPUs run longer."""
        (size,) = chance.choices(list(self.sizes), list(self.sizes.values()))
        sigma = math.sqrt(2 * math.log(self.mean_s / self.median_s))
        longer = 1 + math.log2(size) / 4
        return size, min(self.longest_s, max(30.0, chance.lognormvariate(math.log(self.median_s * longer), sigma)))


PHILLY = Mix({1: 0.70, 2: 0.07, 4: 0.10, 8: 0.09, 16: 0.025, 32: 0.01, 64: 0.005}, 780, 28_329, LONGEST_S)
HELIOS = Mix({1: 0.55, 2: 0.10, 4: 0.10, 8: 0.18, 16: 0.04, 32: 0.02, 64: 0.01}, 206, 6_652, LONGEST_S)


def one(arrives: float, runs: float, gpus: int = 1, hosts: int = 1, **more: object) -> TraceJob:
    """A job of `hosts` times `gpus` GPUs."""
    gang = {"slots": hosts, "spread": True, "tasks_per_host": 1} if hosts > 1 else {}
    times = {"arrives_s": exact(arrives), "runs_s": exact(runs)}
    return TraceJob(**(times | {"gpus": gpus} | gang | more))  # type: ignore[arg-type]


def exact(seconds: float) -> float:
    """A time that stays the same when it is added to the time of day and taken from it again."""
    return round(seconds * 1024) / 1024


def small_then_big(
    seed: int, small: int, big: int, *, limit: int | None = None, sp: tuple[int, int] | None = None
) -> list[TraceJob]:
    """`small` jobs of one GPU, some seconds each, then `big` ones of a whole host."""
    chance = random.Random(seed)
    high, low = sp or (None, None)
    jobs = [one(0.0, chance.uniform(2.0, 4.0), limit_s=limit, priority=high) for _ in range(small)]
    return jobs + [one(0.5, 3.0, 4, limit_s=limit, priority=low) for _ in range(big)]


def mixed(seed: int, hosts: int, count: int = 200, *, stated: float = 0.0, equal: bool = False) -> list[TraceJob]:
    """Jobs of 1, 2 and 4 GPUs and gangs over all hosts, all there at once. `stated`: the share with a run limit."""
    chance = random.Random(seed)
    shapes = [(1, 1), (2, 1), (4, 1), *(((2, hosts), (4, hosts)) if hosts > 1 else ())]
    weights = [45, 25, 20, 5, 5][: len(shapes)]
    jobs = []
    for _ in range(count):
        ((gpus, parts),) = chance.choices([(1, 1)], [1]) if equal else chance.choices(shapes, weights)
        runs = chance.uniform(60.0, 1200.0)
        limit = limit_of(chance, runs) if chance.random() < stated else None
        jobs.append(one(0.0, runs, gpus, parts, limit_s=limit))
    return jobs


def large(seed: int, mix: Mix, count: int, *, stated: float = 1.0) -> list[TraceJob]:
    """A cluster of 800 GPUs to which five times as much comes as it can do: a tenth is there, the rest follows."""
    chance = random.Random(seed)
    drawn = [mix.draw(chance) for _ in range(count)]
    worth = sum(size * runs for size, runs in drawn) / 800
    jobs = []
    for number, (size, runs) in enumerate(drawn):
        arrives = 0.0 if number < count // 10 else chance.uniform(0.0, worth / 5)
        limit = limit_of(chance, runs) if chance.random() < stated else None
        jobs.append(one(arrives, runs, min(size, 8), max(1, size // 8), limit_s=limit))
    return sorted(jobs, key=lambda job: job.arrives_s)


def limit_of(chance: random.Random, runs: float) -> int:
    """What a user states who does not know: up to four times too much, then the next round number."""
    wanted = runs * chance.uniform(1.0, 4.0) / 60
    return 60 * next(each for each in ROUND_MIN if each >= wanted)


Make = Callable[[int, float], Workload]
"""Seed, how much larger than usual -> the workload."""


def _few(says: str, backfill: bool = True, **how: object) -> Make:
    def make(seed: int, size: float) -> Workload:
        jobs = small_then_big(seed, round(int(how["small"]) * size), **_but(how, "small"))  # type: ignore[call-overload,arg-type]
        return Workload(says=says, jobs=jobs, hosts=3, backfill=backfill)

    return make


def _mixed(says: str, hosts: int, backfill: bool = True, **how: object) -> Make:
    def make(seed: int, size: float) -> Workload:
        jobs = mixed(seed, hosts, round(200 * size), **how)  # type: ignore[arg-type]
        return Workload(says=says, jobs=jobs, hosts=hosts, backfill=backfill)

    return make


def _large(says: str, mix: Mix, count: int, backfill: bool = True, **how: float) -> Make:
    def make(seed: int, size: float) -> Workload:
        jobs = large(seed, mix, round(count * size), **how)
        return Workload(says=says, jobs=jobs, hosts=100, gpus=8, backfill=backfill)

    return make


def _but(values: dict[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in values.items() if key != name}


WORKLOADS: dict[str, Make] = {
    "one-big": _few("40 jobs of one GPU on 3 hosts, then one of a whole host", small=40, big=1),
    "two-big": _few("the same, with two of a whole host", small=40, big=2),
    "sp": _few("80 small jobs with -sp 90, then four big ones with -sp 1", small=80, big=4, sp=(90, 1)),
    "sp-limits": _few("the same with -W 1", small=80, big=4, sp=(90, 1), limit=60),
    "few-none": _few("60 small jobs, then 6 big ones, no run limits", small=60, big=6),
    "few-limits": _few("the same with -W 1", small=60, big=6, limit=60),
    "few-plain": _few("the same without BACKFILL", False, small=60, big=6, limit=60),
    "equal": _mixed("200 jobs of one GPU on 3 hosts", 3, equal=True),
    "mixed-1": _mixed("1, 2 and 4 GPUs on one host, no run limits", 1),
    "mixed-2": _mixed("1, 2 and 4 GPUs and gangs on 2 hosts, no run limits", 2),
    "mixed-3": _mixed("1, 2 and 4 GPUs and gangs on 3 hosts, no run limits", 3),
    "mixed-3-half": _mixed("the same, every second job with a run limit", 3, stated=0.5),
    "mixed-3-limits": _mixed("the same with run limits", 3, stated=1.0),
    "mixed-3-plain": _mixed("the same with run limits, without BACKFILL", 3, False, stated=1.0),
    "philly": _large("as on Philly, 100 hosts of 8 GPUs, run limits", PHILLY, 700),
    "helios": _large("as on Helios, 100 hosts of 8 GPUs, run limits", HELIOS, 700),
    "helios-none": _large("as on Helios without run limits", HELIOS, 700, stated=0.0),
}
