"""What the process that reads archives is asked (it travels as a line of JSON), and what of them leaves the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from gsched.model.views.catalogue import AccountFilter
from gsched.model.views.past_query import HistoryQuery

READY = b"ready\n"
"""What the process says on standard output when it can be asked."""


class ArchiveQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Of `ghist` or of `gacct`: one of both is set."""

    histories: HistoryQuery | None = None
    accounts: AccountFilter | None = None
    with_jobs: bool = False
    """All that is known of each job is wanted, not only what a summary takes."""


class ArchivedPart(NamedTuple):
    """A part of an archive, whose files were compared with the store."""

    cluster_id: str
    """Of the store."""
    generation: int
    name: str
    """`2026-09`, or `2026-09.2` for a second part."""
    jobs_sha256: str
    events_sha256: str
    """Of its files."""
    until: float
    """UTC seconds; all its jobs ended before."""
    last_event: int
    """The archive has what happened to them up to that event."""
    last_seq: int
    """Number of the last event that is in it: what goes needs a floor above it."""


class ArchivedJobs(NamedTuple):
    """Some jobs of a part."""

    part: ArchivedPart
    events: Mapping[int, int]
    """Number -> how many events the archive has of it. Elements come before their array."""


class RemovedArchived(NamedTuple):
    """What has become of them."""

    gone: int
    """So many of them the store has no more."""
    is_floor_above: bool
    """Else what happened to some may be needed by the next start of a master. With it only those stay that changed."""
