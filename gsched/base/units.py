"""Sizes and durations as LSF writes them.

Sizes: `500`, `500MB`, `16G` (powers of 1024). Run limits: `[hours:]minutes`. Source: bsub(1), options -M and -W.
"""

from __future__ import annotations

import math

from gsched.base.errors import BadRequest

_POWERS = {"K": 0, "M": 1, "G": 2, "T": 3, "P": 4, "E": 5, "Z": 6}


def parse_mib(text: str, default_unit: str = "M") -> float:
    """MiB of a size such as `16G` or `500`; a bare number is in `default_unit`. Raises BadRequest."""
    number = text.strip().rstrip("BbKkMmGgTtPpEeZz")
    suffix = text.strip()[len(number) :].upper().removesuffix("B") or default_unit
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if suffix not in _POWERS or not 0 <= value < 1e18:
        raise BadRequest(f"'{text[:40]}' is not a size such as 500, 500MB or 16G")
    return float(value * 1024.0 ** (_POWERS[suffix] - 1))


def unit_letter(unit: str) -> str:
    """`M` of `MB` or `m`, a value of LSF_UNIT_FOR_LIMITS. Raises BadRequest."""
    letter = unit.strip().upper().removesuffix("B")
    if letter not in _POWERS:
        raise BadRequest(f"LSF_UNIT_FOR_LIMITS={unit}: this is none of {', '.join(each + 'B' for each in _POWERS)}")
    return letter


def from_mib(mib: float, unit: str) -> float:
    """The number that stands before `unit` (a letter, `K` to `Z`) for a size in MiB."""
    return mib / 1024.0 ** (_POWERS[unit] - 1)


def parse_limit_mib(text: str, unit: str) -> float:
    """MiB of a limit, rounded up to a whole number of `unit` (a letter), which a bare number has.

    Source: bsub(1), option -M; lsf.conf(5), LSF_UNIT_FOR_LIMITS. Raises BadRequest.
    """
    return math.ceil(from_mib(parse_mib(text, unit), unit)) * 1024.0 ** (_POWERS[unit] - 1)


def format_scaled_mib(value: float) -> str:
    """A size in the way load tables show it: `853M`, `37.6G`, `124.1G`, `1.2T`; at most six characters."""
    if value < 1024:
        return f"{value:.0f}M"
    for unit in ("G", "T", "P"):
        value /= 1024.0
        if value < 1024 or unit == "P":
            text = f"{value:.1f}"
            return f"{text.removesuffix('.0') if value < 1000 else format(value, '.0f')}{unit}"
    raise AssertionError("unreachable")


def parse_run_limit(text: str, what: str = "a run limit") -> int:
    """Seconds of a run limit `[hours:]minutes`; minutes may exceed 59. Raises BadRequest, which says `what` it is."""
    hours, colon, minutes = text.rpartition(":")
    parts = [hours, minutes] if colon else [minutes]
    if not all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts):
        raise BadRequest(f"'{text[:40]}' is not {what} of the form [hours:]minutes")
    seconds = (int(hours) * 60 if colon else 0) * 60 + int(minutes) * 60
    if seconds == 0:
        raise BadRequest(f"'{text[:40]}': {what} is at least one minute")
    return seconds
