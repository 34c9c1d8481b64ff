"""Writes checkpoints beside everything else that the engine's thread does: a little in each of its turns.

First the state is written down in steps, then the parts go to the store one by one, then the row that names them, and
at last what no checkpoint needs any more is taken away. Until that row is there the checkpoints of before count.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from gsched.base.errors import GschedError
from gsched.core.state.checkpoint import Writing
from gsched.store.eventlog import EventLog

log = logging.getLogger(__name__)

JOBS_AT_A_TIME = 1_000
"""Jobs that are written down in one turn: some 5 ms."""
DROPPED_AT_A_TIME = 4


class CheckpointWriter:
    """One checkpoint after another; lives in the engine's thread. `begin` makes what writes the state down."""

    def __init__(self, store: EventLog, begin: Callable[[], Writing]) -> None:
        self._store = store
        self._begin = begin
        self._writing: Writing | None = None
        self._work: Iterator[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether there is more to do for the checkpoint that was begun."""
        return self._work is not None

    def start(self, closed: Callable[[], None]) -> None:
        """Begin one. `closed` is called when the state has been written down: what happens later is not in it."""
        if self._work is None:
            self._work = self._whole(closed)

    def note(self, numbers: Iterable[int]) -> None:
        """These jobs and arrays have changed."""
        if self._writing is not None:
            self._writing.note(numbers)

    def step(self) -> None:
        """Do a little of it; to be called when all that has happened is stored."""
        if self._work is None:
            return
        try:
            next(self._work)
        except StopIteration:
            self._work = None
        except GschedError as error:
            self._work = self._writing = None
            log.warning("no checkpoint was written: %s", error.text)

    def _whole(self, closed: Callable[[], None]) -> Iterator[None]:
        writing = self._writing = self._begin()
        while not writing.step(JOBS_AT_A_TIME):
            yield
        seq, parts = self._store.last_seq, writing.close()
        self._writing = None
        closed()
        yield
        names = []
        for part in parts:
            names.append(self._store.put_part(part))
            yield
        self._store.save_checkpoint_of(seq, names)
        yield
        while self._store.drop_parts(DROPPED_AT_A_TIME):
            yield
