"""`gsched.contrib` with the real packages that it is for. `make test-clients` installs them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from driven_clients import drive
from live_cluster import Cluster


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    """Four simulated GPUs that jobs may share, and the names of LSF, whose profile finds the cluster."""
    made = module_cluster("--sim-gpus", "4:shared")
    made.run("gsched", "names", "lsf", str(made.folder / "bin"))
    return made


@pytest.mark.system
@pytest.mark.clients
def test_packages_run_their_calls_as_jobs(cluster: Cluster) -> None:
    drive(cluster, "contrib", "lsf")
