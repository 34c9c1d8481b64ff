"""A checkpoint in parts: each is written in a transaction of its own, so that appends never wait for a large one.

The checkpoint's row names the parts in order. Parts stand among the blobs under names that no blob has. They are
written before the row that names them; what no row names any more is taken away a few at a time.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DBAPIError

from gsched.store.safeguards.failure import error_text
from gsched.store.safeguards.read_failure import is_away
from gsched.store.tables.schema import blob, checkpoint

MARK = b"parts\n"
"""How the content of a checkpoint begins that has its state in parts; a state is a JSON object."""
MOST_LIST_BYTES = 1 << 19
"""Of a list of parts: of the largest checkpoint it is half of this. A longer row holds a state."""
_FIRST, _BEYOND = "P", "Q"
"""Names of parts lie between these; those of blobs are digits and small letters."""


def part_id(data: bytes) -> str:
    """Name of a part: as long as a blob's, and never that of one."""
    return _FIRST + hashlib.sha256(data).hexdigest()[1:]


def list_of(names: Sequence[str]) -> bytes:
    """What the checkpoint's row holds."""
    return MARK + "\n".join(names).encode()


def names_in(payload: bytes) -> list[str]:
    """The parts that a checkpoint's row names; none where it holds the state itself."""
    return payload[len(MARK) :].decode("ascii", "replace").split() if payload.startswith(MARK) else []


def checksum(seq: int, payload: bytes) -> int:
    """CRC-32 of the content and of the number it claims to stand for."""
    return zlib.crc32(payload, zlib.crc32(str(seq).encode()))


def whole_checkpoint(engine: Engine, seq: int, last_seq: int) -> bytes | None:
    """The state of the checkpoint of event `seq`; None when it is damaged, gone, or of an event that is not there.

    Raises DBAPIError where the database did not answer, which says nothing of the checkpoint.
    """
    return _read(engine, seq, last_seq)[0]


def fault_of(engine: Engine, seq: int, last_seq: int) -> str:
    """Why `whole_checkpoint` gives nothing; empty: it does. Raises as that."""
    return _read(engine, seq, last_seq)[1]


def looked_through(engine: Engine, seq: int, last_seq: int) -> Iterator[bool]:
    """Whether the checkpoint of event `seq` is whole, as far as it has been looked at: a part at each step, and at the
    first that is not there or damaged it is over. Raises as `whole_checkpoint`.
    """
    try:
        with engine.connect() as connection:
            payload, _ = _row(connection, seq, last_seq)
        yield payload is not None
        for name in names_in(payload or b""):
            with engine.connect() as connection:
                is_there = _part(connection, name)[0] is not None
            yield is_there
            if not is_there:
                return
    except DBAPIError as error:
        if is_away(error):
            raise
        yield False


def _read(engine: Engine, seq: int, last_seq: int) -> tuple[bytes | None, str]:
    """The state, or what is wrong."""
    try:
        with engine.connect() as connection:
            return _look(connection, seq, last_seq)
    except DBAPIError as error:
        if is_away(error):
            raise
        return None, f"it cannot be read: {error_text(error)}"


def _look(connection: Connection, seq: int, last_seq: int) -> tuple[bytes | None, str]:
    payload, fault = _row(connection, seq, last_seq)
    names = names_in(payload or b"")
    return _joined(connection, names) if names else (payload, fault)


def _row(connection: Connection, seq: int, last_seq: int) -> tuple[bytes | None, str]:
    """What the checkpoint's row holds, or what is wrong with it."""
    if seq > last_seq:
        return None, f"{last_seq} is the newest event"
    query = select(checkpoint.c.crc, checkpoint.c.payload).where(checkpoint.c.seq == seq)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None, "it is not there any more"
    try:
        crc, payload = int(row[0]), bytes(row[1])
    except (TypeError, ValueError):  # values that are not of their column's type
        return None, "its values are of another kind"
    if crc != checksum(seq, payload):
        return None, "its content is not what was stored"
    return payload, ""


def _joined(connection: Connection, names: Sequence[str]) -> tuple[bytes | None, str]:
    found = []
    for name in names:
        data, fault = _part(connection, name)
        if data is None:
            return None, fault
        found.append(data)
    return b"".join(found), ""


def _part(connection: Connection, name: str) -> tuple[bytes | None, str]:
    data = connection.scalar(select(blob.c.data).where(blob.c.id == name))
    if data is None:
        return None, f"its part {name} is missing"
    if not isinstance(data, bytes) or part_id(data) != name:
        return None, f"its part {name} is not what was stored"
    return data, ""


def unnamed(connection: Connection, most: int) -> list[str]:
    """Up to so many parts that no checkpoint names."""
    lists = select(checkpoint.c.payload).where(func.length(checkpoint.c.payload) <= MOST_LIST_BYTES)
    kept = {name for row in connection.execute(lists) for name in names_in(bytes(row[0]))}
    stored: Iterable[str] = connection.scalars(select(blob.c.id).where(blob.c.id >= _FIRST, blob.c.id < _BEYOND))
    return [name for name in stored if name not in kept][:most]
