"""Random histories of the real scheduler before an independent judge: nobody is passed over, no GPU idle for nothing.

The judge knows the rule's sentences and what happened, and nothing of the scheduler (tests.support.serving_oracle).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from msgspec import structs

from gsched.core.command import ControlReservations
from gsched.core.records.run_times import LEAST_KNOWN
from gsched.model.config import Params
from gsched.model.queues.limit import JOBS, Amount, Consumers, Limit
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import Share
from gsched.model.views.room_view import ReservationView
from gsched.sim.trace import TraceJob
from gsched.sim.world import START, Fate, World, simulated_config
from tests.support.serving_order.serving_history import KeptHosts, PastCluster, PastQueue
from tests.support.serving_order.serving_oracle import judge
from tests.support.serving_order.serving_verdict import Verdict
from tests.support.serving_order.simulated_history import past_of

HISTORIES, FORETOLD, CONSERVATIVE, NIGHTS = 20, 4, 4, 10_000
AUDIT_EVERY = 200
"""Decisions."""
SLOTS, GPUS = 512, 4
"""Of a host: slots never run out."""
USERS = {"ann": 1, "bob": 2, "cat": 4}
"""With their shares."""
FACTORS = {"cpu_time": 0.0, "run_time": 0.7, "run_job": 3.0, "gpu_run_time": 0.0, "gpu_hist_run_time": 0.0}
"""Of fairshare: what the judge counts too, who knows nothing of past use."""


class History:
    """A cluster and what comes to it, made from a seed. Nobody knows how long a job without a limit runs."""

    learns = False
    strict = False
    """Whether the judge is told that nobody may put off a start that is only estimated."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        chance = self.chance
        self.hosts = chance.randint(1, 4)
        shares = tuple(Share(name, count) for name, count in USERS.items())
        second = chance.choice((None, 30, 40))
        names = {"normal": 30} if second is None else {"normal": 30, "other": second}
        self.queues = [self._queue(name, priority, shares) for name, priority in names.items()]
        self.unlimited = chance.choice((0.0, 0.0, 0.25, 0.6))
        """Part of the jobs of which nobody knows how long they run."""
        self.most_jobs = chance.choice((None, None, 1, 2, 3))
        """Of each user, at a time."""
        self.kept = self._kept() if chance.random() < 0.3 else ()
        self.jobs = self._all_jobs()

    def _queue(self, name: str, priority: int, shares: tuple[Share, ...]) -> Queue:
        fairshare = shares if self.chance.random() < 0.3 else None
        return Queue(name=name, priority=priority, backfill=True, fairshare=fairshare, factors=FACTORS)

    def _kept(self) -> tuple[KeptHosts, ...]:
        """An advance reservation of whole hosts."""
        start = self.chance.randint(10, 200)
        names = self.chance.sample(host_names(self.hosts), self.chance.randint(1, self.hosts))
        return (KeptHosts(start=float(start), end=float(start + self.chance.randint(20, 150)), hosts=frozenset(names)),)

    def _all_jobs(self) -> list[TraceJob]:
        return self._unforeseen(self._job() for _ in range(self.chance.randint(5, 24)))

    @staticmethod
    def _unforeseen(jobs: Iterable[TraceJob]) -> list[TraceJob]:
        """The jobs in the order in which they arrive, so few of each kind that their past foretells no run time."""
        count: Counter[tuple[object, ...]] = Counter()
        found = []
        for job in jobs:
            kind = (job.user, job.queue, job.slots, job.gpus)
            found.append(replace(job, mem_mib=float(count[kind] // (LEAST_KNOWN - 1))))
            count[kind] += 1
        return sorted(found, key=lambda each: each.arrives_s)

    def _job(self) -> TraceJob:
        chance = self.chance
        hosts = chance.randint(2, self.hosts) if self.hosts > 1 and chance.random() < 0.15 else 1
        runs = chance.randint(1, 100)
        return TraceJob(
            arrives_s=float(chance.choice((0, 0, 0, chance.randint(0, 300)))),
            runs_s=float(runs),
            limit_s=None if chance.random() < self.unlimited else self._limit_of(runs),
            gpus=chance.choice((1, 1, 1, 2, 3, 4)),
            slots=hosts,
            spread=hosts > 1,
            tasks_per_host=1 if hosts > 1 else None,
            priority=chance.choice((None, None, 20, 90)),
            queue=chance.choice(self.queues).name,
            user=chance.choice(list(USERS)),
        )

    def _limit_of(self, runs: int) -> int:
        return runs if self.chance.random() < 0.3 else runs * self.chance.randint(1, 4) + self.chance.randint(0, 3) * 60

    def play(self) -> list[Fate]:
        params = Params(max_user_priority=100)
        limits = () if self.most_jobs is None else (limit_of_users(self.most_jobs),)
        config = simulated_config(self.hosts, SLOTS, GPUS, self.queues, params=params, limits=limits)
        world = World(config, gpus=GPUS, audit_every=AUDIT_EVERY)
        for kept in self.kept:
            slots, gpus = dict.fromkeys(kept.hosts, SLOTS), dict.fromkeys(kept.hosts, GPUS)
            start, end = START + kept.start, START + kept.end
            view = ReservationView(name="kept", users=("dan",), start=start, end=end, slots=slots, gpus=gpus)
            world.engine.handle(ControlReservations("root", True, "add", view), world.now)
        fates = list(world.run(self.jobs).values())
        assert all(len(fate.starts) == 1 and fate.ended_at is not None for fate in fates), "a job did not run once"
        return fates

    def judged(self) -> Verdict:
        """What the judge says of how it went."""
        cluster = PastCluster(
            hosts=dict.fromkeys(host_names(self.hosts), (GPUS, SLOTS)),
            kept=self.kept,
            most_jobs={} if self.most_jobs is None else dict.fromkeys(USERS, self.most_jobs),
            queues={queue.name: self._past_queue(queue) for queue in self.queues},
            learns=self.learns,
        )
        return judge(cluster, [past_of(n, fate, (fate.job.user,)) for n, fate in enumerate(self.play(), 1)])

    def _past_queue(self, queue: Queue) -> PastQueue:
        return PastQueue(
            priority=queue.priority,
            reserved=queue.reserved_jobs,
            backfill=queue.backfill,
            plan_delay=0.0 if self.strict or not self.learns else queue.max_plan_delay,
            shares=USERS if queue.fairshare is not None else None,
        )


class Foretold(History):
    """One with so many jobs of so few kinds that the past says, rightly or not, how long most of them run."""

    learns = True

    def __init__(self, seed: int) -> None:
        self.few = random.Random(seed).sample(list(USERS), 2)
        """Whose jobs they are."""
        super().__init__(seed)

    def _queue(self, name: str, priority: int, shares: tuple[Share, ...]) -> Queue:
        queue, chance = super()._queue(name, priority, shares), self.chance
        delay, backfill = chance.choice((None, None, 0.0, 0.5, 5.0)), chance.random() < 0.85
        return structs.replace(queue, plan_delay=delay, backfill=backfill)

    def _all_jobs(self) -> list[TraceJob]:
        self.unlimited = self.chance.choice((0.5, 0.8, 1.0))
        jobs = [self._job() for _ in range(self.chance.randint(15, 60))]
        return sorted(jobs, key=lambda each: each.arrives_s)

    def _job(self) -> TraceJob:
        job = super()._job()
        gpus = self.chance.choice((1, 1, 1, 1, 2, 4))
        return replace(job, gpus=gpus, user=self.chance.choice(self.few))


class Conservative(History):
    """One whose queues reserve for more jobs than the first."""

    def __init__(self, seed: int) -> None:
        self.reserved = random.Random(seed).choice((2, 3))
        super().__init__(seed)

    def _queue(self, name: str, priority: int, shares: tuple[Share, ...]) -> Queue:
        return structs.replace(super()._queue(name, priority, shares), reserved_jobs=self.reserved)


def host_names(count: int) -> list[str]:
    return [f"h{number:03}" for number in range(count)]


def limit_of_users(jobs: int) -> Limit:
    return Limit(name="few", users=Consumers(per=True), amounts={JOBS: (Amount(float(jobs)),)})


def assert_in_order(seeds: range, kind: type[History] = History) -> None:
    for seed in seeds:
        verdict = kind(seed).judged()
        assert not verdict.inversions, f"seed {seed}: {verdict.inversions[0]}"
        assert not verdict.idle, f"seed {seed}: {verdict.idle[0]}"


def test_nobody_is_passed_over_in_random_histories() -> None:
    assert_in_order(range(HISTORIES))


@pytest.mark.nightly
def test_nobody_is_passed_over_in_thousands_of_random_histories() -> None:
    assert_in_order(range(HISTORIES, HISTORIES + NIGHTS))


@pytest.mark.slow
def test_nor_where_the_past_says_how_long_jobs_run() -> None:
    assert_in_order(range(FORETOLD), Foretold)


def test_nor_where_an_equal_job_takes_a_reservation_over_that_a_limit_keeps_from_starting() -> None:
    """Ann's second one has the place of her first; when it starts, the limit is full for the first, and keeps it from
    one of its own.
    """
    assert_in_order(range(1942, 1943), Foretold)


def test_nor_where_a_latest_start_is_taken_over_from_who_starts_in_the_same_cycle() -> None:
    assert_in_order(range(2643, 2644), Foretold)


def test_nor_where_one_starts_between_who_may_have_a_reservation_and_who_waits() -> None:
    """Ann's big job has the reservation; what others took before her small one counts, whoever they had to wait for."""
    assert_in_order(range(410, 411), Foretold)


@pytest.mark.slow
def test_such_histories_have_starts_that_others_put_off() -> None:
    """Else they would prove nothing: told that nobody may put a start off, the judge finds inversions in some."""
    assert any(is_put_off(seed) for seed in range(FORETOLD))


def is_put_off(seed: int) -> bool:
    history = Foretold(seed)
    history.strict = True
    return bool(history.judged().inversions)


@pytest.mark.nightly
def test_nor_in_thousands_of_histories_where_it_does() -> None:
    assert_in_order(range(FORETOLD, FORETOLD + NIGHTS), Foretold)


@pytest.mark.slow
def test_nor_where_queues_reserve_for_several_jobs() -> None:
    assert_in_order(range(CONSERVATIVE), Conservative)


@pytest.mark.nightly
def test_nor_in_thousands_of_histories_where_they_do() -> None:
    assert_in_order(range(CONSERVATIVE, CONSERVATIVE + NIGHTS), Conservative)
