"""Random histories of the real scheduler before an independent judge: nobody is passed over, no GPU idle for nothing.

The judge knows the rule's sentences and what happened, and nothing of the scheduler (tests.support.serving_oracle).
"""

from __future__ import annotations

import random

import pytest

from gsched.model.config import Params
from gsched.model.queue import Queue
from gsched.model.user import Share
from gsched.sim.trace import TraceJob
from gsched.sim.world import Fate, World, simulated_config
from tests.support.serving_history import PastCluster, PastQueue
from tests.support.serving_oracle import Verdict, judge
from tests.support.simulated_history import past_of

HISTORIES, NIGHTS = 200, 10_000
AUDIT_EVERY = 200
"""Decisions."""
SLOTS, GPUS = 512, 4
"""Of a host: slots never run out."""
USERS = {"ann": 1, "bob": 2, "cat": 4}
"""With their shares."""
FACTORS = {"cpu_time": 0.0, "run_time": 0.7, "run_job": 3.0, "gpu_run_time": 0.0, "gpu_hist_run_time": 0.0}
"""Of fairshare: what the judge counts too, who knows nothing of past use."""


class History:
    """A cluster and what comes to it, made from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        chance = self.chance
        self.hosts = chance.randint(1, 4)
        shares = tuple(Share(name, count) for name, count in USERS.items())
        second = chance.choice((None, 30, 40))
        names = {"normal": 30} if second is None else {"normal": 30, "other": second}
        self.queues = [
            Queue(
                name=name,
                priority=priority,
                backfill=True,
                fairshare=shares if chance.random() < 0.3 else None,
                factors=FACTORS,
            )
            for name, priority in names.items()
        ]
        self.jobs = sorted((self._job() for _ in range(chance.randint(5, 24))), key=lambda each: each.arrives_s)

    def _job(self) -> TraceJob:
        chance = self.chance
        hosts = chance.randint(2, self.hosts) if self.hosts > 1 and chance.random() < 0.15 else 1
        runs = chance.randint(1, 100)
        return TraceJob(
            arrives_s=float(chance.choice((0, 0, 0, chance.randint(0, 300)))),
            runs_s=float(runs),
            limit_s=runs if chance.random() < 0.3 else runs * chance.randint(1, 4) + chance.randint(0, 3) * 60,
            gpus=chance.choice((1, 1, 1, 2, 3, 4)),
            slots=hosts,
            spread=hosts > 1,
            tasks_per_host=1 if hosts > 1 else None,
            priority=chance.choice((None, None, 20, 90)),
            queue=chance.choice(self.queues).name,
            user=chance.choice(list(USERS)),
        )

    def play(self) -> list[Fate]:
        params = Params(max_user_priority=100)
        config = simulated_config(self.hosts, SLOTS, GPUS, self.queues, params=params)
        fates = list(World(config, gpus=GPUS, audit_every=AUDIT_EVERY).run(self.jobs).values())
        assert all(len(fate.starts) == 1 and fate.ended_at is not None for fate in fates), "a job did not run once"
        return fates

    def judged(self) -> Verdict:
        """What the judge says of how it went."""
        cluster = PastCluster(
            hosts={f"h{number:03}": (GPUS, SLOTS) for number in range(self.hosts)},
            queues={
                queue.name: PastQueue(priority=queue.priority, shares=USERS if queue.fairshare is not None else None)
                for queue in self.queues
            },
        )
        return judge(cluster, [past_of(number, fate) for number, fate in enumerate(self.play(), 1)])


def assert_in_order(seeds: range) -> None:
    for seed in seeds:
        verdict = History(seed).judged()
        assert not verdict.inversions, f"seed {seed}: {verdict.inversions[0]}"
        assert not verdict.idle, f"seed {seed}: {verdict.idle[0]}"


def test_nobody_is_passed_over_in_random_histories() -> None:
    assert_in_order(range(HISTORIES))


@pytest.mark.nightly
def test_nobody_is_passed_over_in_thousands_of_random_histories() -> None:
    assert_in_order(range(HISTORIES, HISTORIES + NIGHTS))
