"""Exit codes after which a job waits again: `30 EXCLUDE(20)`, `all ~0 ~1`.

The texts were checked when they came in; what cannot be read here names no code. Source: lsb.queues(5),
REQUEUE_EXIT_VALUES, and bsub(1), option -Q.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_EXCLUDE = re.compile(r"\bEXCLUDE\s*\(([^()]*)\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RequeueValues:
    """`codes`: the job is requeued; `elsewhere`: requeued, and never again on the same host."""

    codes: frozenset[int] = frozenset()
    elsewhere: frozenset[int] = frozenset()


@lru_cache(maxsize=1024)
def requeue_values(text: str) -> RequeueValues:
    """The codes of a text; an empty one has none."""
    inside = " ".join(_EXCLUDE.findall(text))
    return RequeueValues(_codes(_EXCLUDE.sub(" ", text)), _codes(inside))


def _codes(text: str) -> frozenset[int]:
    words = text.split()
    if words and words[0].casefold() == "all":
        return frozenset(range(256)) - {int(word[1:]) for word in words[1:] if word[1:].isdecimal()}
    return frozenset(int(word) for word in words if word.isdecimal())
