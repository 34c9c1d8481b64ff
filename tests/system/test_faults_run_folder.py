"""The folder of sockets and lock files is removed, or cleaned up, while the daemons run."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import psutil
import pytest
from live_cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.fault]


def daemons_of(cluster: Cluster) -> set[int]:
    """Process ids of the cluster's master, agents and doors."""
    found = set()
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "gsched.app.entry" in words and words[-1] == str(cluster.conf):
            found.add(process.pid)
    return found


def test_a_run_folder_that_is_gone_is_made_again(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster("--sim-gpus", "1")
    folder = ("--dir", str(cluster.folder))
    job_id = cluster.submit("-o", "/dev/null", "while [ ! -e go ]; do sleep 0.01; done; exit 3")
    pid = cluster.starts(job_id).pid
    before = daemons_of(cluster)
    assert len(before) == 3
    shutil.rmtree(cluster.run_dir)
    told = cluster.run("gsched", "status", *folder, check=False)
    assert told.returncode != 0
    for name in ("master", f"agent-{cluster.host}", "door"):
        assert f"attention: the {name} of process " in told.stdout
    said = cluster.up()
    assert said.count("it is started anew") == 3
    assert len(daemons_of(cluster)) == 3 and not daemons_of(cluster) & before
    cluster.run("gsched", "status", *folder)
    assert cluster.starts(job_id).pid == pid
    shutil.rmtree(cluster.run_dir)
    cluster.run("gsched", "down", *folder)
    assert not daemons_of(cluster)
    cluster.up()
    assert cluster.starts(job_id).pid == pid
    (cluster.folder / "go").touch()
    assert [each.result.exit_code for each in cluster.wait(job_id) if each.result] == [3]
