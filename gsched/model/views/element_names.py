"""Patterns for names of jobs that name elements of an array, `train[3,5-7]`. It knows no job."""

from __future__ import annotations

import re

from gsched.base.errors import BadRequest
from gsched.base.indices import Indices, parse_indices

_WITH_INDICES = re.compile(r"(.*)\[([0-9 ,:-]+)\]", re.DOTALL)
_LARGEST = 2**31 - 1


def split_name(pattern: str) -> tuple[Indices | None, str]:
    """`train[3,5-7]` as its indices and the array's name; None with the pattern as it is if it names no elements."""
    found = _WITH_INDICES.fullmatch(pattern)
    if found is None:
        return None, pattern
    try:
        return parse_indices(found[2], _LARGEST), found[1] or "*"
    except BadRequest:
        return None, pattern
