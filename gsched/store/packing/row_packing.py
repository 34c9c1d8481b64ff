"""What is packed at once, and what is packed later: a large submission is acknowledged before, not after.

Rows of an ordinary batch are packed before they are written. What is large in a large one is written as it is, and
packed a few rows at a time when its writer has nothing else to do. What waits for that is forgotten when the process
ends: those rows stay as they are, and are as good as any. It opens no transaction, and has one thread in it at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select

from gsched.model.event import AnyEvent, encode_event, kind_of
from gsched.store.packing.blob_packing import BlobPacking
from gsched.store.packing.packed_blobs import is_packed_blob
from gsched.store.packing.packed_events import is_packed_event, pack_event
from gsched.store.passing_blobs import is_passing
from gsched.store.tables.schema import blob, dictionary, event
from gsched.store.tables.statements import ADD_EVENTS, RowInsert, insert_new, insert_rows

LARGE_BATCH = 32
"""Events, or blobs, of a batch from which on it is a large one."""
LARGE_EVENT = 400
"""Bytes of an event of a large batch that is packed later."""
PIECE = 100
"""Rows that are packed later at a time: some milliseconds."""
ADD_BLOBS = insert_new(blob)
_ADD_DICTIONARY = RowInsert(dictionary, ("number", "words"))


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Of a batch."""

    events: list[tuple[Any, ...]]
    blobs: list[tuple[str, bytes]]
    dictionaries: list[tuple[int, bytes]]
    """Those that the blobs need and that are not stored yet."""
    events_left: list[int]
    """Numbers of events that are to be packed later."""
    blobs_left: list[str]

    def write(self, connection: Connection) -> None:
        """In the transaction that has been begun."""
        insert_rows(connection, _ADD_DICTIONARY, self.dictionaries)
        insert_rows(connection, ADD_BLOBS, self.blobs)
        insert_rows(connection, ADD_EVENTS, self.events)


@dataclass(frozen=True, slots=True)
class PackedPiece:
    """Rows that were left, packed: what takes their place."""

    taken: int
    events: list[tuple[Any, ...]]
    blobs: list[tuple[str, bytes]]
    dictionaries: list[tuple[int, bytes]]

    def write(self, connection: Connection) -> None:
        """In the transaction that has been begun. Rows are taken out and put in again: SQLite leaves the pages as they
        are of one that only becomes smaller.
        """
        insert_rows(connection, _ADD_DICTIONARY, self.dictionaries)
        connection.execute(delete(event).where(event.c.seq.in_([row[0] for row in self.events])))
        insert_rows(connection, ADD_EVENTS, self.events)
        connection.execute(delete(blob).where(blob.c.id.in_([row[0] for row in self.blobs])))
        insert_rows(connection, ADD_BLOBS, self.blobs)


class RowPacking:
    """Of one store. `stored`, `count`: see BlobPacking."""

    def __init__(self, stored: Iterable[tuple[int, bytes]], count: int = 0) -> None:
        self._blobs = BlobPacking(stored, count)
        self._left: deque[int | str] = deque()
        """Numbers of events and names of blobs."""

    @property
    def has_more(self) -> bool:
        """Whether rows wait to be packed."""
        return bool(self._left)

    def unused_among(self, numbers: Iterable[int]) -> set[int]:
        """Those of these dictionaries that nothing will be packed with any more."""
        return self._blobs.unused_among(numbers)

    def dictionaries_removed(self, count: int) -> None:
        """So many are not in the store any more."""
        self._blobs.removed(count)

    def rows_of(self, first_seq: int, events: Sequence[AnyEvent], blobs: Mapping[str, bytes]) -> BatchRows:
        """The rows of a batch whose events are numbered from `first_seq` on."""
        payloads = [encode_event(entry) for entry in events]
        size = LARGE_EVENT if len(events) > LARGE_BATCH else None
        left = {at for at, payload in enumerate(payloads) if len(payload) >= size} if size is not None else set()
        rows = [
            (
                first_seq + at,
                entry.at,
                kind_of(entry),
                getattr(entry, "job_id", None),
                payload if at in left else pack_event(payload),
            )
            for at, (entry, payload) in enumerate(zip(events, payloads, strict=True))
        ]
        is_large = len(blobs) > LARGE_BATCH
        return BatchRows(
            rows,
            [
                (name, data if is_large and not is_packed_blob(data) else self._packed(data))
                for name, data in blobs.items()
            ],
            self._blobs.unsaved,
            [first_seq + at for at in sorted(left)],
            list(blobs) if is_large else [],
        )

    def stored(self, rows: BatchRows) -> None:
        """The batch is in the store."""
        self._blobs.saved(rows.dictionaries)
        self._left.extend(rows.events_left)
        self._left.extend(rows.blobs_left)

    def next_piece(self, connection: Connection) -> PackedPiece:
        """Some of what was left."""
        keys = [self._left[at] for at in range(min(PIECE, len(self._left)))]
        numbers, names = [key for key in keys if isinstance(key, int)], [key for key in keys if isinstance(key, str)]
        columns = (event.c.seq, event.c.at, event.c.kind, event.c.job_id, event.c.payload)
        events: list[Any] = list(connection.execute(select(*columns).where(event.c.seq.in_(numbers))))
        blobs: list[Any] = list(connection.execute(select(blob.c.id, blob.c.data).where(blob.c.id.in_(names))))
        return PackedPiece(
            len(keys),
            [
                (*row, pack_event(payload))
                for *row, payload in events
                if isinstance(payload, bytes) and not is_packed_event(payload)
            ],
            [
                (name, self._packed(data))
                for name, data in blobs
                if isinstance(data, bytes) and not is_packed_blob(data)  # an earlier batch may have had it
            ],
            self._blobs.unsaved,
        )

    def done(self, piece: PackedPiece) -> None:
        """The piece is in the store."""
        self._blobs.saved(piece.dictionaries)
        for _ in range(piece.taken):
            self._left.popleft()

    def _packed(self, data: bytes) -> bytes:
        return data if is_passing(data) else self._blobs.pack(data)
