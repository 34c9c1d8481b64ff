"""A GPU that an administrator has closed: who, when, why and until when. It belongs to the UUID on its host, not to an
index, which may change with any restart of the machine.
"""

from __future__ import annotations

import msgspec


class GpuClosure(msgspec.Struct, frozen=True, kw_only=True):
    """Why one GPU of a host takes no new jobs until it is opened."""

    host: str
    uuid: str
    index: int
    """As it was when it was closed."""
    by: str
    at: float
    """UTC seconds, as `until`."""
    comment: str = ""
    until: float | None = None
    """When it opens by itself; None: when somebody opens it."""
