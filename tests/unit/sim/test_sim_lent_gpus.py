"""Lent GPUs in virtual time: jobs with a range grow and shrink, and whoever needs lent GPUs gets them in time."""

from __future__ import annotations

import random

import pytest

from gsched.model.config import Params
from gsched.policy.requirement.gpu_range import lent_of
from gsched.sim.trace import TraceJob
from gsched.sim.world import World, simulated_config

FEW, NIGHTS = 5, 2000
SAVED_ALL_THE_SAME = 13
"""Of this seed a job saves its state and ends though nobody needs its GPUs any more: it goes on."""


def lend(seed: int) -> tuple[int, int]:
    """How often jobs with a range of GPUs changed their number, and got some at their start, on a random trace. Whoever
    waits for nothing but what is lent to others starts when those have saved their state, and in the cycle after it.
    """
    chance, most, ends_after_s = random.Random(seed), 4 + seed % 5, float(1 + seed % 4)
    config = simulated_config(1 + seed % 2, 16, most, params=Params(gpu_grow_interval_s=20.0))
    world = World(config, gpus=most, ends_after_s=ends_after_s)
    trace = []
    for _ in range(25):
        least = chance.randint(1, 3)
        is_elastic = chance.random() < 0.5
        wanted = f"num={least}..{least + chance.randint(1, 4)}" if is_elastic else f"num={least}"
        runs_s, arrives_s = chance.randint(10, 200), chance.randint(0, 600)
        save_s = 10 if is_elastic else None
        gpu_req = f"{wanted}:mode=exclusive_process"
        trace.append(TraceJob(arrives_s=arrives_s, runs_s=runs_s, limit_s=400, gpu_req=gpu_req, save_s=save_s))
    world.expect(sorted(trace, key=lambda job: job.arrives_s))
    could_since: dict[int, float] = {}
    for now in world.steps():
        waiting = set(world.waiting())
        could_since = {job_id: at for job_id, at in could_since.items() if job_id in waiting}
        for job_id in waiting & world.engine.state.jobs.keys():
            if could_take_back(world, job_id):
                assert now - could_since.setdefault(job_id, now) <= 2 * ends_after_s, f"seed {seed}: job {job_id}"
            else:
                could_since.pop(job_id, None)
    changes = lent = 0
    for fate in world.fates.values():
        assert fate.ended_at is not None and not fate.killed
        asked = fate.job.gpu_req.partition(":")[0].removeprefix("num=").split("..")
        counts = [len(allocation.hosts[0].gpus) for _, allocation in fate.starts]
        assert all(int(asked[0]) <= count <= int(asked[-1]) for count in counts), f"seed {seed}"
        assert all(start == end for (start, _), end in zip(fate.starts[1:], fate.ends, strict=False)), f"seed {seed}"
        changes += len(counts) - 1
        lent += counts[0] > int(asked[0])
    return changes, lent


def could_take_back(world: World, job_id: int) -> bool:
    """Whether the job is the first that waits, and what is idle and lent on one host is enough for it."""
    state = world.engine.state
    if job_id != min(each for each in world.waiting() if each in state.jobs):
        return False
    needs = int(world.fates[job_id].job.gpu_req.partition(":")[0].removeprefix("num=").partition("..")[0])
    for host in world.engine.config.hosts:
        ledger = state.ledger.host(host)
        running = [state.running[key[0]] for key in ledger.held if key[0] in state.running]
        if ledger.idle("gpu_excl") + sum(map(lent_of, running)) >= needs:
            return True
    return False


def test_lent_gpus_come_back_in_time_on_random_traces() -> None:
    found = [lend(seed) for seed in (*range(FEW), SAVED_ALL_THE_SAME)]
    assert sum(changes for changes, _ in found) > FEW and sum(lent for _, lent in found) > FEW


@pytest.mark.nightly
def test_lent_gpus_come_back_in_time_on_thousands_of_random_traces() -> None:
    for seed in range(FEW, NIGHTS):
        lend(seed)
