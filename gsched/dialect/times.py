"""Times of day and dates as bsub's -b and -t take them, `[[[year:]month:]day:]hour:minute`, in the caller's zone; and
spans of time as bacct's -C, -S and -D and badmin hist's -t take them: `time0,time1`.

A time of a span is `[year/][month/][day][/hour:[minute]]`; what is left out in front is that of now. It means all of
its smallest part: `6` the whole sixth, `2/` all of February, `/12:` noon to 12:59. `.` is now, `.-3` three days ago,
`.-3/` months, `.-3:` hours. Either side may be left open.

Looks at no clock: who asks says what time it is. Source: bsub(1); bacct(1) and bhist(1), TIME INTERVAL FORMAT.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

from gsched.base.errors import BadRequest

BAD_TIME = "Bad time specification"
FIRST_YEAR, LAST_YEAR = 1970, 9000
"""No time of a job lies outside of these: every clock can show what lies within."""
_END = datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC).timestamp()
_FORM = "[[[year:]month:]day:]hour:minute"


def parse_time(text: str, now: float, zone: tzinfo) -> float:
    """UTC seconds of the next such time after `now` (UTC seconds); with a year, of exactly that time.

    Raises BadRequest.
    """
    parts = text.strip().split(":")
    if not 2 <= len(parts) <= 5 or not all(part.isascii() and part.isdigit() and len(part) <= 4 for part in parts):
        raise BadRequest(f"{BAD_TIME}: '{text[:40]}' is not of the form {_FORM}")
    *date, hour, minute = (int(part) for part in parts)
    if hour > 23 or minute > 59:
        raise BadRequest(f"{BAD_TIME}: '{text[:40]}' holds no time from 0:00 to 23:59")
    for year, month, day in _dates(date, datetime.fromtimestamp(now, zone)):
        if FIRST_YEAR <= year <= LAST_YEAR and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]:
            at = datetime(year, month, day, hour, minute, tzinfo=zone).timestamp()
            if at > now or len(date) == 3:
                return at
    raise BadRequest(f"{BAD_TIME}: '{text[:40]}' holds no date that there is")


def within_years(text: str, at: float) -> float:
    """The time `at`, UTC seconds, that was meant by `text`. Raises BadRequest for one of another age."""
    if not 0.0 <= at < _END:
        raise BadRequest(f"'{text[:40]}' is not within the years {FIRST_YEAR} to {LAST_YEAR}")
    return at


def _dates(date: list[int], today: datetime) -> Iterator[tuple[int, int, int]]:
    """Dates (year, month, day) that the given parts may mean, soonest first; some may not exist."""
    match date:
        case [year, month, day]:
            yield year, month, day
        case [month, day]:
            # A 29th of February may be eight years away.
            yield from ((today.year + years, month, day) for years in range(9))
        case [day]:
            months = (today.month - 1 + more for more in range(13))
            yield from ((today.year + month // 12, month % 12 + 1, day) for month in months)
        case _:
            # Two days on, for a time that a change of clocks leaves out.
            for days in range(3):
                other = today.date() + timedelta(days=days)
                yield other.year, other.month, other.day


_SPAN_FORM = "[year/][month/][day][/hour:[minute]][,time]"
_RELATIVE = re.compile(r"\.(?:-(\d{1,6})([/:]?))?")


def parse_span(text: str, now: float, zone: tzinfo) -> tuple[float | None, float]:
    """First (None: open) and last second of the span, UTC. One time alone means its own span; `now` is UTC seconds.

    Raises BadRequest.
    """
    first, comma, second = text.replace(" ", "").partition(",")
    if not first and not second:
        raise BadRequest(f"{BAD_TIME}: '{text[:40]}' is not of the form {_SPAN_FORM}")
    moment = datetime.fromtimestamp(now, zone)
    since = _part(first, moment)[0] if first else None
    until = (_part(second, moment)[1] if second else now) if comma else _part(first, moment)[1]
    if since is not None and since > until:
        raise BadRequest(f"{BAD_TIME}: '{text[:40]}' ends before it begins")
    return since, until


_MOMENT_FORM = "YYYY-MM-DD HH:MM[:SS] or [year/][month/][day][/hour:[minute]]"
_ISO = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)(?:[ T](\d\d?):(\d\d)(?::(\d\d)(\.\d{1,6})?)?)?", re.ASCII)


def parse_moment(text: str, now: float, zone: tzinfo) -> float:
    """UTC seconds of one moment: `2026-11-20 03:00`, with seconds and parts of them if need be, or the beginning of a
    time of a span. Raises BadRequest.
    """
    found = _ISO.fullmatch(text.strip())
    if found is None:
        try:
            if not text.strip():
                raise BadRequest(BAD_TIME)
            return _part(text.replace(" ", ""), datetime.fromtimestamp(now, zone))[0]
        except BadRequest:
            raise BadRequest(f"{BAD_TIME}: '{text[:40]}' is not of the form {_MOMENT_FORM}") from None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=zone).timestamp()
    except (ValueError, OverflowError):
        raise BadRequest(f"{BAD_TIME}: there is no such time as '{text[:40]}'") from None
    return within_years(text, moment + float(found[7] or 0))


def _part(text: str, now: datetime) -> tuple[float, float]:
    """First and last second of what one time means."""
    try:
        begin, end = _relative(text, now) or _absolute(text, now)
    except (ValueError, OverflowError):
        raise BadRequest(f"{BAD_TIME}: '{text[:40]}' is not of the form {_SPAN_FORM}") from None
    return begin.timestamp(), end.timestamp() - 1


def _relative(text: str, now: datetime) -> tuple[datetime, datetime] | None:
    found = _RELATIVE.fullmatch(text)
    if found is None:
        return None
    number, unit = int(found[1] or 0), found[2]
    if unit == "/":
        months = now.year * 12 + now.month - 1 - number
        then = now.replace(year=months // 12, month=months % 12 + 1, day=min(now.day, 28))
    else:
        then = now - timedelta(hours=number) if unit == ":" else now - timedelta(days=number)
    return then, then + timedelta(seconds=1)


def _absolute(text: str, now: datetime) -> tuple[datetime, datetime]:
    date, _, clock = text.rpartition("/") if ":" in text else (text, "", "")
    year, month, day = _date(date, now)
    start = datetime(year or now.year, month or 1, day or 1, tzinfo=now.tzinfo)
    if clock:
        hour, _, minute = clock.partition(":")
        start = start.replace(hour=_number(hour), minute=_number(minute) if minute else 0)
        return start, start + (timedelta(minutes=1) if minute else timedelta(hours=1))
    if day:
        return start, start + timedelta(days=1)
    if month:
        return start, (start + timedelta(days=31)).replace(day=1)
    return start, start.replace(year=start.year + 1)


def _date(text: str, now: datetime) -> tuple[int, int, int]:
    """Year, month and day; 0 behind the smallest that is named. Raises ValueError."""
    if not text:
        return now.year, now.month, now.day
    names_no_day = text.endswith("/")
    parts = [_number(part) for part in text.removesuffix("/").split("/")]
    if names_no_day and len(parts) == 1 and parts[0] > 12:
        return parts[0], 0, 0
    if names_no_day:
        parts.append(0)
    if len(parts) > 3:
        raise ValueError(text)
    year, month, day = [*(now.year, now.month, now.day)[: 3 - len(parts)], *parts]
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise ValueError(text)
    return year, month, day


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise ValueError(text)
    return int(text)
