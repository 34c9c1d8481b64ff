"""A store in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.store.eventlog import EventLog


@pytest.fixture
def store_file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def log(store_file: Path) -> Iterator[EventLog]:
    opened = EventLog(store_file)
    yield opened
    opened.close()
