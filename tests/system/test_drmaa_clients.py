"""`gsched.contrib.drmaa` in place of the package drmaa: its own test suite, and a program that uses it.

`make test-clients` installs them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from driven_clients import drive
from live_cluster import Cluster


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    """Simulated GPUs that jobs may share, and the names of LSF, whose profile finds the cluster."""
    made = module_cluster("--sim-gpus", "2:shared")
    made.run("gsched", "names", "lsf", str(made.folder / "bin"))
    return made


@pytest.mark.system
@pytest.mark.clients
def test_programs_that_use_drmaa_run_unmodified(cluster: Cluster) -> None:
    drive(cluster, "drmaa", "lsf")
