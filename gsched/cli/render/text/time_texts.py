"""Moments and durations as LSF prints them. English month and day names whatever the locale; no clock is read here."""

from __future__ import annotations

from datetime import datetime, tzinfo

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _local(at: float, zone: tzinfo) -> datetime:
    # Floored, so that differences of printed times agree with printed durations.
    return datetime.fromtimestamp(at // 1, zone)


def long_stamp(at: float, zone: tzinfo, *, year: bool = False) -> str:
    """`Wed Jul  5 11:34:11`, with the year behind it if asked."""
    when = _local(at, zone)
    text = f"{_DAYS[when.weekday()]} {_MONTHS[when.month - 1]} {when.day:2d} {when:%H:%M:%S}"
    return f"{text} {when.year}" if year else text


def short_stamp(at: float, zone: tzinfo) -> str:
    """`Jul  7 10:27`."""
    when = _local(at, zone)
    return f"{_MONTHS[when.month - 1]} {when.day:2d} {when.hour:02d}:{when.minute:02d}"


def as_of(at: float, now: float, zone: tzinfo) -> str:
    """`as of 11:34:11`, with the day where it is not today's."""
    when = _local(at, zone)
    is_today = when.date() == _local(now, zone).date()
    return f"as of {when:%H:%M:%S}" if is_today else f"as of {long_stamp(at, zone)}"


def packed_stamp(at: float, zone: tzinfo) -> str:
    """`07/07-10:27:55`, the one-word form of `bjobs -W`."""
    return f"{_local(at, zone):%m/%d-%H:%M:%S}"


def packed_cpu(seconds: float) -> str:
    """`000:03:03.60`, the CPU time of `bjobs -W`."""
    hundredths = round(seconds * 100)
    minutes, hundredths = divmod(hundredths, 6000)
    return f"{minutes // 60:03d}:{minutes % 60:02d}:{hundredths // 100:02d}.{hundredths % 100:02d}"


def hms(seconds: float) -> str:
    """`00:03:04`, rounded up to the second, as option -hms prints durations."""
    whole = int(-(-seconds // 1))
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def hours_minutes(seconds: float) -> str:
    """`1:05`; less than a minute is `0:0`. Source: bjobs(1), option -WL."""
    minutes = int(seconds // 60)
    return f"{minutes // 60}:{minutes % 60}"
