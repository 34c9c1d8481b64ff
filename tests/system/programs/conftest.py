"""What programs share that use gsched from Python: a running cluster for each file, and a connection for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from live_cluster import Cluster as Live

import gsched


@pytest.fixture(scope="module")
def live(module_cluster: Callable[..., Live]) -> Live:
    return module_cluster("--sim-gpus", "2:exclusive_process")


@pytest.fixture
def cluster(live: Live) -> Iterator[gsched.Cluster]:
    with gsched.Cluster(live.conf) as made:
        yield made
