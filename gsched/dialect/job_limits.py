"""bsub's limits of one job: which option sets which of LSF's limits, and in what unit its value is kept.

Source: bsub(1), options -c -M -v -p -T -F -D -S -C; lsf.conf(5), LSF_UNIT_FOR_LIMITS.
"""

from __future__ import annotations

import math
import re

from gsched.base.errors import BadRequest
from gsched.base.units import parse_limit_mib, parse_mib, parse_run_limit, unit_letter

SIZES_MIB = {"M": "MEMLIMIT", "v": "SWAPLIMIT"}
SIZES_KIB = {"F": "FILELIMIT", "D": "DATALIMIT", "S": "STACKLIMIT", "C": "CORELIMIT"}
COUNTS = {"p": "PROCESSLIMIT", "T": "THREADLIMIT"}
LIMITS = {"c": "CPULIMIT", **SIZES_MIB, **SIZES_KIB, **COUNTS}
"""Option -> name of the limit."""
_MOST_COUNT_DIGITS = 9
_NO_TIME = re.compile(r"0+(:0+)?")


def read_limit(option: str, text: str, unit: str) -> float:
    """The limit's value in the unit of JobSpec.limits. `unit` (`MB`) is that of a size without one.

    Memory and swap are rounded up to whole numbers of `unit`, as LSF does it, other sizes to whole KiB.
    Raises BadRequest.
    """
    if option in COUNTS:
        return float(_count(option, text))
    if option not in SIZES_MIB and option not in SIZES_KIB:
        return float(_cpu_seconds(text))
    size = text.strip()
    if option == "M":
        size = size.removesuffix("!")  # LSF's mark of a limit that kills at once, which a memory limit always does here
    letter = unit_letter(unit)
    try:
        if option in SIZES_MIB:
            value = parse_limit_mib(size, letter)
        else:
            value = math.ceil(parse_mib(size, letter) * 1024)
    except BadRequest as error:
        raise BadRequest(f"-{option}: {error.text}") from None
    if value == 0 and option != "C":
        raise BadRequest(f"-{option}: '{text[:40]}': a limit is more than 0")
    return float(value)


def read_minutes(text: str, what: str = "a run limit") -> tuple[int, bool]:
    """Seconds of `[hours:]minutes`, 0 among them, and whether a fraction of a minute was rounded up. Raises BadRequest.

    LSF knows whole minutes only; templates of clients divide seconds by 60 and write what comes out.
    """
    hours, colon, minutes = text.strip().rpartition(":")
    whole, point, fraction = minutes.partition(".")
    has_fraction = bool(point) and fraction.isascii() and fraction.isdigit() and whole.isascii() and whole.isdigit()
    is_rounded = has_fraction and int(fraction) > 0
    if is_rounded:
        whole = str(int(whole) + 1)
    shown = f"{hours}{colon}{whole if has_fraction else minutes}"
    if _NO_TIME.fullmatch(shown):
        return 0, is_rounded
    return parse_run_limit(shown, what), is_rounded


def _count(option: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_COUNT_DIGITS and int(text)):
        raise BadRequest(f"-{option}: '{text[:40]}' is not a number of at least 1")
    return int(text)


def _cpu_seconds(text: str) -> int:
    try:
        return parse_run_limit(text)
    except BadRequest:
        raise BadRequest(f"Bad CPU limit specification: -c '{text[:40]}' is not of the form [hours:]minutes") from None
