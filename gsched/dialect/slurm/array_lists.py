"""--array of sbatch: `0-15:4%2`, whose indices may begin with 0, as a list of gsched's, which begin with 1.

Source: sbatch(1) of Slurm 22.05.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.base.indices import parse_indices

MAX_INDEX = 2_147_483_645
_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10})(?::([0-9]{1,10}))?)?", re.ASCII)
_ARRAY = re.compile(r"(?P<list>[^%]*)(?:%(?P<limit>[0-9]{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ArrayList:
    """An array: its indices as gsched keeps them, how many run at a time (0: any), and how far they are shifted."""

    indices: str
    limit: int
    shift: int
    """Of Slurm's index to ours: 1 where the list names 0."""


def parse_array(text: str) -> ArrayList:
    """Raises BadRequest."""
    found = _ARRAY.fullmatch(text.replace(" ", ""))
    if found is None or not found["list"]:
        raise BadRequest(f"Invalid job array specification '{text[:60]}'")
    limit = int(found["limit"] or 0)
    if found["limit"] is not None and not limit:
        raise BadRequest(f"Invalid job array specification '{text[:60]}': %0 would start none")
    indices, shift = shifted(found["list"])
    return ArrayList(str(parse_indices(indices, MAX_INDEX + shift)), limit, shift)


def shifted(text: str, shift: int | None = None) -> tuple[str, int]:
    """The list with each index larger by `shift` (None: 1 where the list names 0, else 0), and the shift.

    Raises BadRequest.
    """
    ranges = [_RANGE.fullmatch(part) for part in text.split(",")]
    if not all(ranges):
        raise BadRequest(f"Invalid job array specification '{text[:60]}'")
    parts = [(int(each[1]), int(each[2]) if each[2] else None, each[3]) for each in ranges if each is not None]
    by = int(any(first == 0 for first, _, _ in parts)) if shift is None else shift
    shown = [
        str(first + by) if last is None else f"{first + by}-{last + by}" + (f":{step}" if step else "")
        for first, last, step in parts
    ]
    return ",".join(shown), by
