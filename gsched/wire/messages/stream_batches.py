"""Streams in batches: whatever has come together while the last write was under way leaves in one message.

A message costs more than what is in it; under load this halves the work of master and agents, and an idle stream is
not delayed at all. The order of messages is kept.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from google.protobuf.message import Message

MOST = 200
"""Messages in one batch."""
MOST_BYTES = 4 << 20
"""A batch is cut off after the message that reaches this size: orders may hold whole scripts."""
M = TypeVar("M", bound=Message | None)


async def next_batch(outgoing: asyncio.Queue[M]) -> list[M]:
    """The next message, and those behind it that are there already."""
    batch = [await outgoing.get()]
    size = _size(batch[0])
    while len(batch) < MOST and size < MOST_BYTES and not outgoing.empty():
        batch.append(outgoing.get_nowait())
        size += _size(batch[-1])
    return batch


def _size(message: Message | None) -> int:
    return message.ByteSize() if message is not None else 0
