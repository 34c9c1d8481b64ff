"""A store in a folder of its own, in a file of SQLite and in a database of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stores import SqliteStore, StoreAtHand

from gsched.store.eventlog import EventLog


@pytest.fixture
def store_file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(tmp_path: Path) -> StoreAtHand:
    return SqliteStore(tmp_path / "store.db")


@pytest.fixture
def log(store: StoreAtHand) -> Iterator[EventLog]:
    opened = store.open()
    yield opened
    opened.close()
