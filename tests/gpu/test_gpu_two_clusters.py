"""Two clusters on one machine never use a GPU at once, and each says what the other has."""

from __future__ import annotations

import time

import pytest
from findings import Findings
from gpu_cluster import GpuCluster, MakeGpuCluster
from gpu_machine import all_gpus

pytestmark = pytest.mark.row("two clusters on one machine avoid each other's GPUs")

MANY = 8
ALONE = """
import fcntl, pathlib, sys, time
lock = open(sys.argv[1], "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    pathlib.Path(sys.argv[1] + ".overlap").touch()
time.sleep(0.2)
"""
"""Notes it when another such job runs."""


@pytest.fixture(scope="module")
def both(cluster: GpuCluster, make_cluster: MakeGpuCluster) -> list[GpuCluster]:
    return [cluster, make_cluster()]


def test_one_waits_for_the_jobs_of_the_other(both: list[GpuCluster], findings: Findings) -> None:
    one, other = both
    first = one.hold(all_gpus(), "first", "--mib", "512", "--until", one.file("first.stop"))
    findings.expect(not one.said("first", first)["error"], "a job of the first cluster has the GPUs")
    findings.comes(lambda: "is not offered" in other.flat("ghosts", "-l"), "the second says that they are not offered")
    second = other.hold(all_gpus(), "second", "--mib", "512", "--seconds", "1")
    findings.measure("reason of the second cluster's job", other.why_pending(second))
    findings.expect(other.state(second) == "PEND" and one.state(first) == "RUN", "the second cluster's job waits")
    freed = time.time()
    one.touch("first.stop")
    said = other.said("second", second)
    if findings.expect(not said["error"], "it starts when the first has ended", said):
        findings.measure("seconds from the end of one's job to the context of the other's", f"{said['at'] - freed:.2f}")
    findings.expect(other.ended(second) == "DONE", "it is DONE", other.output("second"))
    findings.expect(one.ended(first) == "DONE", "the first is DONE", one.output("first"))
    findings.comes(lambda: "is not offered" not in one.flat("ghosts", "-l"), "the first cluster offers the GPUs again")


def test_short_jobs_of_both_are_never_there_at_once(both: list[GpuCluster], findings: Findings) -> None:
    lock, began = both[0].file("lock"), time.monotonic()
    jobs = [
        (cluster, cluster.submit("-gpu", all_gpus(), "python", "-c", ALONE, lock))
        for _ in range(MANY // 2)
        for cluster in both
    ]
    for cluster, job in jobs:
        findings.expect(cluster.ended(job) == "DONE", f"job {job} is DONE")
    findings.expect(not (both[0].folder / "lock.overlap").exists(), "no two of them ran at once")
    findings.measure(f"seconds for {MANY} jobs of 0.2 s of two clusters", f"{time.monotonic() - began:.1f}")
