"""Jobs that an archive has leave the store, because an administrator asked for it: slice by slice, below a floor.

Who asks waits for the answer. It never takes away what the store does not give (gsched.store.retention says what that
is), and raises the floor no further than what is to go needs: looks at the past begin there.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import time
from collections.abc import Callable, Generator, Iterator
from itertools import islice

from gsched.base.errors import Conflict, GschedError, Internal
from gsched.base.moments import shown_utc
from gsched.master.upkeep.history_retention import PARTS_AT_ONCE
from gsched.master.upkeep.slices import EVENTS_EACH, PAUSE_S, SliceSize
from gsched.model.views.archive_question import ArchivedJobs, ArchivedPart, RemovedArchived
from gsched.store.eventlog import EventLog
from gsched.store.safeguards.failure import StoreBroken

log = logging.getLogger(__name__)
WAIT_S = 40.0
"""How long who asks waits at the most for checkpoints, and for events to be stored: no longer than its call lasts."""
NOTED_S = 3600.0
"""For so long it is not noted again that the same person takes out the same part."""
CHECKPOINTS = 2
"""The newest one is never the floor: so many more are enough, as something happens in between."""


_Answer = Callable[[RemovedArchived | None, GschedError | None], None]


def check_store(store: EventLog, part: ArchivedPart) -> None:
    """Raise Conflict where numbers of events would mean others than in the archive."""
    if (store.cluster_id, store.generation) != (part.cluster_id, part.generation):
        raise Conflict("the archive is of another store, or of another generation of this one: nothing was removed")


def remove_at_once(store: EventLog, wanted: ArchivedJobs) -> RemovedArchived:
    """Where no master has the store, and nobody waits. Raises Conflict, StoreFull, StoreBroken."""
    check_store(store, wanted.part)
    raising = raising_floor(store, wanted.part.last_seq)
    while True:
        try:
            next(raising)
        except StopIteration as over:
            return RemovedArchived(sum(_slices(store, wanted, SliceSize())), over.value)


def raising_floor(store: EventLog, above: int) -> Generator[None, None, bool]:
    """Raise it to the oldest whole checkpoint above that event, some parts of one at a time; whether it is."""
    if store.removal.floor().seq > above:
        return True
    for seq in store.removal.floors_above(above):
        is_whole = True
        for number, is_part_whole in enumerate(store.removal.looked_through(seq), 1):
            is_whole = is_whole and is_part_whole
            if number % PARTS_AT_ONCE == 0:
                yield
        with contextlib.suppress(Conflict):  # another one may have superseded it meanwhile
            if is_whole:
                floor = store.removal.raise_floor(seq)
                log.info("all is kept from event %d of %s on", floor.seq, shown_utc(floor.at))
                return True
    return False


def _slices(store: EventLog, wanted: ArchivedJobs, size: SliceSize) -> Iterator[int]:
    """Yields how many more of them the store has no more after each slice."""
    part, left = wanted.part, iter(wanted.events.items())
    while some := dict(islice(left, size.now)):
        are_more = True
        while are_more:
            with size.timed():
                gone, are_more = store.removal.remove_archived_jobs(
                    some, part.until, part.last_event, EVENTS_EACH * size.now
                )
            yield 0 if are_more else gone


class ArchivedRemovals:
    """One request after another; all but `put` in the engine's thread. Times are UTC seconds.

    `note(by, part)` has the event stored soon that the jobs of a part begin to go: once for each part, and where all
    that happens is that somebody asks, for there is no other checkpoint without an event.
    """

    def __init__(self, store: EventLog, note: Callable[[str, str], None]) -> None:
        self._store = store
        self._note = note
        self._noted: tuple[str, str, float] = ("", "", 0.0)
        """By whom and of which part it was noted last, and when, on the monotonic clock."""
        self._asked: queue.SimpleQueue[tuple[ArchivedJobs, str, _Answer]] = queue.SimpleQueue()
        self._reply: _Answer | None = None
        self._work: Generator[None, None, RemovedArchived] | None = None
        self._size = SliceSize()
        self._due = 0.0
        self.wants_checkpoint = False
        """There is none that could be the floor."""

    def put(self, wanted: ArchivedJobs, by: str, reply: _Answer) -> None:
        """Any thread; `by`: the user who asks. `reply` is called once, from the engine's thread."""
        self._asked.put((wanted, by, reply))

    def due_at(self, now: float) -> float:
        """When the next slice is to be done."""
        if self._work is None and self._asked.empty():
            return float("inf")
        return self._due if now < self._due <= now + PAUSE_S else now  # the clock may have been set back

    def step(self, now: float) -> None:
        """Do a slice, if it is time. Raises StoreBroken."""
        if self.due_at(now) > now:
            return
        self._due = now + PAUSE_S
        if self._work is None:
            wanted, by, self._reply = self._asked.get_nowait()
            self._work = self._removing(wanted, by)
        try:
            next(self._work)
        except StopIteration as over:
            self._answer(over.value, None)
        except GschedError as error:
            self._answer(None, error)
            if isinstance(error, StoreBroken):
                raise
        except Exception as error:  # the engine's thread must not end for it
            log.exception("jobs of an archive were not removed: an unexpected error")
            self._answer(None, Internal(f"jobs of the archive were not removed: {error}"))

    def _answer(self, removed: RemovedArchived | None, error: GschedError | None) -> None:
        reply, self._reply, self._work = self._reply, None, None
        assert reply is not None
        reply(removed, error)

    def _removing(self, wanted: ArchivedJobs, by: str) -> Generator[None, None, RemovedArchived]:
        part, until = wanted.part, time.monotonic() + WAIT_S
        if self._noted[:2] != (by, part.name) or time.monotonic() - self._noted[2] > NOTED_S:
            yield from self._noting(by, part.name, until)
        is_above = yield from raising_floor(self._store, part.last_seq)
        for _ in range(CHECKPOINTS):
            if is_above:
                break
            if self._store.newest_checkpoint() >= self._store.last_seq:
                yield from self._noting(by, part.name, until)  # else another checkpoint would be the same
            yield from self._checkpoint(until)
            is_above = yield from raising_floor(self._store, part.last_seq)
        gone = 0
        for count in _slices(self._store, wanted, self._size):
            gone += count
            yield
        return RemovedArchived(gone, is_above)

    def _noting(self, by: str, part: str, until: float) -> Iterator[None]:
        self._noted = (by, part, time.monotonic())
        before = self._store.last_seq
        self._note(by, part)
        yield from _waiting(lambda: self._store.last_seq > before, until)

    def _checkpoint(self, until: float) -> Iterator[None]:
        newest = self._store.newest_checkpoint()
        self.wants_checkpoint = True
        yield from _waiting(lambda: self._store.newest_checkpoint() != newest, until)


def _waiting(is_so: Callable[[], bool], until: float) -> Iterator[None]:
    """Yields until then, or until that time on the monotonic clock."""
    while not is_so() and time.monotonic() < until:
        yield
