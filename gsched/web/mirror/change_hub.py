"""Wakes open pages when something has changed that they show. A page that reads slowly costs no memory: it is told that
something has changed, never what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from gsched.base.ids import array_of

CLUSTER, JOBS = "cluster", "jobs"
"""What a page may watch, besides single jobs."""
SHORTEST_S = 1.0
"""Between two changes that a page is told of: what happens meanwhile is told together."""
PAGES_IN_A_SECOND = 40
"""So many open pages are told of changes in a second, all together; 200 of them every 5 s."""


class PageWatch:
    """One open page. `job_id` 0: it shows no single job."""

    def __init__(self, topic: str, job_id: int = 0) -> None:
        self.topic = topic
        self.job_id = job_id
        self.changed = asyncio.Event()


class ChangeHub:
    """All open pages, MOST_PAGES at most. Its methods are for the loop that serves them, but `tell`."""

    MOST_PAGES = 256

    def __init__(self) -> None:
        self._watches: set[PageWatch] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_closed = False

    def begin(self) -> None:
        """From here on the running loop serves pages."""
        self._loop = asyncio.get_running_loop()

    @property
    def rest_s(self) -> float:
        """How long an open page waits until it is told of the next change. Each asks for itself anew then, and many of
        them would take a processor from the master.
        """
        return max(SHORTEST_S, len(self._watches) / PAGES_IN_A_SECOND)

    @property
    def is_full(self) -> bool:
        """Whether no further page may stay open."""
        return len(self._watches) >= self.MOST_PAGES

    @contextmanager
    def watching(self, topic: str, job_id: int = 0) -> Iterator[PageWatch]:
        """A page that is open for as long as the block runs."""
        watch = PageWatch(topic, job_id)
        self._watches.add(watch)
        try:
            yield watch
        finally:
            self._watches.discard(watch)

    def tell(self, topic: str, job_ids: Collection[int] | None = None) -> None:
        """Something has changed; `job_ids` None: any job may have. From any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake, topic, job_ids)

    def close(self) -> None:
        """All pages are to end. From any thread."""
        self.is_closed = True
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake_all)

    def _wake(self, topic: str, job_ids: Collection[int] | None) -> None:
        for watch in self._watches:
            if _concerns(watch, topic, job_ids):
                watch.changed.set()

    def _wake_all(self) -> None:
        for watch in self._watches:
            watch.changed.set()


def _concerns(watch: PageWatch, topic: str, job_ids: Collection[int] | None) -> bool:
    if watch.job_id:
        return topic == JOBS and (job_ids is None or watch.job_id in job_ids or array_of(watch.job_id) in job_ids)
    return watch.topic == topic
