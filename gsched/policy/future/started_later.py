"""Jobs that come after a planned one and have started since it was planned. It knows no hosts.

Who is planned for a time that nobody knows waits for those who run, and for who comes before it. If it waited for later
ones that nobody knows the end of, too, they could take turns beside it for ever.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable
from typing import NamedTuple


class StartedLater(NamedTuple):
    """Of one planned job, as a cycle sees it. A cycle serves jobs in order: what starts after it came to the planned
    job comes later.
    """

    jobs: frozenset[int] = frozenset()
    """Those that started in the cycles before."""
    mark: int = 0
    """So many had been placed in this cycle when it came to the planned job."""

    def has(self, job_id: int, turn: int | None) -> bool:
        """`turn`: how many had been placed before it in this cycle; None: it ran already."""
        return job_id in self.jobs if turn is None else turn >= self.mark

    def kept(self, placed: Iterable[tuple[int, int]], running: Container[int]) -> frozenset[int]:
        """The jobs for the next cycle. `placed`: (job, turn) of those that concern it; `running`: jobs that run on."""
        new = {job_id for job_id, turn in placed if turn >= self.mark}
        return frozenset({each for each in self.jobs if each in running} | new) if new else self.jobs


NOBODY = StartedLater(mark=sys.maxsize)


def of_all(found: Iterable[StartedLater]) -> StartedLater:
    """Those who come after any of several planned jobs."""
    several = list(found)
    if len(several) < 2:
        return several[0] if several else NOBODY
    return StartedLater(frozenset().union(*(each.jobs for each in several)), min(each.mark for each in several))
