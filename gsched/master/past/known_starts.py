"""What a master that starts knows of how long jobs have waited: the newest starts in its store, read once."""

from __future__ import annotations

import logging

from gsched.base.errors import GschedError
from gsched.policy.future.past_waits import PastStart
from gsched.store.history_queries import History

log = logging.getLogger(__name__)
MOST_STARTS = 5_000
"""That are read: a tenth of a second."""


def known_starts(place: str) -> list[PastStart]:
    """None where the store cannot be read: estimates are then learned anew, which stops nobody."""
    try:
        store = History(place)
        try:
            rows = store.newest_starts(MOST_STARTS)
        finally:
            store.close()
    except GschedError as error:
        log.warning("how long jobs have waited is not known: %s", error.text)
        return []
    return [
        PastStart(user, queue, round(gpus or 0.0, 2), submitted_at, dispatched_at)
        for _, user, queue, gpus, submitted_at, dispatched_at in rows
    ]
