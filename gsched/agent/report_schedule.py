"""At which moments a host reports, so that the hosts of a fleet do not report all at once.

They all say hello together when their master begins, and would report together from then on: whoever asks something in
that second waits behind a thousand reports. So each has a moment of its own in each interval of the wall clock, by its
name alone; nobody has to agree on anything. Moments are a tenth of a second apart: a few hosts whose clocks are right
share one, for a report that wakes the master by itself costs twice as much. Nothing here waits, or knows what is
reported.
"""

from __future__ import annotations

import math
import zlib

APART_S = 0.1


def rest_s(host: str, what: str, interval_s: float, now: float) -> float:
    """Seconds from `now` (UTC seconds) until the host's next moment for a report of this kind.

    More than 0 and hardly more than the interval, however the clock is set: a moment that is all but now is over.
    """
    rest = interval_s - (now - _moment_s(host, what, interval_s)) % interval_s
    return rest if rest >= min(APART_S, interval_s) / 2 else rest + interval_s


def turn_of(host: str, what: str, interval_s: float, now: float) -> int:
    """Number of the host's interval for reports of this kind that `now` is in: it begins with its moment."""
    return math.floor((now - _moment_s(host, what, interval_s)) / interval_s)


def _moment_s(host: str, what: str, interval_s: float) -> float:
    moments = max(1, int(interval_s / APART_S))
    return zlib.crc32(f"{what} of {host}".encode(errors="surrogateescape")) % moments * APART_S
