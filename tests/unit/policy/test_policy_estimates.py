"""Jobs without a run limit are planned by an estimate: their own, their queue's, or that of earlier jobs like them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from placing_cluster import host, kind
from test_policy_limits_ahead import on
from timed_cluster import TimedCluster

from gsched.base.coded_text import sentence
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.run_kind import run_kind
from gsched.model.scheduling.snapshot import AdvanceReservation, Bucket
from gsched.policy.future.future_ledgers import Future
from gsched.policy.place.placement import Placer

QUEUES = [Queue(name="q", backfill=True, reserved_jobs=2), Queue(name="r", backfill=True, estimate_s=300)]
WIDE = kind("span[hosts=1]", slots=8, run_s=50.0)


def one_host(*usual: tuple[Bucket, float], **options: Any) -> TimedCluster:
    """8 slots; how long jobs like those of the buckets usually run."""
    known = {run_kind(bucket): run_s for bucket, run_s in usual}
    return TimedCluster(host("a", ncpus=8), slots=8, queues=QUEUES, usual_run_s=known, **options)


@pytest.mark.parametrize(
    ("bucket", "usual", "end"),
    [
        (kind(run_s=500.0), 100.0, 500.0),
        (kind(estimate_s=200.0), 100.0, 200.0),
        (kind(queue="r"), 100.0, 300.0),
        (kind(queue="r", estimate_s=200.0), 100.0, 200.0),
        (kind(), 100.0, 100.0),
        (kind(), None, None),
    ],
    ids=["limit", "-We", "DEFAULT_RUNLIMIT", "-We before DEFAULT_RUNLIMIT", "history", "nothing"],
)
def test_whose_word_counts(bucket: Bucket, usual: float | None, end: float | None) -> None:
    cluster = one_host(*([] if usual is None else [(bucket, usual)]))
    cluster.hold_until(bucket.requirement.run_s or math.inf, bucket, on("a", 6))
    (planned,) = cluster.add(WIDE)
    cluster.step(0.0)
    assert cluster.planned[planned].at == end


def test_history_is_that_of_the_same_kind_of_job() -> None:
    asked = kind("rusage[mem=10]")
    others = [
        kind("rusage[mem=10]", user="eve"),
        kind("rusage[mem=10]", queue="r"),
        kind("rusage[mem=10]", slots=2),
        kind("rusage[mem=11]"),
        kind("rusage[mem=10]", gpu="num=1"),
        asked._replace(application="cfd"),
    ]
    alike = [
        kind("rusage[mem=10]", estimate_s=7.0),
        kind("rusage[mem=10]", asked_hosts=("a",)),
        asked._replace(project="p"),
    ]
    assert run_kind(asked) not in map(run_kind, others)
    assert {run_kind(asked)} == set(map(run_kind, alike))


def test_a_job_backfills_when_its_estimate_fits() -> None:
    short, long = kind("rusage[mem=1]"), kind("rusage[mem=2]")
    cluster = one_host((short, 60.0), (long, 200.0))
    cluster.hold_until(100.0, kind(run_s=100.0), on("a", 6))
    (planned,) = cluster.add(WIDE)
    (unknown,) = cluster.add(kind("rusage[mem=3]"))
    (later,) = cluster.add(long)
    (soon,) = cluster.add(short)
    cluster.step(0.0)
    assert cluster.planned[planned].at == 100.0
    assert soon in cluster.started and later not in cluster.started and unknown not in cluster.started


def test_who_outlasts_his_estimate_is_given_twice_as_long() -> None:
    kept = kind()
    cluster = one_host((kept, 100.0))
    cluster.hold_until(math.inf, kept, on("a", 6))
    (planned,) = cluster.add(WIDE)
    future = Future(cluster.snapshot(), 0.0)
    (running,) = cluster.running.values()
    ends = [Future(cluster.snapshot(), now).end_of_running(running) for now in (0.0, 99.0, 100.0, 250.0, 5000.0)]
    assert ends == [100.0, 100.0, 200.0, 400.0, 6400.0]
    assert future.end_of_running(running._replace(state="SSUSP")) == math.inf
    cluster.step(0.0)
    assert cluster.planned[planned].at == 100.0
    cluster.first_promise.clear()  # no run limit was kept
    cluster.step(101.0)
    assert cluster.planned[planned].at == 200.0


def test_who_outlasts_his_estimate_still_lets_others_backfill() -> None:
    """Without the new estimate the end would be unknown, and nothing could be said to end before it."""
    kept, short = kind(), kind("rusage[mem=1]", run_s=80.0)
    cluster = one_host((kept, 100.0))
    cluster.hold_until(math.inf, kept, on("a", 6))
    cluster.add(WIDE)
    cluster.step(101.0)
    (late,) = cluster.add(short)
    cluster.step(102.0)
    assert late in cluster.started


def test_a_planned_job_is_expected_to_end_by_its_estimate() -> None:
    """Two wide jobs one after the other: the second one's time follows from the first one's estimate."""
    first, second = kind("rusage[mem=1] span[hosts=1]", slots=8), kind("rusage[mem=2] span[hosts=1]", slots=8)
    cluster = one_host((first, 40.0))
    cluster.hold_until(100.0, kind(run_s=100.0), on("a", 6))
    (one,), (two,) = cluster.add(first), cluster.add(second)
    cluster.step(0.0)
    assert (cluster.planned[one].at, cluster.planned[two].at) == (100.0, 140.0)


@pytest.mark.parametrize(
    ("bucket", "text"),
    [
        (kind(run_s=500.0), ""),
        (kind(estimate_s=200.0), "judging by the estimated run time (-We) of job 1"),
        (kind(queue="r"), "judging by DEFAULT_RUNLIMIT of the queue of job 1, which has no run limit"),
        (kind(), "judging by earlier jobs like job 1, which has no run limit"),
    ],
    ids=["limit", "-We", "DEFAULT_RUNLIMIT", "history"],
)
def test_a_time_that_rests_on_an_estimate_says_so(bucket: Bucket, text: str) -> None:
    cluster = one_host((kind(), 100.0))
    cluster.hold_until(bucket.requirement.run_s or math.inf, bucket, on("a", 6))
    cluster.hold_until(20.0, kind(run_s=20.0), on("a", 1))
    (planned,) = cluster.add(WIDE)
    cluster.step(0.0)
    assert sentence(cluster.planned[planned].text) == text


def test_a_time_that_rests_on_the_estimate_of_a_planned_job_says_so() -> None:
    first, second = kind("rusage[mem=1] span[hosts=1]", slots=8), kind("rusage[mem=2] span[hosts=1]", slots=8)
    cluster = one_host((first, 40.0))
    cluster.hold_until(100.0, kind(run_s=100.0), on("a", 6))
    (one,), (two,) = cluster.add(first), cluster.add(second)
    cluster.step(0.0)
    assert sentence(cluster.planned[one].text) == ""
    assert sentence(cluster.planned[two].text) == f"judging by earlier jobs like job {one}, which has no run limit"


def test_who_may_not_backfill_by_its_estimate_is_told_so() -> None:
    long = kind()
    cluster = one_host((long, 200.0))
    cluster.hold_until(100.0, kind(run_s=100.0), on("a", 6))
    cluster.add(WIDE)
    cluster.add(long)
    plan = cluster.step(0.0)
    ((reason, *_),) = (each for key, each in plan.reasons.items() if key in (long, ("q", long.requirement)))
    assert "this job is expected to run until 1970-01-01 00:03:20 UTC" in sentence(reason.detail)


@pytest.mark.parametrize("order", [("bob", "ann"), ("ann", "bob")])
def test_one_users_jobs_are_not_refused_for_how_long_anothers_run(order: tuple[str, str]) -> None:
    """The same requirement, so they are of one class; of ann's jobs it is known that they are short."""
    cluster = one_host((kind("rusage[mem=1]", user="ann"), 60.0))
    cluster.hold_until(100.0, kind(run_s=100.0), on("a", 6))
    cluster.add(WIDE)
    jobs = {user: cluster.add(kind("rusage[mem=1]", user=user))[0] for user in order}
    plan = cluster.step(0.0)
    assert jobs["ann"] in cluster.started and jobs["bob"] not in cluster.started
    (reason, *_) = plan.reasons[kind("rusage[mem=1]", user="bob")]
    assert sentence(reason.text).startswith("Resources are reserved for job")


def test_the_same_holds_for_jobs_on_several_hosts() -> None:
    two = {user: kind("span[ptile=1]", slots=2, user=user) for user in ("bob", "ann")}
    known = {run_kind(two["ann"]): 60.0}
    cluster = TimedCluster(host("a", ncpus=8), host("b", ncpus=8), slots=8, queues=QUEUES, usual_run_s=known)
    for name in ("a", "b"):
        cluster.hold_until(100.0, kind(run_s=100.0), on(name, 6))
    cluster.add(kind("span[ptile=8]", slots=16, run_s=50.0))
    bob, ann = (cluster.add(two[user])[0] for user in ("bob", "ann"))
    cluster.step(0.0)
    assert ann in cluster.started and bob not in cluster.started


def test_whoever_runs_no_shorter_than_one_who_was_refused_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many users have such jobs: a cycle costs little for each of them."""
    tried: list[str] = []
    place = Placer.place

    def noted(self: Placer, bucket: Bucket) -> object:
        tried.append(bucket.user)
        return place(self, bucket)

    monkeypatch.setattr(Placer, "place", noted)
    cluster = one_host((kind("rusage[mem=1]", user="ann"), 60.0))
    cluster.hold_until(100.0, kind(run_s=100.0), on("a", 6))
    cluster.add(WIDE)
    for number in range(50):
        cluster.add(kind("rusage[mem=1]", user=f"u{number}"))
    (ann,) = cluster.add(kind("rusage[mem=1]", user="ann"))
    cluster.step(0.0)
    assert ann in cluster.started
    assert [user for user in tried if user != "ann"] == ["u0"]


def test_estimates_that_err_again_and_again_put_nobody_off_for_ever() -> None:
    """Jobs that are expected to run 10 s and run 40 come all the time; who waits was told that it starts at 100."""
    liar = kind()
    cluster = one_host((liar, 10.0))
    cluster.hold_until(100.0, kind(run_s=100.0), on("a", 6))
    (wide,) = cluster.add(WIDE)
    beside = []
    for now in range(0, 400, 5):
        (job,) = cluster.add(liar)
        cluster.lasts[job] = 40.0
        cluster.first_promise.clear()
        cluster.step(float(now))
        beside += [job] if job in cluster.started and wide not in cluster.started else []
    assert beside, "the others use what is reserved until then"
    assert cluster.started[wide] <= 140.0


# -- advance reservations are promised more than estimates can tell -----------------------------------------------


def window(start: float, slots: int) -> AdvanceReservation:
    return AdvanceReservation("ann#1", ("eve",), start, start + 1000.0, slots={"a": slots})


def test_no_estimate_lets_a_job_have_what_an_advance_reservation_needs() -> None:
    cluster = one_host((kind(), 10.0), reservations=(window(100.0, 8),))
    (unlimited,) = cluster.add(kind())
    (given,) = cluster.add(kind(estimate_s=10.0))
    (limited,) = cluster.add(kind(run_s=99.0))
    cluster.step(0.0)
    assert limited in cluster.started and unlimited not in cluster.started and given not in cluster.started
    assert cluster.planned.get(unlimited) is None or cluster.planned[unlimited].at != 0.0


def test_nor_does_one_that_runs_already_count_as_over_by_then() -> None:
    """6 run and are expected to end long before; if they do not, 2 are left, and the reservation wants 2."""
    cluster = one_host((kind(), 10.0), reservations=(window(100.0, 2),))
    cluster.hold_until(math.inf, kind(), on("a", 6))
    (late,) = cluster.add(kind(run_s=200.0))
    (early,) = cluster.add(kind(run_s=50.0))
    cluster.step(0.0)
    assert early in cluster.started and late not in cluster.started
