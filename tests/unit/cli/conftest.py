"""The fake master of these tests, served for one test, and calls that reach it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_master import FakeCall, FakeMaster, serve


@pytest.fixture
def folder() -> Iterator[Path]:
    """A configuration folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="g") as name:
        yield Path(name)


@pytest.fixture
def master(folder: Path) -> Iterator[FakeMaster]:
    with serve(FakeMaster(), folder) as served:
        yield served


@pytest.fixture
def call(folder: Path) -> Callable[..., FakeCall]:
    """`call("gjobs", "-a", TZ="Asia/Seoul")`: a call that has not run yet."""
    return lambda *argv, **env: FakeCall(list(argv), folder, **env)
