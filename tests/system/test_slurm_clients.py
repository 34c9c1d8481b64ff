"""Programs that others wrote for Slurm, unmodified, on the commands of `gsched names slurm`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from driven_clients import drive
from live_cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.clients]


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    """Four simulated GPUs, and the names in the folder `bin`."""
    made = module_cluster("--sim-gpus", "4:exclusive_process")
    made.run("gsched", "names", "slurm", str(made.folder / "bin"))
    return made


@pytest.mark.parametrize("client", ["submitit", "snakemake", "parsl", "dask", "psij", "lightning", "fireworks"])
def test_a_client_of_slurm_gets_its_work_done(cluster: Cluster, client: str) -> None:
    drive(cluster, client, "slurm")
