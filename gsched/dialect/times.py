"""Times of day and dates as bsub's -b and -t take them, `[[[year:]month:]day:]hour:minute`, in the caller's zone.

Looks at no clock: who asks says what time it is. Source: bsub(1).
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo

from gsched.base.errors import BadRequest

BAD_TIME = "Bad time specification"
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
        raise BadRequest(f"{BAD_TIME}: '{text}' holds no time from 0:00 to 23:59")
    for year, month, day in _dates(date, datetime.fromtimestamp(now, zone)):
        if 1970 <= year <= 9000 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]:
            at = datetime(year, month, day, hour, minute, tzinfo=zone).timestamp()
            if at > now or len(date) == 3:
                return at
    raise BadRequest(f"{BAD_TIME}: '{text}' holds no date that there is")


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
