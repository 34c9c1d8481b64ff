"""Which backend holds a store, by its place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gsched.base.clock import Clock
from gsched.store.backends.backend import Backend
from gsched.store.backends.sqlite_backend import SqliteBackend
from gsched.store.mark import StoreMark
from gsched.store.tables.sqlite import store_path


def open_backend(
    place: str | Path, folder: Path | None, clock: Clock, witnesses: Mapping[str, StoreMark], *, renew: bool
) -> Backend:
    """Open and hold the store. Raises as EventLog."""
    return SqliteBackend(store_path(place), clock, witnesses, renew=renew)
