"""Values as Slurm's manuals write them: durations, sizes, counts, job ids, variables.

Source: sbatch(1), squeue(1), scontrol(1) of Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gsched.base.errors import BadRequest
from gsched.base.ids import index_of

_UNLIMITED = ("unlimited", "infinite", "-1")
_SIZES = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0 * 1024}


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


def named_variables(place: str, items: Iterable[str], env: Mapping[str, str]) -> dict[str, str]:
    """The variables that the items of --export name: NAME=VALUE, or NAME for that of `env`.

    Raises BadRequest that begins with `place`, where the option was given.
    """
    found: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if item in ("ALL", "NONE", "NIL"):
            continue
        if not name or any(char.isspace() for char in name):
            raise BadRequest(f"{place}: '{item[:40]}' is not NAME or NAME=VALUE")
        if equals:
            found[name] = value
        elif name in env:
            found[name] = env[name]
    return found
