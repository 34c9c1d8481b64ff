"""Which checkpoints are kept: the newest for the next start, older ones for looks at the past.

A look replays what happened from the checkpoint before it on, so older ones stand apart by events, not by time. Where
there would be too many of them, or they would take too much room, they stand further apart. It deletes nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from gsched.core.state.checkpoint import PART_BYTES
from gsched.store.checkpoint_parts import MARK
from gsched.store.tables.schema import checkpoint

NEWEST_KEPT = 2
"""A start takes the second where the newest is damaged."""
APART = 20_000
"""Events between two older ones at the least: some seconds of replay."""
MOST_OLDER = 60
OLDER_BYTES = 128 << 20
"""Of all older ones together. The state of a cluster with thousands of jobs is some MiB."""
_NAME_BYTES = 65
"""Of a part's name in the row of a checkpoint, with its end of line."""


def superseded(connection: Connection) -> list[int]:
    """Numbers of checkpoints that are no longer to be kept."""
    head = func.substr(checkpoint.c.payload, 1, len(MARK))
    query = select(checkpoint.c.seq, func.length(checkpoint.c.payload), head).order_by(checkpoint.c.seq)
    rows: list[Any] = list(connection.execute(query))
    return not_kept([(int(seq), _size(int(size or 0), begin)) for seq, size, begin in rows])


def not_kept(found: Sequence[tuple[int, int]]) -> list[int]:
    """Of these checkpoints, (number, bytes) by number, those that are not kept."""
    newest = found[-NEWEST_KEPT:]
    older = found[: -len(newest)] if newest else found
    apart = APART
    kept = _standing_apart(older, apart)
    while len(kept) > MOST_OLDER or sum(kept.values()) > OLDER_BYTES:
        apart *= 2
        kept = _standing_apart(older, apart)
    return [seq for seq, _ in older if seq not in kept]


def _standing_apart(older: Sequence[tuple[int, int]], apart: int) -> dict[int, int]:
    kept: dict[int, int] = {}
    last = 0
    for seq, size in older:
        if seq >= last + apart:
            kept[seq] = size
            last = seq
    return kept


def _size(payload_bytes: int, begin: object) -> int:
    """Bytes of the state; of one in parts about."""
    is_list = isinstance(begin, bytes) and begin == MARK
    return payload_bytes // _NAME_BYTES * PART_BYTES if is_list else payload_bytes
