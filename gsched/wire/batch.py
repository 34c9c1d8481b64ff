"""Streams in batches: whatever has come together while the last write was under way leaves in one message.

A message costs more than what is in it; under load this halves the work of master and agents, and an idle stream is
not delayed at all. The order of messages is kept.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

MOST = 200
"""Messages in one batch."""
M = TypeVar("M")


async def next_batch(outgoing: asyncio.Queue[M]) -> list[M]:
    """The next message, and those behind it that are there already."""
    batch = [await outgoing.get()]
    while len(batch) < MOST and not outgoing.empty():
        batch.append(outgoing.get_nowait())
    return batch
