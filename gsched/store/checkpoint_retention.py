"""Which checkpoints are kept: the newest for the next start, older ones for looks at the past.

A look replays what happened from the checkpoint before it on, so older ones stand apart by events; where little happens
by a day, for what is older than an age goes in steps from one checkpoint to the next (gsched.store.retention). Where
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
APART_S = 86_400.0
"""Seconds between two older ones, where there are fewer events."""
MOST_OLDER = 60
OLDER_BYTES = 128 << 20
"""Of all older ones together. The state of a cluster with thousands of jobs is some MiB."""
_NAME_BYTES = 65
"""Of a part's name in the row of a checkpoint, with its end of line."""


def superseded(connection: Connection) -> list[int]:
    """Numbers of checkpoints that are no longer to be kept."""
    head = func.substr(checkpoint.c.payload, 1, len(MARK))
    length = func.length(checkpoint.c.payload)
    query = select(checkpoint.c.seq, length, head, checkpoint.c.at).order_by(checkpoint.c.seq)
    rows: list[Any] = list(connection.execute(query))
    return not_kept([(int(seq), _size(int(size or 0), begin), float(at)) for seq, size, begin, at in rows])


def not_kept(found: Sequence[tuple[int, int, float]]) -> list[int]:
    """Of these checkpoints, (number, bytes, UTC seconds) by number, those that are not kept."""
    newest = found[-NEWEST_KEPT:]
    older = found[: -len(newest)] if newest else found
    times = 1
    kept = _standing_apart(older, times)
    while len(kept) > MOST_OLDER or sum(kept.values()) > OLDER_BYTES:
        times *= 2
        kept = _standing_apart(older, times) if len(kept) > 1 else {}
    return [seq for seq, _, _ in older if seq not in kept]


def _standing_apart(older: Sequence[tuple[int, int, float]], times: int) -> dict[int, int]:
    kept: dict[int, int] = {}
    last, last_at = 0, float("-inf")
    for seq, size, at in older:
        if seq >= last + times * APART or at >= last_at + times * APART_S:
            kept[seq] = size
            last, last_at = seq, at
    return kept


def _size(payload_bytes: int, begin: object) -> int:
    """Bytes of the state; of one in parts about."""
    is_list = isinstance(begin, bytes) and begin == MARK
    return payload_bytes // _NAME_BYTES * PART_BYTES if is_list else payload_bytes
