"""When may a waiting job use the next alternative of its requirement? `{..} || {..}@120`: after 120 seconds.

It reads nothing but the delays; the requirement itself is syntax's.
"""

from __future__ import annotations

import re
from functools import lru_cache

_DELAY = re.compile(r"\}\s*@\s*([0-9]{1,9})")


@lru_cache(maxsize=4096)
def delays_of(text: str) -> tuple[int, ...]:
    """The delays of a combined requirement's alternatives in seconds, ascending, each once."""
    if "@" not in text:
        return ()
    return tuple(sorted({int(found) for found in _DELAY.findall(text)} - {0}))


def next_delay(text: str, waited_s: float) -> float | None:
    """The first delay beyond `waited_s`, in seconds after submission; None when there is none."""
    return next((float(delay) for delay in delays_of(text) if delay > waited_s), None)
