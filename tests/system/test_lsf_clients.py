"""Programs that others wrote for LSF, unmodified, on the commands of `gsched names lsf`.

Each has an environment of its own, made by `make test-clients`; `make test` makes that of PSI/J, the quickest of them.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "tests" / "clients"
QUICK = "psij"
SLOW = ("dask", "snakemake", "toil", "parsl", "b2luigi", "balsam", "signac")


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    """Four simulated GPUs that jobs may share (what -gpu asks for by default), and the names in the folder `bin`."""
    made = module_cluster("--sim-gpus", "4:shared")
    made.run("gsched", "names", "lsf", str(made.folder / "bin"))
    return made


def environment(cluster: Cluster, home: Path) -> dict[str, str]:
    """What a person has who has sourced profile.lsf: no variable of gsched, and none of its folders on PATH."""
    words = [f". {cluster.folder}/bin/profile.lsf && env -0"]
    told = subprocess.run(
        ["sh", "-c", *words], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    found = dict(line.split("=", 1) for line in told.stdout.split("\0") if line)
    return {**found, "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8", "TZ": "UTC", "USER": "ann"}


@pytest.mark.system
@pytest.mark.parametrize(
    "client",
    [pytest.param(QUICK, marks=pytest.mark.smoke), *(pytest.param(name, marks=pytest.mark.clients) for name in SLOW)],
)
def test_a_client_of_lsf_gets_its_work_done(cluster: Cluster, client: str) -> None:
    python = ROOT / f".venv-{client}" / "bin" / "python"
    if not (python.parent.parent / ".installed").exists():
        pytest.skip(f"needs {client} in an environment of its own: make .venv-{client}/.installed")
    home = cluster.folder / client
    home.mkdir()
    done = subprocess.run(
        [str(python), str(CLIENTS / f"drive_{client}.py")],
        env=environment(cluster, home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0 and f"OK {client}" in done.stdout.splitlines(), done.stdout + done.stderr
    print(f"\nOK {client}")
    shutil.rmtree(home, ignore_errors=True)
