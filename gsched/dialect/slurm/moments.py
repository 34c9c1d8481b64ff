"""Moments as Slurm's manuals write them: `now-1hour`, `16:00`, `3:30PM`, `1128`, `11/28/26-08:00`, `2026-11-28T08:00`.

Source: sacct(1), --endtime, and sbatch(1), --begin, of Slurm 22.05.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo

from gsched.base.errors import BadRequest
from gsched.dialect.times import within_years

_RELATIVE = {"second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "day": 86_400, "week": 7 * 86_400}
_NAMED = {"midnight": (0, 0), "elevenses": (11, 0), "noon": (12, 0), "fika": (15, 0), "teatime": (16, 0)}
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.[0-9]+)?)?\s*([ap]m)?", re.ASCII)
_ISO = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:t(.*))?", re.ASCII)
_DATE = (
    re.compile(r"(?P<month>[0-9]{2})(?P<day>[0-9]{2})(?P<year>[0-9]{2})?(?:-(?P<clock>.*))?", re.ASCII),
    re.compile(
        r"(?P<month>[0-9]{1,2})/(?P<day>[0-9]{1,2})(?:/(?P<year>[0-9]{2}|[0-9]{4}))?(?:-(?P<clock>.*))?", re.ASCII
    ),
    re.compile(r"(?P<month>[0-9]{1,2})\.(?P<day>[0-9]{1,2})(?:\.(?P<year>[0-9]{2}))?(?:-(?P<clock>.*))?", re.ASCII),
)
_FORMS = (
    "HH:MM[:SS][AM|PM], MMDD[YY][-HH:MM[:SS]], MM/DD[/YY][-HH:MM[:SS]], MM.DD[.YY][-HH:MM[:SS]], "
    "YYYY-MM-DD[THH:MM[:SS]], today, tomorrow, midnight, noon, fika, teatime and now[{+|-}COUNT[UNIT]] are times"
)
_TimeOfDay = tuple[int, int, int]


def parse_moment(text: str, now: float, zone: tzinfo, *, past: bool = False) -> float:
    """UTC seconds of a moment. A time of the day, and a date without a year, is the next one, with `past` the last.

    Raises BadRequest.
    """
    word = " ".join(text.lower().split())
    try:
        found = _relative(word, now) if word.startswith("now") else _on_a_day(word, now, zone, past=past)
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise BadRequest(f"Invalid time specification '{text[:40]}': {_FORMS}")
    return within_years(text, found)


def _relative(word: str, now: float) -> float | None:
    found = re.fullmatch(r"now(?: ?([+-]) ?([0-9]{1,9}) ?([a-z]*))?", word, re.ASCII)
    if found is None:
        return None
    unit = found[3] or "second"
    unit = unit if unit in _RELATIVE else unit.removesuffix("s")
    if unit not in _RELATIVE:
        return None
    return now + (-1 if found[1] == "-" else 1) * int(found[2] or 0) * _RELATIVE[unit]


def _on_a_day(word: str, now: float, zone: tzinfo, *, past: bool) -> float | None:
    today = datetime.fromtimestamp(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    if word in ("today", "tomorrow"):
        return (today + timedelta(days=word == "tomorrow")).timestamp()
    clock = _clock(word)
    if clock is not None:
        return _nearest(_at(today, clock), timedelta(days=1), now, past=past)
    iso = _ISO.fullmatch(word)
    if iso is not None:
        return _on(today.replace(year=int(iso[1]), month=int(iso[2]), day=int(iso[3])), iso[4])
    for form in _DATE:
        date = form.fullmatch(word)
        if date is not None:
            return _dated(date, today, now, past=past)
    return None


def _dated(date: re.Match[str], today: datetime, now: float, *, past: bool) -> float | None:
    year = int(date["year"]) % 100 + 2000 if date["year"] else today.year
    day = today.replace(year=year, month=int(date["month"]), day=int(date["day"]))
    at = _on(day, date["clock"])
    if at is None or date["year"]:
        return at
    if past and at > now:
        return _on(day.replace(year=year - 1), date["clock"])
    if not past and at < today.timestamp():
        return _on(day.replace(year=year + 1), date["clock"])
    return at


def _on(day: datetime, text: str | None) -> float | None:
    clock = (0, 0, 0) if text is None else _clock(text)
    return None if clock is None else _at(day, clock).timestamp()


def _at(day: datetime, clock: _TimeOfDay) -> datetime:
    return day.replace(hour=clock[0], minute=clock[1], second=clock[2])


def _nearest(at: datetime, step: timedelta, now: float, *, past: bool) -> float:
    if past:
        return (at - step if at.timestamp() > now else at).timestamp()
    return (at if at.timestamp() > now else at + step).timestamp()


def _clock(word: str) -> _TimeOfDay | None:
    if word in _NAMED:
        return (*_NAMED[word], 0)
    found = _CLOCK.fullmatch(word)
    if found is None:
        return None
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    if found[4]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found[4] == "pm" else 0)
    return (hour, minute, second) if hour < 24 and minute < 60 and second < 60 else None
