"""RETRY of a queue: after which failures a job waits again by itself, how often, and where it does not run again.

    RETRY = CLASS:TIMES[@other_host] ...

The classes are those of gsched.model.jobs.failure, without those that somebody has brought about: what a person, a
limit or the system has ended is not run again. Texts are checked (`fault_in`) where they come in; what cannot be read
afterwards names no class.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from gsched.model.jobs.failure import FailureClass

ELSEWHERE = "other_host"
MOST_TIMES = 1000
NEVER = (FailureClass.KILLED, FailureClass.LIMIT, FailureClass.SYSTEM)
"""Not after these."""
_RULE = re.compile(r"([^:@]*)(?::([^@]*))?(?:@(.*))?", re.DOTALL)


class RetryRule(NamedTuple):
    """`times`: so often in the life of a job. `elsewhere`: never again on the host where it has failed."""

    times: int
    elsewhere: bool = False


@lru_cache(maxsize=1024)
def retry_rules(text: str) -> Mapping[str, RetryRule]:
    """Class -> rule; an empty text has none."""
    found = {}
    for word in text.split():
        kind, times, where = _parts(word)
        if times.isdecimal():
            found[kind] = RetryRule(int(times), where == ELSEWHERE)
    return MappingProxyType(found)


def _parts(word: str) -> tuple[str, str, str | None]:
    match = _RULE.fullmatch(word)
    assert match is not None
    return match[1], match[2] or "", match[3]


class RetryFault(NamedTuple):
    """What is wrong with a word: `quoted`, then `complaint` as it follows the quotation."""

    quoted: str
    complaint: str


def fault_in(text: str) -> RetryFault | None:
    """What keeps the text from being of that form; None when nothing does."""
    words, seen = text.split(), set[str]()
    if not words:
        return RetryFault(text, " names no class of failure")
    for word in words:
        kind, times, where = _parts(word)
        complaint = _complaint(kind, times, where) or (f": {kind} is named twice" if kind in seen else "")
        if complaint:
            return RetryFault(word, complaint)
        seen.add(kind)
    return None


def _complaint(kind: str, times: str, where: str | None) -> str:
    if kind in NEVER:
        return f": a job of the class {kind} was ended on purpose and is not run again"
    if kind not in set(FailureClass):
        known = " ".join(each for each in FailureClass if each not in NEVER)
        return f": there is no class {kind[:40]!r}; there are {known}"
    if not re.fullmatch(r"[0-9]{1,4}", times) or not 1 <= int(times) <= MOST_TIMES:
        return f": CLASS:TIMES is wanted, with a number from 1 to {MOST_TIMES}"
    return "" if where in (None, ELSEWHERE) else f": behind @ only {ELSEWHERE} may stand"
