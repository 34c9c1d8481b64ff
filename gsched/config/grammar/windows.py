"""Time windows of queues, hosts and limits, and amounts that hold while a window is open.

Source: lsb.queues(5), RUN_WINDOW and DISPATCH_WINDOW; lsb.resources(5). Nothing here reads a clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import show
from gsched.model.queues.limit import Amount
from gsched.model.queues.window import DAY_MIN, WEEK_MIN, Window

MAX_WINDOWS = 100

_TIME = re.compile(r"(?:(?P<day>[0-9]+):(?P<h3>[0-9]+):(?P<m3>[0-9]+)|(?P<h>[0-9]+)(?::(?P<m>[0-9]+))?)", re.ASCII)
_BRACKETED = re.compile(r"\s*\[([^\[\]]*)\]\s*")
_SPAN = re.compile(r"([0-9]{1,6})\s*([mhdw])", re.ASCII | re.IGNORECASE)
_SPAN_S = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_MAX_SPAN_S = 366 * 86_400


def parse_windows(text: str) -> tuple[Window, ...]:
    """Windows `[day:]hour[:minute]-[day:]hour[:minute] ...`, day 0 (Sunday) to 6. Raises BadRequest."""
    words = text.split()
    if not words:
        raise BadRequest("a time window is missing")
    if len(words) > MAX_WINDOWS:
        raise BadRequest(f"more than {MAX_WINDOWS} time windows")
    return tuple(_window(word) for word in words)


def parse_span(text: str) -> float:
    """Seconds of a length of time such as `90m`, `24h`, `7d` or `2w`, at most 366 days. Raises BadRequest."""
    found = _SPAN.fullmatch(text)
    seconds = int(found[1]) * _SPAN_S[found[2].lower()] if found else 0
    if not 0 < seconds <= _MAX_SPAN_S:
        raise BadRequest(f"'{show(text)}' is not a length of time such as 90m, 24h or 7d")
    return float(seconds)


def amounts(read: Callable[[str], float]) -> Callable[[str], tuple[Amount, ...]]:
    """A reader of `AMOUNT` or `[AMOUNT window ...] [AMOUNT window ...]`; `read` reads one amount."""

    def read_amounts(text: str) -> tuple[Amount, ...]:
        if not text.startswith("["):
            return (Amount(read(text)),)
        found: list[Amount] = []
        position = 0
        while position < len(text):
            part = _BRACKETED.match(text, position)
            if part is None:
                raise BadRequest(f"'{show(text[position:])}' is not of the form [AMOUNT START-END ...]")
            amount, _, windows = part[1].strip().partition(" ")
            found.append(Amount(read(amount), parse_windows(windows)))
            position = part.end()
            if len(found) > MAX_WINDOWS:
                raise BadRequest(f"more than {MAX_WINDOWS} amounts")
        return tuple(found)

    return read_amounts


def _window(word: str) -> Window:
    first, dash, second = word.partition("-")
    start, end = _TIME.fullmatch(first), _TIME.fullmatch(second)
    if not dash or start is None or end is None:
        raise BadRequest(f"'{show(word)}' is not of the form [day:]hour[:minute]-[day:]hour[:minute]")
    weekly = start["day"] is not None
    if weekly != (end["day"] is not None):
        raise BadRequest(f"'{show(word)}': a day must be given at both ends or at none (day:hour:minute)")
    span = WEEK_MIN if weekly else DAY_MIN
    window = Window(_minutes(start, word) % span, _minutes(end, word), weekly)
    if window.start == window.end:
        raise BadRequest(f"'{show(word)}' opens and closes at the same time")
    return window


def _minutes(time: re.Match[str], word: str) -> int:
    """Minutes of the day or of the week. 24:00 is the end of a day."""
    day = _bounded(time["day"] or "0", 6, "day", word)
    hour = _bounded(time["h3"] or time["h"] or "0", 24, "hour", word)
    minute = _bounded(time["m3"] or time["m"] or "0", 59, "minute", word)
    if hour == 24 and minute:
        raise BadRequest(f"'{show(word)}': the last minute of a day is 24:00")
    return day * DAY_MIN + hour * 60 + minute


def _bounded(digits: str, most: int, what: str, word: str) -> int:
    if len(digits) > 2 or int(digits) > most:
        raise BadRequest(f"'{show(word)}': {show(digits)} is no {what} from 0 to {most}")
    return int(digits)
