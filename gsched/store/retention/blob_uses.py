"""Which blobs the events of a store name, as far as it is noted, and which blobs no event may name any more.

What is noted is behind what is stored: it is made in slices, and only where a blob may go. In the table `blob_use` a
blob is the first digits of its name as a number. A row with the number of an event says that the event names the blob.
A row with a number below zero says that an event that named it went on that day since 1970. A blob must never go unless
all events are noted and none of them names it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, LargeBinary, and_, bindparam, case, cast, delete, exists, func, select

from gsched.model.event_blobs import NAMING_KINDS, blobs_named
from gsched.store.packing.packed_events import unpack_event
from gsched.store.tables.batched import batched, first_within
from gsched.store.tables.schema import blob, blob_use, event, meta
from gsched.store.tables.statements import insert_new, insert_rows, upsert

_NOTED = "blob_uses_noted"
"""Key of the number of the last event of which it is noted what it names."""
_DIGITS = 15
"""Of a blob's name: what fits into a number of 64 bits. Who shares them with another one stays as long as that."""
_BEHIND_DIGITS = "g"
_UNREADABLE = -1
"""In place of what an event names that cannot be read: as long as it is there nothing goes."""
_NAMES_AT_ONCE = 100
"""A database takes so many in one statement."""
_ADD_USE = insert_new(blob_use)


class UnusedBlobs(NamedTuple):
    """What may go."""

    names: list[str]
    looked_at: list[tuple[int, int]]
    """Rows that have told all they can."""


def note_uses(connection: Connection, most: int, most_bytes: int) -> bool:
    """Note what the next `most` events name, or as many as are read with so many bytes of their rows, one at the least;
    says whether all are noted then.
    """
    noted = _noted(connection)
    read = case((event.c.kind.in_(NAMING_KINDS), func.length(event.c.payload)), else_=0)
    query = select(event.c.seq, read).where(event.c.seq > noted).order_by(event.c.seq).limit(most)
    rows: list[Any] = list(connection.execute(query))
    some = first_within(((int(seq), int(size or 0)) for seq, size in rows), most_bytes)
    if not some:
        return True
    within = and_(event.c.seq > noted, event.c.seq <= some[-1])
    insert_rows(connection, _ADD_USE, sorted(_uses(connection, within)))
    insert_rows(connection, upsert(meta), [(_NOTED, str(some[-1]))])
    return len(some) < most and len(some) == len(rows)


def release_uses(connection: Connection, gone: ColumnElement[bool], day: int) -> None:
    """These events, a condition on the table, are about to go, in the same transaction. `day`: since 1970."""
    of_events = blob_use.c.seq.in_(select(event.c.seq).where(gone))
    released: set[int] = set(connection.scalars(select(blob_use.c.hash).where(of_events).distinct()))
    released.update(each for _, each in _uses(connection, and_(gone, event.c.seq > _noted(connection))))
    released.discard(_UNREADABLE)
    connection.execute(delete(blob_use).where(of_events))
    insert_rows(connection, _ADD_USE, [(-day, each) for each in sorted(released)])


def is_any_released(connection: Connection, until: int) -> bool:
    """Whether a blob is to be looked at that an event named which went by that day."""
    return connection.execute(select(blob_use.c.seq).where(_released(until)).limit(1)).first() is not None


def unused_blobs(connection: Connection, until: int, most: int, most_bytes: int, held: Collection[str]) -> UnusedBlobs:
    """Up to so many blobs, with up to so many bytes, but one at the least, that no event names; all must be noted.

    `until`: an event named them that went by that day. `held`: somebody else names these.
    """
    if connection.execute(select(blob_use.c.seq).where(blob_use.c.hash == _UNREADABLE).limit(1)).first() is not None:
        return UnusedBlobs([], [])
    other = blob_use.alias()
    is_used = exists().where(other.c.hash == blob_use.c.hash, other.c.seq > 0)
    query = select(blob_use.c.seq, blob_use.c.hash, is_used).where(_released(until))
    rows: list[Any] = list(connection.execute(query.order_by(blob_use.c.seq, blob_use.c.hash).limit(most)))
    kept = {hash_of(name) for name in held}
    sizes = _sizes(connection, {int(row[1]) for row in rows if not row[2]} - kept)
    names: list[str] = []
    looked_at: list[tuple[int, int]] = []
    left = most_bytes
    for seq, number, used in rows:
        if not used:
            found = sizes.get(int(number), {})
            if looked_at and sum(found.values()) > left:
                break
            left -= sum(found.values())
            names += found
        looked_at.append((int(seq), int(number)))
    return UnusedBlobs(names, looked_at)


def remove_blobs(connection: Connection, found: UnusedBlobs, held: Collection[str], day: int) -> None:
    """Take them away. Those that are held are looked at again, as if they had been released on that day."""
    for some in batched(found.names, _NAMES_AT_ONCE):
        connection.execute(delete(blob).where(blob.c.id.in_(some)))
    if found.looked_at:
        row = delete(blob_use).where(blob_use.c.seq == bindparam("day"), blob_use.c.hash == bindparam("number"))
        connection.execute(row, [{"day": seq, "number": number} for seq, number in found.looked_at])
    kept = {hash_of(name) for name in held}
    insert_rows(connection, _ADD_USE, [(-day, number) for _, number in found.looked_at if number in kept])


def hash_of(name: str) -> int:
    """The blob in the table `blob_use`; 0: no content has such a name."""
    try:
        return int(name[:_DIGITS], 16)
    except ValueError:
        return 0


def _uses(connection: Connection, which: ColumnElement[bool]) -> set[tuple[int, int]]:
    """(number, blob) of these events."""
    query = select(event.c.seq, cast(event.c.payload, LargeBinary)).where(which, event.c.kind.in_(NAMING_KINDS))
    rows: list[Any] = list(connection.execute(query))
    return {(int(seq), number) for seq, payload in rows for number in _named(payload)}


def _named(payload: bytes | None) -> Iterable[int]:
    try:
        return filter(None, map(hash_of, blobs_named(unpack_event(payload or b""))))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return (_UNREADABLE,)


def _noted(connection: Connection) -> int:
    value = connection.scalar(select(meta.c.value).where(meta.c.key == _NOTED))
    return int(value) if value is not None and value.isdigit() else 0


def _released(until: int) -> ColumnElement[bool]:
    return blob_use.c.seq.between(-until, -1)


def _sizes(connection: Connection, numbers: Collection[int]) -> dict[int, dict[str, int]]:
    """Bytes of the rows of blobs, by number and name."""
    found: dict[int, dict[str, int]] = {}
    for number in numbers:  # one by one: to plan a question about a hundred ranges takes much longer
        begin = f"{number:0{_DIGITS}x}"
        which = and_(blob.c.id >= begin, blob.c.id < begin + _BEHIND_DIGITS)
        rows: list[Any] = list(connection.execute(select(blob.c.id, func.length(blob.c.data)).where(which)))
        found[number] = {str(name): int(size or 0) for name, size in rows}
    return found
