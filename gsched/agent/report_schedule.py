"""At which moments a host reports, so that the hosts of a fleet do not report all at once.

They all say hello together when their master begins, and would report together from then on: whoever asks something in
that second waits behind a thousand reports. So each has a moment of its own in each interval of the wall clock, by its
name alone; nobody has to agree on anything. Moments are a tenth of a second apart: a few hosts whose clocks are right
share one, for a report that wakes the master by itself costs twice as much. The moment of an interval is also one of
each interval that is a part of it: what an agent does at several paces wakes it once. Nothing here waits, or knows what
is reported.
"""

from __future__ import annotations

import zlib

APART_S = 0.1


def rest_s(host: str, interval_s: float, now: float) -> float:
    """Seconds from `now` (UTC seconds) until the host's next moment in an interval of this length.

    More than 0 and hardly more than the interval, however the clock is set: a moment that is all but now is over.
    """
    rest = interval_s - (now - _moment_s(host, interval_s)) % interval_s
    return rest if rest >= min(APART_S, interval_s) / 2 else rest + interval_s


def _moment_s(host: str, interval_s: float) -> float:
    moments = max(1, int(interval_s / APART_S))
    return zlib.crc32(host.encode(errors="surrogateescape")) % moments * APART_S
