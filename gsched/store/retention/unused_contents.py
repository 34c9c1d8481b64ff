"""Scripts, environments and other blobs that belong to removed jobs alone, and the dictionaries of such blobs, go too.

A slice at a time, each in a transaction of its own: whoever is killed leaves a store that is whole. They go a day after
their jobs at the earliest, for an archive may be written of what was there. It must never take away a blob that an
event names, nor a dictionary that a blob has, or that a blob which is about to be written may have.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Integer, delete, func, literal_column, select

from gsched.store.backends.backend import Backend
from gsched.store.backends.reading import reading
from gsched.store.packing.packed_blobs import HEAD_BYTES, dictionary_of
from gsched.store.packing.row_packing import RowPacking
from gsched.store.retention.blob_uses import UnusedBlobs, is_any_released, note_uses, remove_blobs, unused_blobs
from gsched.store.tables.schema import blob, dictionary

DAYS_LATER = 2
"""A blob goes so many days after its last job, as the days of UTC begin: after one day at the least."""
MOST_BYTES = 4 << 20
"""Of the blobs that go at a time."""
MOST_READ_BYTES = 1 << 19
"""Of the rows of events that are noted at a time, each of which may be some MB."""
EVENTS_EACH = 4
"""Events that are noted in place of a blob that is looked at: they take as long."""


class RemovedContents(NamedTuple):
    """What one slice has done."""

    blobs: int
    are_more: bool
    """Whether there is more to do."""


@dataclass(slots=True)
class _DictionaryLook:
    """A look through all blobs for the dictionaries that they have."""

    numbers: set[int]
    """Those that may go, but for those that are found."""
    after: Any = None
    found: set[int] = field(default_factory=set)


class UnusedContents:
    """Of one open store. `today` gives the day since 1970. Raises StoreFull, StoreBroken, and what a backend says of
    reads that fail.
    """

    def __init__(
        self, backend: Backend, mutex: threading.Lock, today: Callable[[], int], packing: Callable[[], RowPacking]
    ) -> None:
        self._backend = backend
        self._mutex = mutex
        self._today = today
        self._packing = packing
        self._look: _DictionaryLook | None = None

    def are_due(self) -> bool:
        """Whether there is something to look at for `remove_unused`."""
        with reading(self._backend) as connection:
            return is_any_released(connection, self._today() - DAYS_LATER)

    def remove_unused(self, most: int, held: Collection[str]) -> RemovedContents:
        """Look at up to `most` blobs whose jobs are gone, and take away those that no event names; as long as it is not
        noted what all events name, note some instead. `held`: somebody else names these.
        """
        day, done = self._today(), RemovedContents(0, are_more=True)

        def write(connection: Connection) -> None:
            nonlocal done
            if not is_any_released(connection, day - DAYS_LATER):
                done = RemovedContents(0, are_more=False)
                return
            if not note_uses(connection, EVENTS_EACH * most, MOST_READ_BYTES):
                return
            found: UnusedBlobs = unused_blobs(connection, day - DAYS_LATER, most, MOST_BYTES, held)
            remove_blobs(connection, found, held, day)
            done = RemovedContents(len(found.names), bool(found.looked_at))

        with self._mutex:
            self._backend.transact(write)
        return done

    def remove_dictionaries(self, most: int) -> bool:
        """Look at the next `most` blobs for the dictionaries that they have; when all have been seen, take away those
        that none has. Says whether there is more to do. Those that may be used next stay.
        """
        if self._look is None:
            self._look = self._begin_look()
        look = self._look
        rows = self._next_blobs(look.after, most) if look.numbers else []
        for place, head in rows:
            look.after = place
            look.found.add(dictionary_of(bytes(head or b"")))
        if rows:
            return True
        self._look = None
        self._drop(look.numbers - look.found)
        return False

    def _begin_look(self) -> _DictionaryLook:
        with self._mutex, reading(self._backend) as connection:
            numbers: set[int] = set(connection.scalars(select(dictionary.c.number)))
            return _DictionaryLook(self._packing().unused_among(numbers))

    def _next_blobs(self, after: Any, most: int) -> list[Any]:
        """(place, first bytes) of rows behind a place, as they lie in the database where it can be told."""
        with reading(self._backend) as connection:
            is_file = connection.dialect.name == "sqlite"
            place: ColumnElement[Any] = literal_column("rowid", Integer) if is_file else blob.c.id
            query = select(place, func.substr(blob.c.data, 1, HEAD_BYTES)).select_from(blob).order_by(place).limit(most)
            return list(connection.execute(query if after is None else query.where(place > after)))

    def _drop(self, numbers: set[int]) -> None:
        if not numbers:
            return

        def write(connection: Connection) -> None:
            for number in sorted(numbers):
                connection.execute(delete(dictionary).where(dictionary.c.number == number))

        with self._mutex:
            self._backend.transact(write)
            self._packing().dictionaries_removed(len(numbers))
