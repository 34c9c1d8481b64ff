"""RETRY through real daemons: what failed runs again, elsewhere, and so often; also with a master that is killed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from live_cluster import Cluster

BUSY = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
TIMEOUT = "[E ProcessGroupNCCL.cpp:475] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2)"
QUEUES = """\
Begin Queue
QUEUE_NAME = tries
PRIORITY = 25
RETRY = gpu_busy:2@other_host   nccl_timeout:1
End Queue
"""


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    cluster = module_cluster("--sim-gpus", "1:default", "--hosts", "one,two")
    cluster.configure(lsb_queues=QUEUES)
    return cluster


def fields(cluster: Cluster, job: int, names: str) -> list[str]:
    return cluster.run("gjobs", "-noheader", "-o", f"{names} delimiter='|'", str(job)).stdout.rstrip("\n").split("|")


def starts(cluster: Cluster, name: str) -> list[str]:
    return (cluster.folder / name).read_text().split()


def test_a_job_whose_gpu_somebody_else_held_runs_again_on_another_host(cluster: Cluster) -> None:
    script = f"echo $LSB_HOSTS >> busy.starts; [ $GSCHED_ATTEMPT -gt 1 ] && exit 0; echo '{BUSY}' >&2; exit 1"
    job = cluster.submit("-q", "tries", "-o", "busy.out", script)
    (view,) = cluster.wait(job)
    assert view.state == "DONE" and sorted(starts(cluster, "busy.starts")) == ["one", "two"]
    assert fields(cluster, job, "stat retries fail_class") == ["DONE", "gpu_busy:1", "-"]
    history = cluster.run("ghist", "-UF", str(job)).stdout
    assert ": Failed: gpu_busy: a GPU was busy or unavailable" in history
    assert ": Pending: it failed (gpu_busy) and runs again, 1 of 2 times (RETRY);" in history


def test_a_killed_master_forgets_neither_the_failure_nor_how_often(cluster: Cluster) -> None:
    wait = "while [ ! -e nccl.go$GSCHED_ATTEMPT ]; do sleep 0.1; done"
    script = (
        f"echo $GSCHED_ATTEMPT >> nccl.starts; {wait}; echo '{TIMEOUT}' >&2; touch nccl.over$GSCHED_ATTEMPT; exit 1"
    )
    job = cluster.submit("-q", "tries", "-o", "nccl.out", script)
    cluster.starts(job)
    cluster.kill("master")
    (cluster.folder / "nccl.go1").touch()
    cluster.until(lambda: (cluster.folder / "nccl.over1").exists(), "it does not end")
    cluster.up()
    cluster.until(lambda: starts(cluster, "nccl.starts") == ["1", "2"], "it does not run again")
    cluster.starts(job)
    assert fields(cluster, job, "retries") == ["nccl_timeout:1"]
    cluster.kill("master")
    cluster.up()
    assert fields(cluster, job, "retries") == ["nccl_timeout:1"]
    (cluster.folder / "nccl.go2").touch()
    (view,) = cluster.wait(job)
    assert view.state == "EXIT" and starts(cluster, "nccl.starts") == ["1", "2"]
    assert fields(cluster, job, "fail_class retries") == ["nccl_timeout", "nccl_timeout:1"]
    history = cluster.run("ghist", "-UF", str(job)).stdout
    assert "It failed (nccl_timeout) and does not run again: RETRY allows 1" in history


def test_what_a_person_has_killed_does_not_run_again(cluster: Cluster) -> None:
    script = f"echo x >> kill.starts; echo '{BUSY}'; trap 'exit 1' INT TERM; sleep 1000 & wait"
    job = cluster.submit("-q", "tries", "-o", "kill.out", script)
    cluster.starts(job)
    cluster.until(lambda: (cluster.folder / "kill.starts").exists(), "it does not begin")
    cluster.run("gkill", str(job))
    (view,) = cluster.wait(job)
    assert view.state == "EXIT" and starts(cluster, "kill.starts") == ["x"]
    assert fields(cluster, job, "fail_class retries") == ["killed", "-"]


def test_the_queue_shows_its_rules_and_bad_ones_are_refused(cluster: Cluster) -> None:
    assert "RETRY:  gpu_busy:2@other_host nccl_timeout:1\n" in cluster.run("gqueues", "-l", "tries").stdout
    path = cluster.conf / "lsb.queues"
    good = path.read_text()
    path.write_text(good.replace("nccl_timeout:1", "nccl_timout:1"))
    done = cluster.run("gadmin", "ckconfig", check=False)
    line = path.read_text().splitlines().index("RETRY = gpu_busy:2@other_host   nccl_timout:1") + 1
    assert done.returncode != 0
    assert f"lsb.queues:{line}: RETRY: 'nccl_timout:1': there is no class 'nccl_timout'" in done.stdout + done.stderr
    path.write_text(good.replace("nccl_timeout:1", "nccl_timeout:3"))
    cluster.run("gadmin", "reconfig", "-f")
    assert "RETRY:  gpu_busy:2@other_host nccl_timeout:3\n" in cluster.run("gqueues", "-l", "tries").stdout
