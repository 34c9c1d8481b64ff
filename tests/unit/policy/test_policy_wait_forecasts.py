"""Nine in ten start by their p90, also where far more comes than gets done; those that wait still count."""

from __future__ import annotations

import random
from heapq import heappop, heappush

import pytest

from gsched.policy.future import wait_forecasts
from gsched.policy.future.past_waits import LEAST, WaitEstimate
from gsched.policy.future.start_estimate_errors import median_s
from gsched.policy.future.wait_forecasts import NEWEST, WaitForecasts, quantile
from gsched.policy.future.waiting_work import WaitingShape, WaitingWork

KIND = ("ann", "normal", 1.0)


def test_a_quantile_of_known_values_is_one_of_them() -> None:
    values = [(float(each), True) for each in range(1, 100)]
    assert quantile(values, 0.5) == 50.0
    assert quantile(values, 0.9) == 90.0
    assert quantile(values[:9], 0.9) == 9.0
    assert quantile(values[:5], 0.9) > 5.0, "of five values none is larger than nine in ten"


@pytest.mark.parametrize("seed", range(200))
def test_who_waits_still_makes_it_later_and_never_earlier(seed: int) -> None:
    rng = random.Random(seed)
    known = [(rng.expovariate(1.0), True) for _ in range(rng.randint(1, 40))]
    open_ended = [(rng.expovariate(0.5), False) for _ in range(rng.randint(1, 40))]
    levels = [0.1, 0.5, 0.7, 0.9, 0.95]
    found = [quantile(known + open_ended, level) for level in levels]
    assert found == sorted(found) and all(each >= 0.0 for each in found)
    as_if_over = [quantile(known + [(each, True) for each, _ in open_ended], level) for level in levels]
    reached = [each <= max(known)[0] for each in found]
    assert all(late >= early for late, early, is_in in zip(found, as_if_over, reached, strict=True) if is_in)


def test_nothing_is_said_of_what_nobody_knows() -> None:
    found = WaitForecasts()
    for number in range(LEAST):
        found.told(number, *KIND, 0.0, 100.0, None)
        assert found.estimate(*KIND, 100.0, 50.0) is None
        found.started(number, 100.0)
    assert found.estimate(*KIND, 100.0, 100.0) == WaitEstimate(100.0, 100.0, LEAST)
    asked = found.estimate(*KIND, 700.0, 100.0)
    assert asked is not None and asked.p50_s == 700.0 < asked.p90_s, "so much was guessed of none before"
    assert found.estimate("bob", "other", 1.0, 100.0, 100.0) is None


def test_who_was_killed_and_who_wants_something_else_says_nothing() -> None:
    found = WaitForecasts()
    for number in range(100):
        found.told(number, *KIND, 0.0, 1.0, 1.0)
        found.leave(number)
        found.started(number, 100.0)
    assert found.estimate(*KIND, 1.0, 200.0) is None


def test_of_one_that_has_waited_those_count_that_waited_longer() -> None:
    found = WaitForecasts()
    for number in range(NEWEST):
        found.told(number, *KIND, 0.0, 10.0, None)
        found.started(number, 10.0 * number)
    asked = found.estimate(*KIND, 10.0, 400.0, waited_s=250.0)
    assert asked is not None and asked.jobs == NEWEST - 25 and 250.0 < asked.p50_s < asked.p90_s
    assert found.estimate(*KIND, 10.0, 400.0, waited_s=10.0 * NEWEST) is None


def test_p90s_that_pass_move_the_next_ones_away() -> None:
    found = WaitForecasts()
    for number in range(LEAST):
        found.told(number, *KIND, 0.0, 100.0, None)
        found.started(number, 100.0)
    first = found.estimate(*KIND, 100.0, 100.0)
    assert first is not None
    found.told(99, *KIND, 100.0, 100.0, first.p90_s)
    later = found.estimate(*KIND, 100.0, 201.0)
    assert later is not None and later.p90_s > first.p90_s, "though nothing has started"


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_forecasts, "MOST_KINDS", 30)
    found = WaitForecasts()
    for number in range(5_000):
        found.told(number, f"u{number}", f"q{number % 100}", 1.0, float(number), 10.0, 1e9)
        found.started(number, number + 5.0)
    assert len(found._alike) <= 30 and not (found._waiting or found._open) and len(found._due) < 100
    assert all(len(each.started) <= NEWEST and not each.waiting for each in found._alike.values())


def test_ten_thousand_that_come_at_once_cost_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = WaitForecasts(), []
    for number in range(LEAST):
        found.told(number, *KIND, 0.0, 100.0, None)
        found.started(number, 100.0)
    monkeypatch.setattr(
        wait_forecasts, "quantile", lambda ratios, level: asked.append(level) or quantile(ratios, level)
    )
    for number in range(10_000):
        found.told(number, *KIND, 200.0, 100.0, None)
        assert found.estimate(*KIND, 100.0, 200.0) is not None
    assert asked == [0.5, 0.9]


@pytest.mark.parametrize("load", [0.95, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_nine_in_ten_start_by_their_p90_however_full_it_is(seed: int, load: float) -> None:
    """Forty GPUs serve in order; users state up to four times what their jobs take, some state nothing."""
    rng = random.Random(seed)
    errors, mean_errors, waits = [], [], []
    work, forecasts = WaitingWork(), WaitForecasts()
    free, now, gpus = [0.0] * 40, 0.0, 40
    due: list[tuple[float, int, WaitingShape, float, float, WaitEstimate | None, float]] = []
    ends: list[tuple[float, int]] = []

    def pass_to(until: float) -> None:
        while (due and due[0][0] <= until) or (ends and ends[0][0] <= until):
            if ends and (not due or ends[0][0] <= due[0][0]):
                at, number = heappop(ends)
                work.end(number, at)
                continue
            at, number, shape, came, runs, told, mean = heappop(due)
            work.leave(number)
            forecasts.started(number, at)
            work.begin(number, shape, at)
            heappush(ends, (at + runs, number))
            if at - came > 5.0:
                waits.append(at - came)
                if told is not None:
                    judged.append(at - came <= told.p90_s)
                    errors.append(abs(at - came - told.p50_s))
                    mean_errors.append(abs(at - came - mean))

    judged: list[bool] = []
    for number in range(2_000):
        now += rng.expovariate(load * gpus / 900.0)
        pass_to(now)
        runs = rng.lognormvariate(6.0, 1.26)
        shape = WaitingShape("normal", 1.0, 1, rng.choice([None, runs * rng.uniform(1.0, 4.0)]))
        at = max(now, heappop(free))
        heappush(free, at + runs)
        told = None
        if at > now:
            guess_s = work.guess_s(shape, now)
            told = forecasts.estimate("ann", "normal", 1.0, guess_s, now)
            work.wait(number, shape)
            forecasts.told(number, "ann", "normal", 1.0, now, guess_s, told and told.p90_s)
        heappush(due, (at, number, shape, now, runs, told, sum(waits) / max(1, len(waits))))
    pass_to(1e12)
    inside = sum(judged) / len(judged)
    assert inside >= 0.8, inside
    assert load > 1.0 or inside <= 0.95, inside
    error, mean_error = median_s(errors), median_s(mean_errors)
    assert error is not None and mean_error is not None and error < 0.7 * mean_error
