"""A part of an archive that was compared with the store: its jobs are taken out of the store, some at a time.

Who takes them out, a master or this process, is the caller's to know. It changes no file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gsched.app.archives.part_reading import stored_numbers
from gsched.base.ids import index_of
from gsched.master.archive.archive_manifest import Manifest, Part
from gsched.model.views.archive_question import ArchivedJobs, ArchivedPart, RemovedArchived
from gsched.store.tables.batched import batched

JOBS_AT_ONCE = 200
"""A few slices for the master, so that its answer does not take long."""

Remove = Callable[[ArchivedJobs], RemovedArchived]


def remove_part(folder: Path, manifest: Manifest, part: Part, remove: Remove) -> RemovedArchived:
    """Returns what has become of its jobs. Where the store needs some of them it goes no further: later it may not.

    Raises what `remove` raises, DamagedData, BadRequest; what is gone is gone then.
    """
    named = _named(manifest, part)
    gone = 0
    for some in batched(_elements_first(stored_numbers(folder, part)), JOBS_AT_ONCE):
        events = dict(some)
        removed = remove(ArchivedJobs(named, events))
        gone += removed.gone
        if removed.gone < len(events) and not removed.is_floor_above:
            return RemovedArchived(gone, is_floor_above=False)
    return RemovedArchived(gone, is_floor_above=True)


def _named(manifest: Manifest, part: Part) -> ArchivedPart:
    return ArchivedPart(
        cluster_id=manifest.cluster_id,
        generation=manifest.generation,
        name=part.name,
        jobs_sha256=part.jobs.sha256,
        events_sha256=part.events.sha256,
        until=part.until,
        last_event=part.last_event,
        last_seq=part.last_seq,
    )


def _elements_first(jobs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """In the files an array comes before its elements; out of the store it goes behind them, for it tells of them."""
    held: tuple[int, int] | None = None
    for job in jobs:
        if index_of(job[0]):
            yield job
            continue
        if held is not None:
            yield held
        held = job
    if held is not None:
        yield held
