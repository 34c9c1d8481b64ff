"""An installation that the tests of a module share, with an open door or without."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from app_installation import KINDS, PATIENCE_S, Installation


@pytest.fixture(scope="module", params=KINDS)
def installed(request: pytest.FixtureRequest) -> Iterator[Installation]:
    with tempfile.TemporaryDirectory(prefix="inst") as folder:
        yield Installation(Path(folder), request.param)


@pytest.fixture(scope="module")
def house(installed: Installation) -> Iterator[Installation]:
    """An installation with an open door."""
    door = installed.open_door(installed.configuration)
    yield installed
    door.terminate()
    assert door.wait(PATIENCE_S) == 0
    assert not (installed.configuration / ".door").exists()
    assert not (installed.configuration / "run" / "sock").exists()
