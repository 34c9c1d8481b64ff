"""What is left of tests whose process was killed: the next one ends and removes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from live_cluster import PATIENCE_S

pytestmark = pytest.mark.system

MAKER = """
import signal, sys
sys.path[:0] = sys.argv[1:]
from live_cluster import Cluster
from tests.support.folders import new_folder
cluster = Cluster(new_folder() / "c")
cluster.up("--sim-gpus", "1")
print(cluster.folder, cluster.starts(cluster.submit("sleep", "600")).pid, flush=True)
signal.pause()
"""
NEXT = "import sys; sys.path[:0] = sys.argv[1:]; from tests.support.folders import new_folder; print(new_folder())"


def test_a_cluster_of_tests_that_were_killed_goes_with_the_next_ones(folder: Path) -> None:
    places = [str(Path(__file__).parents[level]) for level in range(3)]  # tests/system, tests, and all
    env = {**os.environ, "TMPDIR": str(folder)}
    maker = subprocess.Popen([sys.executable, "-c", MAKER, *places], env=env, stdout=subprocess.PIPE, text=True)
    assert maker.stdout is not None
    cluster, job = maker.stdout.readline().split()
    running = [psutil.Process(int(job)), *psutil.Process(int(job)).parents()[:3]]  # supervisor, fork server, agent
    assert any("agent" in process.cmdline() for process in running)

    def next_one() -> None:
        subprocess.run([sys.executable, "-c", NEXT, *places], env=env, timeout=PATIENCE_S, check=True)

    next_one()
    assert Path(cluster).exists() and all(process.is_running() for process in running), "its maker lives"
    os.kill(maker.pid, signal.SIGKILL)
    maker.communicate()
    next_one()
    assert list(folder.iterdir()) == []
    _, alive = psutil.wait_procs(running, timeout=PATIENCE_S)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
