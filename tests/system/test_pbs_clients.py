"""Programs that others wrote for PBS Pro and for Torque, unmodified, on the commands of `gsched names pbs`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from driven_clients import drive
from live_cluster import Cluster

pytestmark = pytest.mark.system
SLOW = (("dask", "pbs"), ("fireworks", "pbs"), ("parsl", "pbs"), ("parsl", "torque"), ("psij", "torque"))


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    """Four simulated GPUs, and the names in the folder `bin`."""
    made = module_cluster("--sim-gpus", "4:exclusive_process")
    made.run("gsched", "names", "pbs", str(made.folder / "bin"))
    return made


@pytest.mark.parametrize(
    ("client", "system"),
    [("psij", "pbs"), *(pytest.param(*each, marks=pytest.mark.clients) for each in SLOW)],
)
def test_a_client_of_pbs_gets_its_work_done(cluster: Cluster, client: str, system: str) -> None:
    drive(cluster, client, system)
