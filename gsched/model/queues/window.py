"""Time windows of queues, hosts and limits: `[day:]hour[:minute]-[day:]hour[:minute]`, days 0 (Sunday) to 6.

A window is minutes of the week in the master's local time; whoever asks gives that minute. It never reads a clock.
Source: lsb.queues(5), RUN_WINDOW and DISPATCH_WINDOW.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

WEEK_MIN = 7 * 24 * 60
DAY_MIN = 24 * 60


class Window(msgspec.Struct, frozen=True):
    """Open from `start` up to but not including `end`, in minutes. `weekly`: of the week (else of every day).

    An end before the start wraps round.
    """

    start: int
    end: int
    weekly: bool = False

    def is_open(self, minute_of_week: int) -> bool:
        """Whether the window is open at that minute of the week (0: Sunday 00:00)."""
        minute = minute_of_week if self.weekly else minute_of_week % DAY_MIN
        if self.start <= self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end

    def until_change_min(self, minute_of_week: int) -> int:
        """Minutes until it opens or closes, at least 1."""
        span = WEEK_MIN if self.weekly else DAY_MIN
        minute = minute_of_week % span
        return min((edge - minute - 1) % span + 1 for edge in (self.start, self.end))

    def until_end_min(self, minute_of_week: int) -> int:
        """Minutes until it closes; 0: it is closed."""
        if not self.is_open(minute_of_week):
            return 0
        return (self.end - minute_of_week - 1) % (WEEK_MIN if self.weekly else DAY_MIN) + 1


def is_open(windows: Iterable[Window], minute_of_week: int) -> bool:
    """Whether one of the windows is open; no windows at all means always."""
    windows = tuple(windows)
    return not windows or any(window.is_open(minute_of_week) for window in windows)


def open_min(windows: Iterable[Window], minute_of_week: int) -> int:
    """For how many minutes one of the windows after another is open without a gap: 0 to WEEK_MIN, which is always."""
    windows, minutes = tuple(windows), 0
    while minutes < WEEK_MIN:
        at = (minute_of_week + minutes) % WEEK_MIN
        more = max((window.until_end_min(at) for window in windows), default=0)
        if not more:
            return minutes
        minutes += more
    return WEEK_MIN


def windows_text(windows: Iterable[Window]) -> str:
    """`20:00-8:30 5:20:00-1:8:00`, as the files have them; empty for none."""
    return " ".join(f"{_moment(each.start, each)}-{_moment(each.end, each)}" for each in windows)


def _moment(minute: int, window: Window) -> str:
    day, rest = divmod(minute, DAY_MIN)
    clock = f"{rest // 60}:{rest % 60:02d}"
    return f"{day}:{clock}" if window.weekly else clock


def minute_of_week(now: float) -> int:
    """Minutes since Sunday 00:00 of the moment `now` (UTC seconds), in this machine's time zone."""
    local = datetime.fromtimestamp(now)
    return (local.weekday() + 1) % 7 * DAY_MIN + local.hour * 60 + local.minute
