"""Which jobs a job waits for, read from its conditions: kept with each row, so that graphs cost no question."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from gsched.base.ids import element_id

MOST_AWAITED = 100
_CONDITION = re.compile(r"([a-z_]+)\(([0-9]{1,12})(?:\[([0-9]{1,12}|\*)\])?")
"""A condition with its job, as the master shows it: `done(5)`, `exit(5[3], > 2)`, `ended(5[*])`."""


class Awaited(msgspec.Struct, frozen=True, gc=False):
    """What a condition says of a job or array: `done` 17."""

    kind: str
    number: int


@lru_cache(maxsize=4096)
def awaited_by(conditions: str) -> tuple[Awaited, ...]:
    """What a job with these (resolved) conditions waits for, each once; jobs with the same share the answer."""
    found = (
        Awaited(kind, element_id(int(number), int(index)) if index and index != "*" else int(number))
        for kind, number, index in _CONDITION.findall(conditions)
    )
    return tuple(dict.fromkeys(found))[:MOST_AWAITED]
