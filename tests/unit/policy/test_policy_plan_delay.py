"""A planned start that rests on an estimate may be put off by others for so long and no longer (MAX_PLAN_DELAY)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from placing_cluster import host, kind
from test_policy_limits_ahead import on, section
from timed_cluster import TimedCluster

from gsched.base.coded_text import sentence
from gsched.model.queues.limit import Consumers
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.run_kind import run_kind
from gsched.model.scheduling.snapshot import Bucket

KEPT = kind("rusage[mem=9]")
"""Expected to run for 100 s."""
WIDE = kind("span[hosts=1]", slots=8, run_s=50.0)
LATEST = 300.0
"""The wait that is told first is 100 s, and others may put it off by twice as long."""


def until(end: float, now: float = 0.0, **more: Any) -> Bucket:
    """Jobs that are expected to run from now until then."""
    return kind(estimate_s=end - now, **more)


def queue(name: str = "q", **more: Any) -> Queue:
    return Queue(name=name, **({"backfill": True} | more))


class OneHost(TimedCluster):
    """8 slots, of which a job that is expected to end at 100 has 6; one that wants all of them waits."""

    def __init__(self, *queues: Queue, held: Bucket = KEPT, wide: Bucket = WIDE, lasts: float = math.inf) -> None:
        super().__init__(host("a", ncpus=8), slots=8, queues=queues or [queue()], usual_run_s={run_kind(KEPT): 100.0})
        self.lasts[self.last + 1] = lasts
        self.hold_until(math.inf if held.requirement.run_s is None else 100.0, held, on("a", 6))
        (self.wide,) = self.add(wide)
        self.told(0.0)

    def told(self, now: float) -> tuple[float | None, str]:
        """When the wide job starts, as a cycle says, and what is said of it."""
        self.first_promise.clear()  # no run limit keeps it
        self.step(now)
        planned = self.planned[self.wide]
        return planned.at, sentence(planned.text)

    def starts(self, bucket: Bucket, now: float = 1.0) -> bool:
        """Whether a job that comes now starts at once, beside what is planned; it is gone if it does not."""
        (job,) = self.add(bucket)
        self.lasts[job] = 0.5
        self.told(now)
        if job not in self.started:
            self.pending[bucket].remove(job)
        return job in self.started


def test_whoever_ends_by_the_latest_start_may_put_an_estimated_one_off() -> None:
    cluster = OneHost()
    by_estimate = "judging by earlier jobs like job 1, which has no run limit"
    assert cluster.told(0.0) == (
        100.0,
        f"{by_estimate}; jobs after it that are expected to end by 1970-01-01 00:05:00 UTC may start before it",
    )
    assert not cluster.starts(until(LATEST + 1))
    assert not cluster.starts(kind(run_s=LATEST))  # from 1 on
    assert not cluster.starts(kind("rusage[mem=8]"))  # nobody knows
    assert cluster.starts(until(LATEST - 1))
    assert cluster.starts(kind(run_s=LATEST - 1))


def test_a_start_that_rests_on_run_limits_is_put_off_by_nobody() -> None:
    cluster = OneHost(held=kind(run_s=100.0))
    assert cluster.told(0.0) == (100.0, "")
    assert not cluster.starts(until(102.0))
    assert cluster.starts(until(99.0))


def test_what_it_waits_for_last_decides_whether_a_start_is_estimated() -> None:
    """A job with a limit ends after the one without."""
    cluster = OneHost()
    cluster.hold_until(120.0, kind(run_s=120.0), on("a", 1))
    assert cluster.told(1.0)[0] == 120.0
    cluster = TimedCluster(host("a", ncpus=8), slots=8, queues=[queue()], usual_run_s={run_kind(KEPT): 100.0})
    cluster.hold_until(math.inf, KEPT, on("a", 5))
    cluster.hold_until(120.0, kind(run_s=120.0), on("a", 1))
    (wide,), (late,) = cluster.add(WIDE), cluster.add(until(130.0))
    cluster.step(0.0)
    assert cluster.planned[wide].at == 120.0 and late not in cluster.started


@pytest.mark.parametrize(
    ("parameters", "latest"),
    [
        ({}, 300.0),
        ({"plan_delay": 0.5}, 150.0),
        ({"plan_delay": 0.0}, 100.0),
        ({"reserved_jobs": 16}, 100.0),
        ({"reserved_jobs": 16, "plan_delay": 1.0}, 200.0),
    ],
    ids=["easy", "0.5", "0", "conservative", "conservative, 1"],
)
def test_how_long_the_queue_says(parameters: dict[str, Any], latest: float) -> None:
    for end in (90.0, 100.0, 101.0, 150.0, 151.0, 200.0, 201.0, 300.0, 301.0):
        cluster = OneHost(queue(**parameters))
        assert cluster.starts(until(end, now=0.0), now=0.0) == (end <= latest), end
    assert ("may start before it" in OneHost(queue(**parameters)).told(0.0)[1]) == (latest > 100)


def test_the_latest_start_is_told_once_and_stays() -> None:
    cluster = OneHost()
    for now in (50.0, 101.0, 150.0, 201.0, 290.0):  # its estimate has passed, twice
        assert not cluster.starts(until(LATEST + 1, now), now)
        assert cluster.starts(until(now + 1, now), now)
    at, text = cluster.told(299.0)
    assert at == 400.0 and "may start" not in text  # later than the latest start already: nobody puts it off
    assert not cluster.starts(until(310.0, 300.0), 300.0)


def test_nobody_is_put_off_for_ever() -> None:
    """Jobs that are expected to run 10 s and run 40 come all the time."""
    cluster = OneHost(lasts=100.0)
    liar = kind(estimate_s=10.0)
    for now in range(1, 600):
        if cluster.wide in cluster.started:
            break
        (job,) = cluster.add(liar)
        cluster.lasts[job] = 40.0
        cluster.first_promise.clear()
        cluster.step(float(now))
    assert len([at for at in cluster.started.values() if 100.0 < at < cluster.started[cluster.wide]]) > 8
    assert 100.0 < cluster.started[cluster.wide] <= LATEST + 40.0


def test_jobs_of_a_lower_queue_put_nobody_off_and_those_of_an_equal_one_do() -> None:
    queues = queue(priority=5), queue("equal", priority=5), queue("low", priority=1)
    assert OneHost(*queues).starts(until(LATEST, queue="equal"), now=0.0)
    assert not OneHost(*queues).starts(until(101.0, queue="low"), now=0.0)
    assert OneHost(*queues).starts(until(100.0, queue="low"), now=0.0)


def test_whoever_comes_first_in_the_meantime_takes_the_latest_start_over() -> None:
    """Else one after the other could be put off for so long, and who is behind them would wait for all."""
    cluster = OneHost()
    cluster.pending[WIDE].remove(cluster.wide)  # killed
    (cluster.wide,) = cluster.add(kind("rusage[mem=7] span[hosts=1]", slots=8, run_s=50.0))
    at, text = cluster.told(60.0)
    assert at == 100.0 and "1970-01-01 00:05:00 UTC may start before it" in text
    assert not cluster.starts(until(LATEST + 1, 60.0), 60.0)
    assert cluster.starts(until(LATEST, 60.0), 60.0)


def test_the_latest_start_stays_where_another_of_its_class_takes_its_place() -> None:
    alike = kind("span[hosts=1]", slots=8, estimate_s=50.0)
    cluster = OneHost(wide=alike, lasts=100.0)
    cluster.pending[alike._replace(user="bob")] = [0]  # comes before it
    at, text = cluster.told(100.0)
    assert cluster.started == {0: 100.0}
    assert at == 150.0 and "1970-01-01 00:05:00 UTC may start before it" in text


def test_whoever_waits_behind_one_that_has_started_is_told_a_time_of_its_own() -> None:
    cluster = OneHost(wide=kind("span[hosts=1]", slots=8, estimate_s=50.0), lasts=100.0)
    first = cluster.wide
    (cluster.wide,) = cluster.add(WIDE)
    at, text = cluster.told(100.0)
    assert cluster.started[first] == 100.0
    assert at == 150.0 and text.startswith(f"judging by the estimated run time (-We) of job {first}; ")
    assert "1970-01-01 00:04:10 UTC may start before it" in text


def test_a_put_off_job_may_be_planned_on_another_host_for_somebodys_sake() -> None:
    """Two hosts get free at 100, as far as anybody knows; a job that uses one for long leaves it the other."""
    hosts = host("a", ncpus=8), host("b", ncpus=8)
    cluster = TimedCluster(*hosts, slots=8, queues=[queue()], usual_run_s={run_kind(KEPT): 100.0})
    for name in ("a", "b"):
        cluster.hold_until(math.inf, KEPT, on(name, 6))
    (wide,) = cluster.add(WIDE)
    cluster.step(0.0)
    (place,) = cluster.planned[wide].hosts
    other = {"a": "b", "b": "a"}[place]
    (long,) = cluster.add(until(1000.0, asked_hosts=(place,)))
    cluster.step(0.0)
    assert long in cluster.started
    assert (cluster.planned[wide].at, cluster.planned[wide].hosts) == (100.0, (other,))
    assert "1970-01-01 00:05:00 UTC may start before it" in sentence(cluster.planned[wide].text)


def test_a_start_that_waits_for_a_limit_rests_on_the_estimates_of_those_who_count_for_it() -> None:
    """The job has room on host a, but as many slots of both hosts are in use as may be."""
    limit = section(hosts=Consumers(("a", "b")), queues=Consumers(("q",)), slots=4)
    options: dict[str, Any] = {"limits": (limit,), "usual_run_s": {run_kind(KEPT): 100.0}, "queues": [queue()]}
    for held, texts in ((KEPT, ("judging by earlier jobs like job 1", "00:05:00 UTC")), (kind(run_s=100.0), ("",))):
        cluster = TimedCluster(host("a"), host("b"), slots=8, **options)
        cluster.hold_until(math.inf if held is KEPT else 100.0, held, on("b", 4))
        (job,) = cluster.add(kind(slots=2, run_s=10.0, asked_hosts=("a",)))
        cluster.step(0.0)
        told = sentence(cluster.planned[job].text)
        assert cluster.planned[job].at == 100.0
        assert all(text in told for text in texts) and bool(told) == (held is KEPT)
