"""Committed events for whoever follows them. Lives in the gRPC loop's thread; never holds the engine up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gsched.model.event import AnyEvent, JobGpuCurves, encode_event, kind_of
from gsched.model.views.view import EventRecord

FOLLOWER_LIMIT = 100_000
"""Events that a follower may be behind before it is cut off; it can come back with the last number it saw."""


class EventFeed:
    """Followers and what they have not read yet. None in a queue says that the follower was cut off."""

    def __init__(self) -> None:
        self._followers: set[asyncio.Queue[EventRecord | None]] = set()

    def follow(self) -> asyncio.Queue[EventRecord | None]:
        """A queue that gets every event committed from now on."""
        records: asyncio.Queue[EventRecord | None] = asyncio.Queue()
        self._followers.add(records)
        return records

    def leave(self, records: asyncio.Queue[EventRecord | None]) -> None:
        """No more for this follower."""
        self._followers.discard(records)

    def publish(self, last_seq: int, events: Sequence[AnyEvent]) -> None:
        """Events that were committed as the last ones up to number `last_seq`."""
        if not self._followers or not events:
            return
        first = last_seq - len(events) + 1
        told = ((seq, event) for seq, event in enumerate(events, first) if not isinstance(event, JobGpuCurves))
        records = [record_of(seq, event) for seq, event in told]
        for follower in list(self._followers):
            if follower.qsize() > FOLLOWER_LIMIT:
                self._followers.discard(follower)
                follower.put_nowait(None)
                continue
            for record in records:
                follower.put_nowait(record)


def record_of(seq: int, event: AnyEvent) -> EventRecord:
    """The event as a reader gets it."""
    return EventRecord(
        seq=seq,
        at=event.at,
        kind=kind_of(event),
        job_id=getattr(event, "job_id", 0),
        payload=encode_event(event).decode("utf8"),
    )
