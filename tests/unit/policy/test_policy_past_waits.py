"""What waits of earlier jobs say of the next ones: nothing from the future, nine in ten inside, the narrowest kind."""

from __future__ import annotations

import random

import pytest

from gsched.model.views.start_estimate import StartEstimate
from gsched.policy.future import past_waits
from gsched.policy.future.past_waits import AT_ONCE_S, LEAST, NEWEST, PastStart, PastWaits, WaitEstimate, waits_of
from gsched.policy.future.start_estimate_errors import EstimateErrors, median_s


def start(submitted: float, waited: float, user: str = "ann", queue: str = "normal", gpus: float = 1.0) -> PastStart:
    return PastStart(user, queue, gpus, submitted, submitted + waited)


def judged(starts: list[PastStart]) -> EstimateErrors:
    """How far off that would have been which was known at each submission."""
    errors = EstimateErrors()

    def said(start: PastStart, told: WaitEstimate | None, mean_s: float) -> None:
        at = start.submitted_at
        p50, p90 = (None, None) if told is None else (at + told.p50_s, at + told.p90_s)
        estimate = StartEstimate(job_id=1, at=at, p50_at=p50, p90_at=p90, mean_at=at + mean_s)
        errors.judge(at, start.started_at, estimate)

    waits_of(starts, said)
    return errors


def known(*starts: PastStart) -> PastWaits:
    found = PastWaits()
    for each in starts:
        found.note(each)
    return found


def test_quantiles_are_those_of_the_waits() -> None:
    found = known(*(start(0, 100.0 * number) for number in range(1, 101)))
    estimate = found.estimate("ann", "normal", 1.0)
    assert estimate is not None
    assert (estimate.p50_s, estimate.p90_s, estimate.jobs) == (5_000.0, 9_000.0, 100)
    assert found.mean_s == pytest.approx(5_050.0)


def test_who_has_waited_is_compared_with_those_that_waited_longer() -> None:
    found = known(*(start(0, 100.0 * number) for number in range(1, 101)))
    estimate = found.estimate("ann", "normal", 1.0, waited_s=8_050.0)
    assert estimate is not None and (estimate.p50_s, estimate.jobs) == (9_000.0, 20)
    assert found.estimate("ann", "normal", 1.0, waited_s=9_999.0) is None


def test_the_narrowest_kind_of_which_enough_is_known() -> None:
    own = [start(0, 60.0) for _ in range(LEAST)]
    others = [start(0, 600.0, user="bob") for _ in range(LEAST)]
    large = [start(0, 6_000.0, user="bob", gpus=8.0) for _ in range(3 * LEAST)]
    found = known(*own, *others, *large)
    waits = [
        found.estimate(*asked) for asked in (("ann", "normal", 1.0), ("eve", "normal", 8.0), ("eve", "normal", 2.0))
    ]
    assert [each and each.jobs for each in waits] == [LEAST, 3 * LEAST, 5 * LEAST]
    assert [each and each.p50_s for each in waits] == [60.0, 6_000.0, 6_000.0]
    assert found.estimate("ann", "other", 1.0) is None
    assert known(*own[1:]).estimate("ann", "normal", 1.0) is None


def test_jobs_that_start_at_once_say_nothing() -> None:
    starts = [start(float(number), AT_ONCE_S) for number in range(100)]
    assert waits_of(starts).estimate("ann", "normal", 1.0) is None
    errors = judged(starts)
    assert (errors.waited, errors.inside, errors.share_inside, median_s([])) == (0, [], None, None)


def test_an_estimate_knows_nothing_of_what_starts_later() -> None:
    """All are submitted before the first of them starts."""
    errors = judged([start(float(number), 1_000.0 + number) for number in range(100)])
    assert (errors.waited, errors.inside) == (100, [])
    late = [start(5_000.0 + number, 900.0) for number in range(10)]
    errors = judged([*late, *(start(float(number), 1_000.0) for number in range(100))])
    assert len(errors.inside) == 10 and all(errors.inside)
    assert errors.off_s == [100.0] * 10 == errors.mean_off_s


@pytest.mark.parametrize("seed", range(5))
def test_nine_in_ten_start_by_their_p90_though_waits_drift(seed: int) -> None:
    rng = random.Random(seed)
    starts, now = [], 0.0
    for number in range(4_000):
        now += rng.expovariate(1 / 60.0)
        load = 1.0 + 3.0 * ((number // 500) % 2)
        user = rng.choice(["ann", "bob", "cat"])
        starts.append(start(now, 6.0 + load * rng.expovariate(1 / 900.0), user, gpus=rng.choice([1.0, 8.0])))
    errors = judged(starts)
    assert errors.share_inside is not None and 0.85 <= errors.share_inside <= 0.95
    half, mean = median_s(errors.off_s), median_s(errors.mean_off_s)
    assert half is not None and mean is not None and half < mean


def test_the_newest_waits_alone_count_and_kinds_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(7)
    waits = [round(rng.uniform(10.0, 500.0)) + 0.5 for _ in range(3 * NEWEST)]
    found = known(*(start(0, each) for each in waits))
    newest = sorted(waits[-NEWEST:])
    estimate = found.estimate("ann", "normal", 1.0)
    assert estimate is not None
    assert (estimate.p50_s, estimate.p90_s, estimate.jobs) == (newest[99], newest[179], NEWEST)
    monkeypatch.setattr(past_waits, "MOST_KINDS", 30)
    for number in range(100):
        for _ in range(LEAST):
            found.note(start(0, 60.0, user=f"u{number}", queue=f"q{number}"))
    assert found.estimate("u99", "q99", 1.0) is not None
    assert found.estimate("u1", "q1", 1.0) is None and found.estimate("ann", "normal", 1.0) is None
