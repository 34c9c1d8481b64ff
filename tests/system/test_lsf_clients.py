"""Programs that others wrote for LSF, unmodified, on the commands of `gsched names lsf`.

`make test-clients` installs them; `make test` installs PSI/J, the quickest of them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from driven_clients import drive
from live_cluster import Cluster

QUICK = "psij"
SLOW = ("dask", "snakemake", "toil", "parsl", "b2luigi", "balsam", "signac")


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    """Four simulated GPUs that jobs may share (what -gpu asks for by default), and the names in the folder `bin`."""
    made = module_cluster("--sim-gpus", "4:shared")
    made.run("gsched", "names", "lsf", str(made.folder / "bin"))
    return made


@pytest.mark.system
@pytest.mark.parametrize(
    "client",
    [pytest.param(QUICK, marks=pytest.mark.smoke), *(pytest.param(name, marks=pytest.mark.clients) for name in SLOW)],
)
def test_a_client_of_lsf_gets_its_work_done(cluster: Cluster, client: str) -> None:
    drive(cluster, client, "lsf")
