"""What submissions of many jobs were made of, when the store has none of their jobs any more: nothing else names it.

Where events go by age it goes with those that are of no job. Here it goes where jobs leave for an archive only. It must
never take away what a job may still be made of.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, and_, delete, func, select

from gsched.model.event import SubmissionAccepted, decode_event
from gsched.store.packing.packed_events import unpack_event
from gsched.store.tables.batched import first_within
from gsched.store.tables.floor import Floor
from gsched.store.tables.schema import event, job

_KIND = str(SubmissionAccepted.__struct_config__.tag)
_MOST_BYTES = 1 << 20
"""Of those that are looked at in one slice: one may be some MB."""


class LookedAtSubmissions(NamedTuple):
    """What one slice has done."""

    removed: int
    last: int | None
    """Number of the last event that was looked at, behind which the next slice begins; None: there was none."""


def remove_unneeded_submissions(connection: Connection, floor: Floor, after: int, most: int) -> LookedAtSubmissions:
    """Look at the next `most` of them behind that event, from before the last job that has gone ended."""
    behind = and_(event.c.job_id.is_(None), event.c.seq > after, event.c.seq < floor.seq)
    old = and_(behind, event.c.kind == _KIND, event.c.at < floor.jobs_from)
    query = select(event.c.seq, func.length(event.c.payload)).where(old).order_by(event.c.seq).limit(most)
    sizes: list[Any] = list(connection.execute(query))
    some = first_within(((int(seq), int(size or 0)) for seq, size in sizes), _MOST_BYTES)
    gone = [seq for seq in some if not _has_jobs(connection, seq)]
    if gone:
        connection.execute(delete(event).where(event.c.seq.in_(gone)))
    return LookedAtSubmissions(len(gone), some[-1] if some else None)


def _has_jobs(connection: Connection, seq: int) -> bool:
    """Also where it cannot be read: it is somebody else's to say so."""
    payload = connection.scalar(select(event.c.payload).where(event.c.seq == seq))
    try:
        found = decode_event(unpack_event(bytes(payload or b"")))
    except (msgspec.MsgspecError, ValueError):
        return True
    if not isinstance(found, SubmissionAccepted):
        return True
    # Elements of arrays need no look: the row of their array goes last.
    its_jobs = job.c.job_id.between(found.first_id, found.first_id + found.count - 1)
    return connection.scalar(select(func.min(job.c.job_id)).where(its_jobs)) is not None
