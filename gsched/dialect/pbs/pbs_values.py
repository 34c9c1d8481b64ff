"""Values as PBS's manuals write them: durations, moments, sizes, counts, job ids, lists of attributes, names of files.

Source: qsub(1B), qalter(1B), pbs_resources(7B) of OpenPBS 23.
"""

from __future__ import annotations

import math
import posixpath
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from gsched.base.errors import BadRequest
from gsched.dialect.times import within_years

_SIZES_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
WORD_BYTES = 8
_DURATION = re.compile(r"(?:(?:([0-9]{1,7}):)?([0-9]{1,7}):)?([0-9]{1,9})(?:\.[0-9]{1,9})?", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,15})([kmgtp]?)([bw]?)", re.ASCII | re.IGNORECASE)
_MOMENT = re.compile(r"([0-9]{4}|[0-9]{6}|[0-9]{8}|[0-9]{10}|[0-9]{12})(?:\.([0-9]{2}))?", re.ASCII)
_JOB = re.compile(r"([0-9]{1,10})(?:\[([0-9,\-:]*)\])?(?:\.([A-Za-z0-9_.\-]+))?(?:@[A-Za-z0-9_.\-]+)?", re.ASCII)
_NUMBERS_END = 1 << 32


def parse_duration(text: str) -> int:
    """Seconds of `[[HOURS:]MINUTES:]SECONDS[.FRACTION]`. Raises BadRequest."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise BadRequest(f"'{text[:40]}' is no time: SECONDS, MINUTES:SECONDS and HOURS:MINUTES:SECONDS are")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return (hours * 60 + minutes) * 60 + seconds


def show_duration(seconds: float) -> str:
    """`HH:MM:SS`, as qstat writes it."""
    minutes, second = divmod(int(max(0.0, seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:02}:{minute:02}:{second:02}"


def parse_size_mib(text: str) -> int:
    """MiB, rounded up, of `SIZE[k|m|g|t|p][b|w]`: bytes without a letter, words of 8 bytes with `w`.

    Raises BadRequest.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise BadRequest(f"'{text[:40]}' is no size: a number with b, kb, mb, gb, tb or pb behind it is")
    unit = WORD_BYTES if found[3].lower() == "w" else 1
    return math.ceil(int(found[1]) * _SIZES_BYTES[found[2].lower()] * unit / (1 << 20))


def show_size(mib: float) -> str:
    """`512kb`, as qstat writes it."""
    return f"{math.ceil(mib * 1024)}kb"


def parse_moment(text: str, now: float, zone: tzinfo) -> float:
    """UTC seconds of `[[[[CC]YY]MM]DD]hhmm[.SS]`: without a day the next time that the clock shows it.

    Raises BadRequest.
    """
    found = _MOMENT.fullmatch(text.strip())
    today = datetime.fromtimestamp(now, zone)
    wrong = BadRequest(f"'{text[:40]}' is no time: [[[[CC]YY]MM]DD]hhmm[.SS] is")
    if found is None:
        raise wrong
    digits, seconds = found[1], int(found[2] or 0)
    hour, minute, rest = int(digits[-4:-2]), int(digits[-2:]), digits[:-4]
    try:
        at = today.replace(hour=hour, minute=minute, second=seconds, microsecond=0)
        if not rest:
            return (at if at.timestamp() > now else at + timedelta(days=1)).timestamp()
        at = at.replace(day=1)
        if len(rest) >= 6:
            century = rest[:-6] or str(today.year // 100)
            at = at.replace(year=int(century + rest[-6:-4]), month=int(rest[-4:-2]))
        elif len(rest) == 4:
            at = at.replace(month=int(rest[:2]))
        at = at.replace(day=int(rest[-2:]))
        if at.timestamp() <= now and len(rest) == 2:
            at = (at.replace(day=1) + timedelta(days=32)).replace(day=at.day)
        if at.timestamp() <= now and len(rest) == 4:
            at = at.replace(year=at.year + 1)
        return within_years(text, at.timestamp())
    except (ValueError, OverflowError):
        raise wrong from None


def parse_count(text: str, least: int = 1) -> int:
    """A whole number. Raises BadRequest."""
    if not re.fullmatch("[0-9]{1,9}", text, re.ASCII) or int(text) < least:
        raise BadRequest(f"'{text[:40]}' is no number of {least} or more")
    return int(text)


@dataclass(frozen=True, slots=True)
class PbsJobId:
    """`12.server`, `12[].server`, `12[3].server`, `12[1-5].server`."""

    number: int
    indices: str | None = None
    """Of elements as PBS's users count them; empty: the array as a whole; None: no brackets."""
    server: str = ""


def parse_job(text: str) -> PbsJobId:
    """Raises BadRequest."""
    found = _JOB.fullmatch(text.strip())
    if found is None or not 0 < int(found[1]) < _NUMBERS_END:
        raise BadRequest(f"illegally formed job identifier: {text[:60]}")
    return PbsJobId(int(found[1]), found[2], found[3] or "")


def show_job(number: int, index: int | None, server: str, *, is_array: bool = False) -> str:
    """`12.server`, of an element `12[3].server` (by PBS's index), of an array `12[].server`."""
    brackets = "[]" if is_array else "" if index is None else f"[{index}]"
    return f"{number}{brackets}.{server}"


def split_quoted(text: str, separator: str = ",") -> list[str]:
    """Parts between separators that stand in no quotes and behind no backslash; quotes are taken off.

    Raises BadRequest for an open quote.
    """
    parts: list[str] = [""]
    quote = ""
    left = iter(text)
    for char in left:
        if char == "\\" and quote != "'":
            parts[-1] += next(left, "\\")
        elif quote:
            if char == quote:
                quote = ""
            else:
                parts[-1] += char
        elif char in "\"'":
            quote = char
        elif char == separator:
            parts.append("")
        else:
            parts[-1] += char
    if quote:
        raise BadRequest(f"unmatched {quote}")
    return parts


def split_attributes(text: str) -> list[tuple[str, str]]:
    """(name, value) of `depend=afterok:1,afterany:2,block=true`: a value goes on to the next `,name=`.

    Raises BadRequest.
    """
    found: list[tuple[str, str]] = []
    for part in re.split(r",(?=\s*[A-Za-z_][A-Za-z0-9_]*\s*=)", text):
        name, equals, value = part.partition("=")
        if not name.strip() or not equals or not value.strip():
            raise BadRequest(f"'{part[:40]}' is not NAME=VALUE")
        found.append((name.strip(), value.strip()))
    return found


def default_name(letter: str, name: str, is_array: bool, shift: int) -> str:
    """Output file of a job that names none: `NAME.oNUMBER`, of an array's element `NAME.oNUMBER.INDEX`.

    `letter`: o or e.
    """
    index = (".%i" if shift else ".%I") if is_array else ""
    return f"{posixpath.basename(name)}.{letter}%J{index}"
