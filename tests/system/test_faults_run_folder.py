"""What `gsched up` finds: a run folder that was removed under the daemons, a master that another one has just begun."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable

import psutil
import pytest
from live_cluster import Cluster

from gsched.app.clusters import daemons
from gsched.wire.address import MASTER_FILE

pytestmark = [pytest.mark.system, pytest.mark.fault]


def daemons_of(cluster: Cluster) -> set[int]:
    """Process ids of the cluster's master, agents and doors."""
    found = set()
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "gsched.app.entry" in words and words[-1] == str(cluster.conf):
            found.add(process.pid)
    return found


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_an_up_that_was_broken_off_is_completed(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster("--sim-gpus", "1")
    folder = ("--dir", str(cluster.folder))
    cluster.run("gsched", "down", *folder)
    with subprocess.Popen(["gsched", "up", *folder], env=cluster.env, stdout=subprocess.DEVNULL) as broken_off:
        cluster.until(lambda: daemons.running_pid(cluster.run_dir, "master"), "no master is started")
        broken_off.kill()
    master = cluster.pid("master")
    os.kill(master, signal.SIGSTOP)  # so that it has not come further when it is looked at
    try:
        if not (cluster.conf / MASTER_FILE).exists():
            told = cluster.run("gsched", "status", *folder, check=False)
            assert told.returncode != 0 and "attention: the master is starting" in told.stdout, told
    finally:
        os.kill(master, signal.SIGCONT)
    cluster.up()
    cluster.run("gsched", "status", *folder)
    assert cluster.pid("master") == master
    ended = cluster.run("gsched", "down", *folder, "--kill")
    assert ended.stdout == "cluster private is down\n"
