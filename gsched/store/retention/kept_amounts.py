"""How much of each kind a store keeps, and since when. It reads all of it, and changes nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, FromClause, func, select, text

from gsched.model.event import GPU_CURVES
from gsched.store.safeguards.read_failure import unavailable
from gsched.store.tables.floor import Floor, read_floor
from gsched.store.tables.schema import blob, blob_use, checkpoint, event, host_record, job, start_estimate
from gsched.store.tables.sources import open_source

EVENT_KINDS = ("events", "use of GPUs over time")
"""Names of the kinds that EVENT_HISTORY_SIZE limits together."""


class KeptKind(NamedTuple):
    """Of one kind."""

    name: str
    number: int
    content_bytes: int | None
    """Without what the database takes beside; None: it is not counted."""
    oldest: float | None
    """UTC seconds; None: there is nothing, or it has no time."""


class KeptAmounts(NamedTuple):
    """Of one store."""

    kinds: list[KeptKind]
    floor: Floor
    total_bytes: int
    """Of the file of SQLite, or of the tables and indexes in PostgreSQL."""
    free_bytes: int | None
    """Within the file, for what comes next; None: the server does not say."""


def kept_amounts(place: str) -> KeptAmounts:
    """Of the store at that place. Raises NotFound where there is none, Unavailable where it cannot be read."""
    source = open_source(place)
    try:
        with unavailable(source.name), source.engine.connect() as connection:
            total, free = _room(connection)
            return KeptAmounts(list(_kinds(connection)), read_floor(connection), total, free)
    finally:
        source.engine.dispose()


def ended_before(place: str, at: float) -> int:
    """How many jobs are kept that ended before that time, UTC seconds. Raises as `kept_amounts`."""
    source = open_source(place)
    try:
        with unavailable(source.name), source.engine.connect() as connection:
            return int(connection.scalar(select(func.count()).select_from(job).where(job.c.finished_at < at)) or 0)
    finally:
        source.engine.dispose()


def _kinds(connection: Connection) -> Any:
    is_curve, is_part = event.c.kind == GPU_CURVES, blob.c.id.like("P%")
    ended = job.c.finished_at
    yield _counted(connection, "finished jobs", job, None, func.min(ended), ended.is_not(None))
    yield _counted(connection, "jobs that are not over", job, None, func.min(job.c.submitted_at), ended.is_(None))
    for name, which in zip(EVENT_KINDS, (~is_curve, is_curve), strict=True):
        yield _counted(connection, name, event, event.c.payload, func.min(event.c.at), which)
    yield _counted(connection, "scripts, environments and other contents", blob, blob.c.data, None, ~is_part)
    of_hosts = func.min(host_record.c.at)
    yield _counted(connection, "what was seen of hosts", host_record, host_record.c.data, of_hosts)
    yield _counted(connection, "what was said of starts", start_estimate, None, func.min(start_estimate.c.at))
    yield _counted(connection, "checkpoints", checkpoint, None, func.min(checkpoint.c.at))


def _counted(
    connection: Connection,
    name: str,
    table: FromClause,
    content: ColumnElement[Any] | None,
    oldest: ColumnElement[Any] | None,
    *which: ColumnElement[bool],
) -> KeptKind:
    size = func.sum(func.length(content)) if content is not None else text("NULL")
    query = select(func.count(), size, oldest if oldest is not None else text("NULL")).select_from(table).where(*which)
    row: Any = connection.execute(query).one()
    count, found, at = row
    return KeptKind(name, int(count), None if content is None else int(found or 0), None if at is None else float(at))


def _room(connection: Connection) -> tuple[int, int | None]:
    if connection.dialect.name != "sqlite":
        names = ", ".join(f"pg_total_relation_size('{table.name}')" for table in _TABLES)
        return int(connection.scalar(text(f"SELECT {names.replace(', ', ' + ')}")) or 0), None
    pages, free, size = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar() or 0)
        for name in ("page_count", "freelist_count", "page_size")
    )
    return pages * size, free * size


_TABLES = (event, job, blob, blob_use, checkpoint, host_record, start_estimate)
