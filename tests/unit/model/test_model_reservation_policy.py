"""At which times a policy lets users reserve: its windows are open from the first moment to the last."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from gsched.model.queues import reservation_policy
from gsched.model.queues.reservation_policy import ReservationPolicy
from gsched.model.queues.window import DAY_MIN, WEEK_MIN, Window, minute_of_week

DAY_S = 24 * 3600.0
BY_DAY = Window(8 * 60, 18 * 60)


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Central European time by its rule, whatever this machine knows of zones."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


def at(day: int, hour: int, minute: int = 0, second: int = 0, month: int = 12) -> float:
    """A moment of 2026 by UTC."""
    return datetime(2026, month, day, hour, minute, second, tzinfo=UTC).timestamp()


def lets(windows: tuple[Window, ...], start: float, end: float) -> bool:
    return ReservationPolicy(name="p", windows=windows).has_time(start, end)


def test_a_window_is_open_up_to_the_last_moment(in_berlin: None) -> None:
    for start, end, is_open in (
        (at(1, 7), at(1, 17), True),
        (at(1, 6, 59, 59), at(1, 17), False),
        (at(1, 16, 59, 30), at(1, 17), True),
        (at(1, 16, 59, 30), at(1, 17, 0, 29), False),
        (at(1, 16, 59), at(1, 17, 0, 30), False),
        (at(1, 8), at(2, 9), False),
    ):
        assert lets((BY_DAY,), start, end) is is_open


def test_windows_that_touch_or_overlap_are_one(in_berlin: None) -> None:
    night = Window(17 * 60, 8 * 60)
    assert lets((BY_DAY, night), at(1, 7), at(1, 7) + 360 * DAY_S)
    assert not lets((BY_DAY, Window(18 * 60 + 1, 8 * 60)), at(1, 7), at(1, 18))
    working_days = tuple(Window(day * DAY_MIN, (day + 1) * DAY_MIN, weekly=True) for day in range(1, 6))
    assert minute_of_week(at(6, 23)) == DAY_MIN  # a Monday
    assert lets(working_days, at(6, 23), at(11, 23))
    assert not lets(working_days, at(6, 23), at(11, 23, 0, 1))
    assert not lets(working_days, at(6, 23), at(6, 23) + 300 * DAY_S)
    sunday = Window(6 * DAY_MIN, DAY_MIN, weekly=True)
    assert lets((*working_days, sunday), at(6, 23), at(6, 23) + 300 * DAY_S)
    assert not lets((Window(0, 0),), at(1, 7), at(1, 8))


def test_an_hour_that_is_not_or_is_twice_is_no_gap_and_no_way_round_one(in_berlin: None) -> None:
    till_two = Window(0, 2 * 60)
    from_three = Window(3 * 60, 24 * 60)
    assert lets((till_two, from_three), at(28, 23, month=3), at(29, 21, month=3))  # there is no hour between them
    assert lets((Window(0, 3 * 60),), at(24, 22, month=10), at(25, 2, month=10))  # four hours long
    assert not lets((Window(0, 3 * 60),), at(28, 23, month=3), at(29, 2, month=3))  # two hours long
    assert not lets((till_two, Window(2 * 60 + 30, 5 * 60)), at(24, 23, month=10), at(25, 3, month=10))


def test_the_clock_is_asked_a_few_times_however_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr(
        reservation_policy, "minute_of_week", lambda now: asked.append(now) or int(now // 60) % WEEK_MIN
    )
    windows = tuple(Window(day * DAY_MIN, (day + 1) * DAY_MIN, weekly=True) for day in range(7))
    for days in (0.5, 6.9, 7.0, 360.0):
        for policy in (windows, (Window(0, 720), Window(720, 1440)), (Window(0, 5 * DAY_MIN, weekly=True),)):
            asked.clear()
            lets(policy, 0.0, days * DAY_S)
            assert len(asked) <= 40
