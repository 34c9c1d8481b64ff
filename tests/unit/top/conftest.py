"""`gsched top` before a fake master: the real source and the real screens, driven by textual's pilot."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "cli"))  # where the fake master is

from fake_master import FakeMaster, serve


@pytest.fixture
def folder() -> Iterator[Path]:
    """A configuration folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="g") as name:
        yield Path(name)


@pytest.fixture
def master(folder: Path) -> Iterator[FakeMaster]:
    with serve(FakeMaster(), folder) as found:
        yield found
