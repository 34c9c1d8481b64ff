"""How many files a daemon may open: as many as it may for master and door, and an agent's as they were."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from gsched.app import daemons


@pytest.fixture
def limit() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_soft_limit_is_raised_and_the_hard_one_kept(
    limit: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    soft, hard = limit
    monkeypatch.setattr(daemons, "MOST_FILES", soft)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 10, hard))
    daemons.allow_many_connections()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
    monkeypatch.setattr(daemons, "MOST_FILES", soft - 5)
    daemons.allow_many_connections()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
