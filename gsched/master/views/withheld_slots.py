"""Free slots that are kept for pending jobs: RSV of ghosts and gqueues, RESERVED of a share table.

A planned job is kept the slots of its hosts as far as they are free already; what it still waits for counts for those
who hold it. It decides nothing. Source of the columns: bhosts(1), bqueues(1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from gsched.model.jobs.reason import PlannedStart
from gsched.model.scheduling.snapshot import Bucket
from gsched.model.views.view import HostView, QueueView
from gsched.policy.backfill.reserved_start import ReservedStart


class Withheld(NamedTuple):
    """So many free slots of a host are kept for a job of the bucket."""

    bucket: Bucket
    host: str
    slots: int


def withheld(planned: Mapping[int, PlannedStart], free: Mapping[str, int | None]) -> list[Withheld]:
    """What is kept; `free`: host -> slots that no job holds (None: no limit). Who starts sooner is kept them first."""
    left = {host: math.inf if slots is None else slots for host, slots in free.items()}
    reserved_starts = [(job_id, each) for job_id, each in planned.items() if isinstance(each, ReservedStart)]
    reserved_starts.sort(key=lambda item: (math.inf if item[1].at is None else item[1].at, item[0]))
    kept = []
    for _, reserved in reserved_starts:
        for part in reserved.allocation.hosts if reserved.allocation is not None else ():
            slots = int(min(part.slots, left.get(part.host, 0)))
            if slots > 0:
                left[part.host] -= slots
                kept.append(Withheld(reserved.bucket, part.host, slots))
    return kept


def free_slots(hosts: Iterable[HostView]) -> dict[str, int | None]:
    """Host -> slots that no job holds (None: no limit)."""
    return {host.name: host.slots_free for host in hosts}


def with_kept_slots(hosts: Iterable[HostView], planned: Mapping[int, PlannedStart]) -> list[HostView]:
    """The hosts with their RSV."""
    found = list(hosts)
    kept: dict[str, int] = {}
    for each in withheld(planned, free_slots(found)):
        kept[each.host] = kept.get(each.host, 0) + each.slots
    return [msgspec.structs.replace(host, rsv=kept[host.name]) if host.name in kept else host for host in found]


def queues_with_kept_slots(
    queues: Iterable[QueueView], hosts: Iterable[HostView], planned: Mapping[int, PlannedStart]
) -> list[QueueView]:
    """The queues with their RSV."""
    kept: dict[str, int] = {}
    for each in withheld(planned, free_slots(hosts)):
        kept[each.bucket.queue] = kept.get(each.bucket.queue, 0) + each.slots
    return [msgspec.structs.replace(queue, rsv=kept[queue.name]) if queue.name in kept else queue for queue in queues]
