"""The judge of order where run times are only estimated: who may put a reservation off, until when, and who may not."""

from __future__ import annotations

from typing import Any

import pytest
from test_serving_oracle import ONE_HOST, assert_clean, found, ran

from tests.support.serving_order.serving_history import (
    KeptHosts,
    Moment,
    PastCluster,
    PastJob,
    PastQueue,
    Run,
    RunTimes,
    moments,
)
from tests.support.serving_order.serving_oracle import judge
from tests.support.serving_order.serving_verdict import Verdict

LATEST = 30.0
"""The first one is told to start at 10, and others may put it off by twice that wait."""


def judged(jobs: list[PastJob], estimate_s: float = 10.0, **queue: Any) -> Verdict:
    queues = {"normal": PastQueue(**({"plan_delay": 2.0} | queue)), "low": PastQueue(priority=-1, plan_delay=2.0)}
    return judge(PastCluster(hosts=ONE_HOST, queues=queues, estimate_s=estimate_s), jobs)


def put_off(limit: float | None, end: float, first_limit: float | None = None, **third: Any) -> list[PastJob]:
    """Two GPUs are in use until 10, which is an estimate, the second job wants all four, and a third takes two at 1."""
    return [
        ran(1, 0.0, 10.0, gpus=2, limit_s=first_limit),
        ran(2, max(10.0, end), max(10.0, end) + 10.0, gpus=4, limit_s=10.0),
        ran(3, 1.0, end, limit_s=limit, **({"gpus": 2, "submitted": 1.0} | third)),
    ]


def test_who_is_thought_to_end_by_the_latest_start_may_put_it_off() -> None:
    assert_clean(judged(put_off(LATEST - 1.0, LATEST)))
    assert found(judged(put_off(LATEST, LATEST))) == [(3, 2, True)]
    assert_clean(judged(put_off(LATEST + 9.0, 40.0), plan_delay=3.0))
    assert found(judged(put_off(10.0, 11.0), plan_delay=0.0)) == [(3, 2, True)]


def test_a_reservation_that_rests_on_limits_is_put_off_by_nobody() -> None:
    assert found(judged(put_off(LATEST - 1.0, LATEST, first_limit=10.0))) == [(3, 2, True)]
    assert_clean(judged(put_off(9.0, 10.0, first_limit=10.0)))


def test_nor_by_a_lower_queue_nor_without_backfill() -> None:
    assert found(judged(put_off(LATEST - 1.0, LATEST, queue="low"))) == [(3, 2, True)]
    assert found(judged(put_off(9.0, 10.0), backfill=False)) == [(3, 2, True)]


def test_an_estimate_lasts_until_the_latest_start_where_there_is_one() -> None:
    """The third has no limit either, and is expected to run for 10 s, as the first."""
    assert_clean(judged(put_off(None, 11.0)))
    assert found(judged(put_off(None, 11.0), plan_delay=0.0)) == [(3, 2, True)]


def test_the_latest_start_is_said_once() -> None:
    """The first runs for 35 s: twice it is given more, and each time somebody wants what is left."""
    head = ran(2, 35.0, 45.0, gpus=4, limit_s=10.0)
    first = ran(1, 0.0, 35.0, gpus=2)
    early = ran(3, 12.0, 29.0, gpus=2, limit_s=17.0, submitted=12.0)
    assert_clean(judged([first, head, early]))
    late = ran(3, 12.0, 29.0, gpus=2, limit_s=19.0, submitted=12.0)
    assert found(judged([first, head, late])) == [(3, 2, True)]


@pytest.mark.parametrize("is_sure", [False, True])
def test_nobody_owes_a_latest_start_that_was_not_said_for_sure(is_sure: bool) -> None:
    """That of job 2 is at 28, unless something was reserved first for job 9, of whose turn nobody is sure. Job 5, which
    comes before it, takes that over, or is told to start at 40 and put off until 70.
    """
    queues = {
        "normal": PastQueue(plan_delay=2.0),
        "fair": PastQueue(priority=1, plan_delay=2.0, shares={"ann": 1}),
    }
    jobs = [
        ran(1, 0.0, 50.0, gpus=2),
        ran(2, 60.0, 70.0, gpus=4, limit_s=10.0, submitted=1.0),
        ran(5, 50.0, 60.0, gpus=4, limit_s=10.0, priority=9, submitted=25.0),
        ran(3, 26.0, 46.0, gpus=2, limit_s=20.0, submitted=26.0),
    ]
    doubtful = [] if is_sure else [PastJob(number=9, submitted=1.0, queue="fair", gpus=4, left_at=3.0)]
    verdict = judge(PastCluster(hosts=ONE_HOST, queues=queues, estimate_s=10.0), [*jobs, *doubtful])
    assert found(verdict) == ([(3, 5, True)] if is_sure else [])


def test_gpus_are_idle_for_nothing_while_somebody_may_put_it_off() -> None:
    waited = [*put_off(None, 10.0)[:2], ran(3, 20.0, 40.0, gpus=2, limit_s=20.0, submitted=1.0)]
    (idle,) = judged(waited).idle
    assert (idle.at, idle.until, idle.gpus, idle.job) == (1.0, 10.0, 2, 3)
    assert_clean(judged(waited, plan_delay=0.0))


@pytest.mark.parametrize(
    ("last", "known"),
    [
        ([10.0] * 4, None),
        ([10.0] * 5, 10.0),
        ([10.0] * 5 + [30.0], 30.0),
        ([10.0] * 20 + [30.0], 10.0),
        ([10.0] * 5 + [8.5] * 20, 10.0),
        ([10.0] * 5 + [7.5] * 20, 7.5),
        ([0.2] * 5, 1.0),
    ],
)
def test_what_the_past_says(last: list[float], known: float | None) -> None:
    times, job = RunTimes(), PastJob(number=1, submitted=0.0)
    for each in last:
        times.note(job, Run(start=100.0, end=100.0 + each, hosts=("a",)))
    assert times.of(job) == known
    assert times.of(PastJob(number=2, submitted=0.0, gpus=2)) is None


def test_who_outlasts_the_estimate_is_given_twice_as_long() -> None:
    moment, run = Moment(PastCluster(hosts=ONE_HOST, estimate_s=10.0)), Run(start=0.0, hosts=("a",))
    ends = []
    for moment.now in (0.0, 9.0, 10.0, 25.0, 100.0):
        ends.append(moment.known_end(PastJob(number=1, submitted=0.0), run))
    assert ends == [10.0, 10.0, 20.0, 40.0, 160.0]
    assert moment.known_end(PastJob(number=1, submitted=0.0, limit_s=5.0), run) == 100.0


def test_no_estimate_lets_a_job_have_what_an_advance_reservation_keeps() -> None:
    cluster = PastCluster(
        hosts=ONE_HOST, estimate_s=10.0, kept=(KeptHosts(start=50.0, end=60.0, hosts=frozenset("a")),)
    )
    assert_clean(judge(cluster, [ran(1, 60.0, 70.0)]))
    (idle,) = judge(cluster, [ran(1, 60.0, 70.0, limit_s=10.0)]).idle
    assert (idle.at, idle.job) == (0.0, 1)


@pytest.mark.parametrize(("first", "expected"), [(94.0, 94.0), (28.0, 79.0)])
def test_of_ends_at_one_time_the_one_recorded_first_counts_first(first: float, expected: float) -> None:
    """An estimate rises at once and falls seldom: which of two ends is counted first stays in it."""
    lasted = [26.0, 52.0, 27.0, 67.0, 31.0, 77.0, 57.0, 57.0]
    known = [_lasted(number, 0.0, lasts, number) for number, lasts in enumerate(lasted)]
    places = (8, 9) if first == 94.0 else (9, 8)
    tied = [_lasted(8, 0.0, 94.0, places[0]), _lasted(9, 66.0, 28.0, places[1])]
    jobs = [*known, *tied, _lasted(10, 38.0, 79.0, 10)]
    cluster = PastCluster(hosts={"a": (len(jobs), 99)}, learns=True)
    assert [moment.estimate(jobs[-1]) for moment in moments(cluster, jobs)][-1] == expected


def _lasted(number: int, start: float, lasts: float, ended_as: int) -> PastJob:
    run = Run(start=start, end=start + lasts, hosts=("a",), ended_as=ended_as)
    return PastJob(number=number, submitted=start, gpus=1, runs=(run,))
