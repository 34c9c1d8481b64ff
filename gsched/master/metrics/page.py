"""The page of /metrics: made when somebody asks, in a thread of its own, and given to all who ask within a second.

However often it is asked for, the work is bounded by its pace (see `pace`): of a large cluster the page that is given
may be some seconds old, and says so itself (gsched_page_timestamp_seconds).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import exposition
from prometheus_client.core import CollectorRegistry, Metric, Sample
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from gsched.base.errors import Unavailable
from gsched.master.metrics.pace import Pace

log = logging.getLogger(__name__)

FRESH_S = 1.0
"""A page is given out for so long before another one is made."""
WAIT_S = 3.0
"""How long somebody waits for a new page where there is an old one."""
FIRST_WAIT_S = 60.0


class Form(StrEnum):
    """In which text format, by its content type."""

    OPENMETRICS = openmetrics.CONTENT_TYPE_LATEST
    TEXT = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class _Made:
    text: bytes
    at: float


class Page:
    """`collect` makes the families, resting by the given pace."""

    def __init__(
        self,
        collect: Callable[[Pace], Iterable[Metric]],
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collect = collect
        self._pace = pace or Pace()
        self._clock = clock
        self._pages: dict[Form, _Made] = {}
        self._wanted: list[Form] = []
        self._failure = ""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def text(self, form: Form) -> bytes:
        """The page; from any thread, which may wait. Raises Unavailable when none can be made."""
        with self._changed:
            old = self._pages.get(form)
            if old is not None and self._clock() - old.at < FRESH_S:
                return old.text
            self._failure = ""
            if form not in self._wanted:
                self._wanted.append(form)
            self._begin()
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._failure or self._pages.get(form) is not old, WAIT_S if old is not None else FIRST_WAIT_S
            )
            made = self._pages.get(form)
            if made is None or (made is old and self._failure):
                raise Unavailable(self._failure or "the page of metrics is not ready yet")
            return made.text

    def _begin(self) -> None:
        """The thread is there from the first question on: who has no use for metrics has no thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="metrics", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted)
                form = self._wanted[0]
            made, failure = None, ""
            try:
                made = _Made(render(self._collect(self._pace), form, self._pace), self._clock())
            except Exception as error:  # whatever it is: the master goes on, and so does this thread
                log.exception("the page of metrics cannot be made")
                failure = f"the page of metrics cannot be made: {error!r}; the master's log says more"
            with self._changed:
                self._wanted.remove(form)
                self._failure = failure
                if made is not None:
                    self._pages[form] = made
                self._changed.notify_all()


class _Rested(list[Sample]):
    """Series that are rendered with rests between them; none is made before it is wanted."""

    def __init__(self, samples: Iterable[Sample], pace: Pace) -> None:
        super().__init__()
        self._samples = samples
        self._pace = pace

    def __iter__(self) -> Iterator[Sample]:
        return self._pace.through(self._samples)


class _Families(Collector):
    def __init__(self, families: Iterable[Metric], pace: Pace) -> None:
        self._families = families
        self._pace = pace

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            family.samples = _Rested(family.samples, self._pace)
            yield family


class _OnePage(CollectorRegistry):
    """A registry for one page: it is not asked for its names beforehand."""

    def __init__(self, families: _Families) -> None:
        super().__init__()
        self._given = families

    def collect(self) -> Iterator[Metric]:
        return self._given.collect()


def render(families: Iterable[Metric], form: Form, pace: Pace) -> bytes:
    """The families as a text; prometheus_client escapes what stands in labels."""
    registry = _OnePage(_Families(families, pace))
    # All names are plain ones already: to have them looked at letter by letter takes most of the time.
    if form is Form.OPENMETRICS:
        text: bytes = openmetrics.generate_latest(  # type: ignore[no-untyped-call] # it has no annotations
            registry, escaping=openmetrics.ALLOWUTF8
        )
        return text
    return exposition.generate_latest(registry, escaping=openmetrics.ALLOWUTF8)
