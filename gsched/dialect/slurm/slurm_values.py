"""Values as Slurm's manuals write them: times, moments, sizes, counts, job ids.

Source: sbatch(1), squeue(1), scontrol(1) of Slurm 22.05.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo

from gsched.base.errors import BadRequest
from gsched.base.ids import index_of

_UNLIMITED = ("unlimited", "infinite", "-1")
_SIZES = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0 * 1024}
_RELATIVE = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 7 * 86_400}
_MOMENTS = {"midnight": (0, 0), "noon": (12, 0), "fika": (15, 0), "teatime": (16, 0)}
_FORMS = (
    *("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"),
    *("%m/%d/%y", "%m/%d/%y-%H:%M:%S", "%m/%d/%y-%H:%M", "%m%d%y"),
)


def parse_duration(text: str) -> int | None:
    """Seconds of `MINUTES[:SECONDS]`, `HOURS:MINUTES:SECONDS` or `DAYS-HOURS[:MINUTES[:SECONDS]]`; None: unlimited.

    Raises BadRequest.
    """
    if text.lower() in _UNLIMITED:
        return None
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if len(parts) > 3 or not all(re.fullmatch("[0-9]{1,7}", part, re.ASCII) for part in [*parts, days or "0"]):
        raise BadRequest(
            f"Invalid time specification '{text[:40]}': MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, DAYS-HOURS, "
            "DAYS-HOURS:MINUTES and DAYS-HOURS:MINUTES:SECONDS are times"
        )
    numbers = [int(part) for part in parts]
    if dash or len(numbers) == 3:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
    else:
        hours, (minutes, seconds) = 0, [*numbers, 0][:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds or None


def show_duration(seconds: float) -> str:
    """`DAYS-HH:MM:SS`, `H:MM:SS` or `M:SS`, as squeue writes it."""
    minutes, second = divmod(int(max(0.0, seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def parse_moment(text: str, now: float, zone: tzinfo) -> float:
    """UTC seconds of `HH:MM[:SS]`, `now[+COUNT[UNIT]]`, `today`, `tomorrow`, `noon`, or a date with or without a time.

    Raises BadRequest.
    """
    today = datetime.fromtimestamp(now, zone)
    word = text.strip()
    lower = word.lower()
    relative = re.fullmatch(r"now(?:\+([0-9]{1,9})\s*([a-z]*))?", lower, re.ASCII)
    if relative is not None:
        unit = (relative[2] or "").rstrip("s") or "second"
        if unit in _RELATIVE:
            return now + int(relative[1] or 0) * _RELATIVE[unit]
    day = today.replace(hour=0, minute=0, second=0, microsecond=0)
    if lower in ("today", "tomorrow"):
        return (day + timedelta(days=lower == "tomorrow")).timestamp()
    clock = _MOMENTS.get(lower) or _clock(word)
    if clock is not None:
        at = day + timedelta(hours=clock[0], minutes=clock[1], seconds=[*clock, 0][2])
        return (at if at.timestamp() > now else at + timedelta(days=1)).timestamp()
    for form in _FORMS:
        try:
            return datetime.strptime(word, form).replace(tzinfo=zone).timestamp()
        except (ValueError, OverflowError):
            continue
    raise BadRequest(f"Invalid time specification '{text[:40]}': HH:MM[:SS], now+COUNTunit and YYYY-MM-DD[THH:MM[:SS]]")


def _clock(word: str) -> tuple[int, ...] | None:
    found = re.fullmatch(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?", word, re.ASCII)
    if found is None:
        return None
    numbers = tuple(int(part) for part in found.groups("0"))
    return numbers if numbers[0] < 24 and numbers[1] < 60 and numbers[2] < 60 else None


def parse_size_mib(text: str) -> float:
    """MiB of `SIZE[K|M|G|T]`; without a letter it counts MiB. Raises BadRequest."""
    found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([KMGT]?)B?", text, re.ASCII | re.IGNORECASE)
    if found is None:
        raise BadRequest(f"Invalid size '{text[:40]}': a number with K, M, G or T behind it, in megabytes without")
    return float(found[1]) * _SIZES[found[2].upper()]


def parse_count(text: str, least: int = 1) -> int:
    """A whole number. Raises BadRequest."""
    if not re.fullmatch("[0-9]{1,9}", text, re.ASCII) or int(text) < least:
        raise BadRequest(f"Invalid numeric value '{text[:40]}'")
    return int(text)


def parse_job(text: str) -> tuple[int, str | None]:
    """(number, index or list of indices or None) of `123`, `123_4`, `123_[1-3]`, and of the own number of an array's
    element, which jobs find in SLURM_JOB_ID. Raises BadRequest.
    """
    found = re.fullmatch(r"([0-9]{1,19})(?:_(?:\[([0-9,\-:]+)\]|([0-9]{1,10})))?", text, re.ASCII)
    if found is None or not 0 < int(found[1]) < 1 << 63 or (found[0] != found[1] and index_of(int(found[1]))):
        raise BadRequest(f"Invalid job id {text[:60]}")
    return int(found[1]), found[2] or found[3]
