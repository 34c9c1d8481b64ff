"""Reports that nothing waits for go to the engine together with those of other hosts, a few times a second.

Nothing overtakes: whatever else an agent says has the reports before it handed over first. Belongs to the event loop's
thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gsched.master.engine_thread import InboxItem

GATHER_S = 0.25
"""How long a report may wait for others, in seconds."""


class ReportGathering:
    """`put(item)` takes what the engine is to do; it never blocks."""

    def __init__(self, put: Callable[[InboxItem], None]) -> None:
        self._put = put
        self._gathered: list[InboxItem] = []
        self._due: asyncio.TimerHandle | None = None

    def add(self, item: InboxItem) -> None:
        """What can wait."""
        self._gathered.append(item)
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(GATHER_S, self.hand_over)

    def hand_over(self) -> None:
        """All that has been gathered, in the order in which it came."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        gathered, self._gathered = self._gathered, []
        for item in gathered:
            self._put(item)
