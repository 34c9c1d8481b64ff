"""What the state keeps of queues, job groups and advance reservations: frozen, replaced whole by events."""

from __future__ import annotations

import msgspec


class QueueState(msgspec.Struct, frozen=True):
    """What an administrator did to a queue."""

    is_open: bool = True
    is_active: bool = True
    comment: str = ""


class JobGroup(msgspec.Struct, frozen=True):
    """A job group. `made_by` is empty for one that a submission made; it goes with its last job."""

    job_limit: int | None = None
    made_by: str = ""
    owner: str = ""


class StoredReservation(msgspec.Struct, frozen=True):
    """An advance reservation as its event said."""

    name: str
    users: tuple[str, ...]
    start: float
    end: float
    slots: dict[str, int]
    gpus: dict[str, int]
    owner: str = ""
    """Who made it; empty where that was not written down."""
