"""Programs that others wrote for PBS, unmodified, on the commands of `gsched names pbs`.

They have the environments of the clients of LSF, which `make test-clients` makes; `make test` makes that of PSI/J.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

import pytest
from live_cluster import Cluster
from test_lsf_clients import CLIENTS, QUICK, ROOT

SLOW = ("dask", "parsl")


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    """Four simulated GPUs, and the names in the folder `bin`."""
    made = module_cluster("--sim-gpus", "4:shared")
    made.run("gsched", "names", "pbs", str(made.folder / "bin"))
    return made


@pytest.mark.system
@pytest.mark.parametrize("client", [QUICK, *(pytest.param(name, marks=pytest.mark.clients) for name in SLOW)])
def test_a_client_of_pbs_gets_its_work_done(cluster: Cluster, client: str) -> None:
    python = ROOT / f".venv-{client}" / "bin" / "python"
    if not (python.parent.parent / ".installed").exists():
        pytest.skip(f"needs {client} in an environment of its own: make .venv-{client}/.installed")
    home = cluster.folder / client
    home.mkdir()
    done = subprocess.run(
        [str(python), str(CLIENTS / f"drive_{client}_pbs.py")],
        env={
            "PATH": f"{cluster.folder}/bin:/usr/bin:/bin",
            "HOME": str(home),
            "TMPDIR": str(home),
            "LANG": "C.UTF-8",
            "USER": "ann",
        },
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0 and f"OK {client}" in done.stdout.splitlines(), done.stdout + done.stderr
    shutil.rmtree(home, ignore_errors=True)
