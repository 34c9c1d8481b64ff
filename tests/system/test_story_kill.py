"""gkill ends all of a job, also what has left its parents, session and environment: with and without a fence."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import Cluster

pytestmark = pytest.mark.system

DEAF = """\
import os, signal, sys, time

def hear(number, frame):
    with open("heard", "a") as file:
        file.write(f"{sys.argv[1]} {number}\\n")

for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, hear)
if sys.argv[1] == "job" and os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.execve(sys.executable, [sys.executable, sys.argv[0], "escaped"], {})
    os._exit(0)
with open(f"pid.{sys.argv[1]}.new", "w") as file:
    file.write(str(os.getpid()))
os.rename(f"pid.{sys.argv[1]}.new", f"pid.{sys.argv[1]}")
while True:
    time.sleep(1)
"""
INTERVAL_S = 2.0


@pytest.fixture(params=["Y", pytest.param("N", marks=pytest.mark.nightly)], ids=["fenced", "without fence"])
def cluster(request: pytest.FixtureRequest, make_cluster: Callable[..., Cluster]) -> Cluster:
    cluster = make_cluster("--sim-gpus", "1")
    conf, params = cluster.conf / "lsf.conf", cluster.conf / "lsb.params"
    conf.write_text(f"{conf.read_text()}GSCHED_GPU_FENCE={request.param}\n")
    params.write_text(
        params.read_text().replace("Begin Parameters", f"Begin Parameters\nJOB_TERMINATE_INTERVAL = {INTERVAL_S:.0f}")
    )
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    cluster.up()
    if request.param == "Y" and not cluster.is_fenced():
        pytest.skip(cluster.run("ghosts", "-l").stdout.partition("(no fence: ")[2].partition(")")[0])
    return cluster


@pytest.mark.parametrize(
    "suspended", [pytest.param(False, marks=pytest.mark.nightly), True], ids=["running", "suspended"]
)
def test_the_whole_tree_hears_int_and_term_and_is_killed(cluster: Cluster, suspended: bool) -> None:
    """pains 1: each signal reaches everybody, in their order; whoever does not listen has two intervals to live."""
    (cluster.folder / "deaf.py").write_text(DEAF)
    job = cluster.submit("python", "deaf.py", "job")
    files = [cluster.folder / f"pid.{who}" for who in ("job", "escaped")]
    cluster.until(lambda: all(file.exists() for file in files), "the job does not begin")
    pids = [int(file.read_text()) for file in files]
    if suspended:
        cluster.run("gstop", str(job))
        cluster.becomes(job, "USUSP")
    began = time.monotonic()
    cluster.run("gkill", str(job))
    assert [view.state for view in cluster.wait(job)] == ["EXIT"]
    assert time.monotonic() - began > 2 * INTERVAL_S - 0.2
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    heard: dict[str, list[int]] = {}
    for line in (cluster.folder / "heard").read_text().splitlines():
        who, number = line.split()
        heard.setdefault(who, []).append(int(number))
    assert heard == {"job": [2, 15], "escaped": [2, 15]}
