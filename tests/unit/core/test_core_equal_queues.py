"""A fairshare queue beside a plain one of equal priority, without run limits: a big job starts however many small ones
of all users, queues and kinds go on coming.
"""

from __future__ import annotations

import random

import pytest
from core_world import World, make_config, spec

from gsched.model.hosts.host import HostConfig
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import Share

KINDS = ("", "rusage[ngpus_excl_p=1]", "rusage[ngpus_excl_p=2]", *(f"rusage[mem={mem}]" for mem in range(1, 12)))
MOST_ENDS = 200
"""Jobs that end until the big one has started, at the most; 126 on sixty seeds."""


class Site:
    """Two queues that small jobs keep full."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.hosts, self.slots = self.chance.randint(1, 3), self.chance.choice([4, 8])
        self.users = ["ann", "bob", "cat", "dan"][: self.chance.randint(2, 4)]
        shares = tuple(Share(user, self.chance.choice([1, 1, 5])) for user in self.users)
        fair = Queue(name="fair", priority=5, fairshare=shares, backfill=self.chance.random() < 0.5)
        plain = Queue(name="plain", priority=5, backfill=self.chance.random() < 0.5)
        hosts = [HostConfig(name=name, max_slots=self.slots) for name in "abc"[: self.hosts]]
        self.world = World(make_config(hosts, (fair, plain)))
        self.come(self.hosts * self.slots + 5)

    def come(self, count: int) -> None:
        for _ in range(count):
            small = spec(queue=self.queue(), slots=self.chance.choice([1, 1, 2]), res_req=self.chance.choice(KINDS))
            self.world.submit(small, user=self.chance.choice(self.users))
        self.world.settle()

    def queue(self) -> str:
        return self.chance.choice(["fair", "plain"])

    def big(self) -> int:
        """A job of all slots, of one host or of all."""
        on_one = self.chance.random() < 0.5
        wanted = spec(
            queue=self.queue(),
            slots=self.slots * (1 if on_one else self.hosts),
            res_req="span[hosts=1]" if on_one else "",
        )
        (job_id,) = self.world.submit(wanted, user=self.chance.choice(self.users))
        self.world.settle()
        return job_id

    def end_one(self) -> None:
        """One of those that run ends, whichever, and some more come."""
        world = self.world
        world.now += self.chance.choice([1, 5, 20, 100])
        job_id = self.chance.choice([each for each in world.engine.state.jobs if world.state(each) == "RUN"])
        world.started(job_id)
        world.ended(job_id, 1, world.job(job_id).allocation.first_host)  # type: ignore[union-attr]
        waiting = sum(job.is_pending() for job in world.engine.state.jobs.values())
        self.come(self.chance.randint(0, 2) if waiting > 6 else 2)


def play(seed: int) -> None:
    site = Site(seed)
    for _ in range(site.chance.randint(0, 10)):
        site.end_one()
    big = site.big()
    for _ in range(MOST_ENDS):
        if site.world.state(big) == "RUN":
            return
        site.end_one()
    raise AssertionError(f"seed {seed}: {site.world.reasons(big)}, {site.world.engine.cycles.planned.get(big)}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 3, 9, 12])
def test_a_big_job_starts_beside_a_fairshare_queue_of_equal_priority(seed: int) -> None:
    play(seed)


@pytest.mark.nightly
def test_it_does_so_on_many_seeds() -> None:
    for seed in range(60):
        play(seed)
