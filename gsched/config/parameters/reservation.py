"""RESERVATION of lsb.queues: for how many jobs that cannot start something is reserved. gsched's own parameter.

LSF's words for it are SLOT_RESERVE, RESOURCE_RESERVE and LSB_TIME_RESERVE_NUMJOBS.
"""

from __future__ import annotations

import re

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import show

CONSERVATIVE_JOBS = 16
"""`conservative` without a number."""
MOST_JOBS = 1000
_FORM = re.compile(r"(none|easy|conservative)(?:\s*\[\s*([0-9]{1,5})\s*\])?", re.IGNORECASE)


def reservation(text: str) -> int:
    """How many jobs: `none` 0, `easy` 1, `conservative` 16, `conservative[N]` N. Raises BadRequest."""
    found = _FORM.fullmatch(text)
    word = found[1].casefold() if found is not None else ""
    if found is None or (found[2] is not None and word != "conservative"):
        raise BadRequest(f"'{show(text)}' is not none, easy, conservative or conservative[NUMBER]")
    if word != "conservative":
        return 0 if word == "none" else 1
    jobs = CONSERVATIVE_JOBS if found[2] is None else int(found[2])
    if not 2 <= jobs <= MOST_JOBS:
        raise BadRequest(f"conservative[{jobs}]: the number must be from 2 to {MOST_JOBS}")
    return jobs


def reservation_text(jobs: int) -> str:
    """The RESERVATION of a queue as it is written in lsb.queues."""
    if jobs < 2:
        return "easy" if jobs else "none"
    return "conservative" if jobs == CONSERVATIVE_JOBS else f"conservative[{jobs}]"
