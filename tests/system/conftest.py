"""A private cluster of real daemon processes for each test that asks for one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import Cluster

from tests.support.folders import new_folder


@pytest.fixture
def make_cluster(folder: Path) -> Iterator[Callable[..., Cluster]]:
    """Makes clusters that are torn down with everything they run; arguments go to `gsched up`."""
    made: list[Cluster] = []

    def make(*words: str) -> Cluster:
        cluster = Cluster(folder / f"c{len(made)}")
        made.append(cluster)
        cluster.up(*words)
        return cluster

    yield make
    for cluster in made:
        cluster.down()
        for log in sorted((cluster.folder / "log").glob("*.log")):  # pytest shows it when the test failed
            print(f"-- {log.name}", *log.read_text(errors="replace").splitlines()[-40:], sep="\n")


@pytest.fixture(scope="module")
def driver_folder(fake_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stand-in for the driver's library, as LD_LIBRARY_PATH wants it; a state file goes beside it."""
    folder = tmp_path_factory.mktemp("nvml")
    for library in fake_library.glob("*.so*"):
        (folder / library.name).symlink_to(library)
    return folder


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Four simulated K80s in exclusive-process mode on one host, as in the walk-through."""
    return make_cluster("--sim-gpus", "4:exclusive_process")


@pytest.fixture(scope="module")
def module_cluster() -> Iterator[Callable[..., Cluster]]:
    """Makes clusters that the tests of one file share; arguments go to `gsched up`. No log may hold a traceback."""
    base = new_folder()
    made: list[Cluster] = []

    def make(*words: str, name: str = "", **env: str) -> Cluster:
        cluster = Cluster(base / (name or f"c{len(made)}"))
        cluster.env.update(env)
        made.append(cluster)
        cluster.up(*words)
        return cluster

    yield make
    logs = []
    for cluster in made:
        cluster.down()
        logs.append(cluster.logs())
    shutil.rmtree(base, ignore_errors=True)
    for log in logs:
        print(log[max(0, log.find("Traceback") - 300) :][:3000] if "Traceback" in log else "")
    assert not [log for log in logs if "Traceback" in log]
