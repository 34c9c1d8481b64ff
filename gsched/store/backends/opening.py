"""Which backend holds a store, by its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from gsched.base.clock import Clock
from gsched.base.errors import BadRequest
from gsched.model.store_url import is_store_url, parse_store_url
from gsched.store.backends.backend import Backend
from gsched.store.backends.postgresql_backend import PostgresqlBackend
from gsched.store.backends.sqlite_backend import SqliteBackend
from gsched.store.mark import StoreMark
from gsched.store.tables.sqlite import store_path


def open_backend(
    place: str | Path,
    folder: Path | None,
    clock: Clock,
    witnesses: Mapping[str, StoreMark],
    *,
    renew: bool,
    lost: Callable[[str], None] | None = None,
) -> Backend:
    """Open and hold the store; `lost`: other masters wait for it, which is for PostgreSQL alone. Raises as EventLog."""
    if not is_store_url(str(place)):
        return SqliteBackend(store_path(place), clock, witnesses, renew=renew)
    if folder is None:
        raise BadRequest("a store in PostgreSQL needs a folder of this machine for what is known of it")
    return PostgresqlBackend(parse_store_url(str(place)), folder, clock, witnesses, renew=renew, lost=lost)
