"""DRMAA's partial times, `[[[[CC]YY/]MM/]DD] hh:mm[:ss] [{-|+}UU:uu]`, as `gsub -b` and `-t` take times.

What is left out in front is chosen so that the time is the next such one. It looks at no clock: the caller says what
time it is. Source: Distributed Resource Management Application API Specification 1.0 (GFD.133).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from math import ceil

from gsched.contrib.drmaa.errors import InvalidAttributeFormatException, InvalidAttributeValueException, coded

_FORM = "[[[[CC]YY/]MM/]DD] hh:mm[:ss] [{-|+}UU:uu]"
_TIME = re.compile(
    r"(?:(?:(?:(?P<year>\d{4}|\d{2})/)?(?P<month>\d{1,2})/)?(?P<day>\d{1,2})\s+)?"
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?(?:\s*(?P<sign>[-+])(?P<east>\d{2}):(?P<more>\d{2}))?",
    re.ASCII,
)
_MOST_YEARS = 9
"""How far away the next 29th of February can be, and one more."""


def moment_of(text: str, name: str, now: float) -> float:
    """Seconds since 1970 of the next such time after `now` (also seconds since 1970); of exactly that time where a year
    is given. `name` is the attribute's, for errors. Raises InvalidAttributeFormatException for another form and
    InvalidAttributeValueException for a time that does not exist.
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise coded(InvalidAttributeFormatException, f"{name}: '{text[:60]}' is not of the form {_FORM}")
    zone = None
    if found["sign"]:
        offset = timedelta(hours=int(found["east"]), minutes=int(found["more"]))
        zone = timezone(-offset if found["sign"] == "-" else offset) if offset < timedelta(days=1) else None
    today = datetime.fromtimestamp(now, UTC).astimezone(zone)
    clock = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
    for year, month, day in _dates(found, today):
        try:
            moment = datetime(year, month, day, *clock, tzinfo=zone).timestamp()
        except (ValueError, OverflowError):
            continue
        if moment > now or found["year"]:
            return moment
    raise coded(InvalidAttributeValueException, f"{name}: there is no such time as '{text[:60]}'")


def _dates(found: re.Match[str], today: datetime) -> Iterator[tuple[int, int, int]]:
    """Dates (year, month, day) that may be meant, the soonest first; some may not exist."""
    if found["year"]:
        century = today.year // 100 * 100 if len(found["year"]) == 2 else 0
        yield century + int(found["year"]), int(found["month"]), int(found["day"])
    elif found["month"]:
        yield from ((today.year + more, int(found["month"]), int(found["day"])) for more in range(_MOST_YEARS))
    elif found["day"]:
        months = (today.month - 1 + more for more in range(13))
        yield from ((today.year + month // 12, month % 12 + 1, int(found["day"])) for month in months)
    else:
        days = (today.date() + timedelta(days=more) for more in range(2))
        yield from ((each.year, each.month, each.day) for each in days)


def as_gsub_takes_it(moment: float) -> str:
    """`YEAR:MONTH:DAY:HOUR:MINUTE` of this process's zone; of a moment within a minute, the beginning of the next."""
    whole = datetime.fromtimestamp(ceil(moment / 60) * 60)
    return f"{whole.year:04}:{whole.month:02}:{whole.day:02}:{whole.hour:02}:{whole.minute:02}"
