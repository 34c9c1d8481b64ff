"""Fairshare as configured by default: by GPU hours where hosts have GPUs, as in LSF where they have none."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from gsched.model.config import Params
from gsched.model.queues.fairshare_factors import FairshareFactors
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import Share
from gsched.sim.trace import TraceJob
from gsched.sim.world import START, World, simulated_config

NIGHTS = 20
SHARES = {"ann": 1, "bob": 2, "cat": 4}
WANTED = pytest.approx([1 / 7, 2 / 7, 4 / 7], abs=0.03)
FAIR = Queue(name="normal", fairshare=tuple(Share(user, shares) for user, shares in SHARES.items()))


def waiting_jobs(seed: int, count: int, gpus: tuple[int, ...], shortest_s: float, longest_s: float) -> list[TraceJob]:
    """`count` jobs of each user, all there at once."""
    chance = random.Random(seed)
    return [
        TraceJob(
            arrives_s=0.0,
            runs_s=round(chance.uniform(shortest_s, longest_s), 1),
            gpus=chance.choice(gpus),
            slots=1,
            user=user,
        )
        for user in SHARES
        for _ in range(count)
    ]


def gpu_time_shares(world: World, jobs: list[TraceJob], span_s: float) -> list[float]:
    """Each user's share of the GPU time in the first `span_s` seconds, in which everybody has jobs that wait."""
    fates = world.run(jobs, span_s)
    waiting = {world.fates[job_id].job.user for job_id in world.waiting()}
    assert waiting == SHARES.keys(), "the jobs of a user ran out: nothing is shared any more"
    used = dict.fromkeys(SHARES, 0.0)
    for fate in fates.values():
        for at, allocation in fate.starts:
            until = min(START + span_s, fate.ended_at or START + span_s)
            used[fate.job.user] += (until - at) * sum(len(part.gpus) for part in allocation.hosts)
    return [used[user] / sum(used.values()) for user in SHARES]


def small_cluster(hosts: int, gpus: int = 4, params: Params | None = None) -> World:
    config = simulated_config(hosts, 32, gpus, (FAIR,), params=params or Params())
    return World(config, gpus=gpus, audit_every=1000)


def lsfs_factors() -> Params:
    """LSF's own, all of them stated."""
    lsf = FairshareFactors()
    return Params(factors={name: getattr(lsf, name) for name in lsf.__struct_fields__})


def shares_in_the_docs(factors: str) -> list[float]:
    document = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
    row = re.search(rf"^\| {re.escape(factors)} \|(.*)\|$", document, re.MULTILINE)
    assert row is not None, factors
    return [float(cell) for cell in row[1].split("|")]


@pytest.mark.parametrize(
    ("factors", "params"), [("default, hosts with GPUs", Params()), ("LSF's", lsfs_factors())], ids=["default", "lsf"]
)
def test_the_shares_of_one_host_are_those_of_the_docs(factors: str, params: Params) -> None:
    shares = gpu_time_shares(small_cluster(1, params=params), waiting_jobs(1, 150, (1,), 2.0, 6.0), 200.0)
    assert shares == pytest.approx(shares_in_the_docs(factors), abs=0.005)


LOADS = pytest.mark.parametrize(
    ("hosts", "gpus", "count", "runs_s", "span_s"),
    [
        pytest.param(1, (1,), 150, (2.0, 6.0), 200.0, id="one host, seconds"),
        pytest.param(3, (1,), 250, (2.0, 6.0), 120.0, id="three hosts, seconds", marks=pytest.mark.slow),
        pytest.param(3, (1, 1, 2, 4), 150, (2.0, 10.0), 120.0, id="three hosts, several GPUs"),
        pytest.param(3, (1,), 150, (60.0, 600.0), 3600.0, id="three hosts, minutes"),
    ],
)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly)])
@LOADS
def test_gpu_time_is_shared_as_the_shares_say(
    seed: int, hosts: int, gpus: tuple[int, ...], count: int, runs_s: tuple[float, float], span_s: float
) -> None:
    shares = gpu_time_shares(small_cluster(hosts), waiting_jobs(seed, count, gpus, *runs_s), span_s)
    assert shares == WANTED


@pytest.mark.nightly
@LOADS
def test_so_it_is_on_average(
    hosts: int, gpus: tuple[int, ...], count: int, runs_s: tuple[float, float], span_s: float
) -> None:
    """A single span of minutes has some hundred jobs: whose long ones run at its end has a little more."""
    seeds = range(1, 1 + NIGHTS)
    found = [gpu_time_shares(small_cluster(hosts), waiting_jobs(seed, count, gpus, *runs_s), span_s) for seed in seeds]
    assert [sum(column) / NIGHTS for column in zip(*found, strict=True)] == WANTED


def test_lsfs_own_factors_are_had_by_stating_them() -> None:
    world = small_cluster(1, params=lsfs_factors())
    assert world.engine.snapshot(world.now).factors["normal"] == FairshareFactors()


def test_a_cluster_without_gpus_keeps_lsfs_factors() -> None:
    world = World(simulated_config(1, 8, 0, (FAIR,)))
    assert world.engine.snapshot(world.now).factors == {"normal": FairshareFactors()}
    # The formula by hand: nobody has used anything, and a slot counts 3.
    world.run(waiting_jobs(1, 20, (0,), 50.0, 60.0), 1.0)
    slots = {user: sum(fate.job.user == user and bool(fate.starts) for fate in world.fates.values()) for user in SHARES}
    assert slots == {"ann": 1, "bob": 2, "cat": 5}
