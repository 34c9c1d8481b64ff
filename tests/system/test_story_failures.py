"""Why jobs failed, through real daemons: by their output, their exit status, their GPUs and who ended them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from live_cluster import Cluster

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39.39 GiB"
BUSY = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
TRACEBACK = 'echo "Traceback (most recent call last):" >&2; '


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "2:default")


def fields(cluster: Cluster, job: int, names: str = "fail_class") -> list[str]:
    said = cluster.run("gjobs", "-noheader", "-o", f"{names} delimiter='|'", str(job)).stdout
    return said.rstrip("\n").split("|")


def test_a_job_without_memory_on_its_gpu_says_so_everywhere(cluster: Cluster) -> None:
    script = f"{TRACEBACK} echo '{OOM}' >&2; echo more; exit 1"
    job = cluster.submit("-gpu", "num=1", "-o", "oom.out", "-e", "oom.err", script)
    cluster.wait(job)
    told = ["a GPU had no memory left", 'ask for a GPU with more memory (-gpu "gmem=..."), or use smaller batches']
    assert fields(cluster, job, "fail_class fail_reason fail_advice") == ["cuda_oom", *told]
    long = cluster.run("gjobs", "-UF", str(job)).stdout
    assert f"\n WHY IT FAILED:\n cuda_oom: {told[0]}; {told[1]};\n" in long
    history = cluster.run("ghist", "-UF", str(job)).stdout
    assert f": Failed: cuda_oom: {told[0]}; {told[1]};\n" in history
    report = (cluster.folder / "oom.out").read_text()
    assert f"\nWhy it failed: cuda_oom: {told[0]}; {told[1]}.\n" in report
    (record,) = json.loads(cluster.run("gjobs", "-json", "-o", "fail_class fail_reason", str(job)).stdout)["RECORDS"]
    assert (record["FAIL_CLASS"], record["FAIL_REASON"]) == ("cuda_oom", told[0])
    # What the job has printed is its owner's: none of it is in what others may read.
    assert "2.00 GiB" not in long.partition("SCHEDULING PARAMETERS")[2] + history.partition("Dispatched")[2]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["-o", "x1", f"echo '{BUSY}'; exit 1"], "gpu_busy"),
        ([f"{TRACEBACK} echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1"], "python_import"),
        (["PATH=/usr/bin:/bin; no-such-command-anywhere"], "command_not_found"),
        (["kill -SEGV $$"], "segfault"),
        (["exit 3"], "exit_code"),
        ([f"echo '{BUSY}'"], "-"),
        (["cat /etc/passwd > /dev/full"], "disk_full"),
    ],
)
def test_the_class_of_a_job_that_failed(cluster: Cluster, words: list[str], wanted: str) -> None:
    job = cluster.submit(*words)
    cluster.wait(job)
    assert fields(cluster, job) == [wanted]


def test_one_that_a_person_killed_is_not_judged_by_its_output(cluster: Cluster) -> None:
    job = cluster.submit("-o", "killed.out", f"trap 'exit 1' INT TERM; echo '{OOM}'; touch there; sleep 1000 & wait")
    cluster.starts(job)
    cluster.until(lambda: (cluster.folder / "there").exists(), "it does not begin")
    cluster.run("gkill", str(job))
    cluster.wait(job)
    assert fields(cluster, job, "fail_class fail_reason") == ["killed", "somebody ended it (TERM_OWNER)"]


def test_an_attempt_that_ended_while_no_agent_was_there_is_judged_by_the_next(cluster: Cluster) -> None:
    script = f"while [ ! -e agentless ]; do sleep 0.1; done; {TRACEBACK} echo '{OOM}' >&2; touch over; exit 1"
    job = cluster.submit("-o", "agentless.out", script)
    cluster.starts(job)
    cluster.kill(f"agent-{cluster.host}")
    (cluster.folder / "agentless").touch()
    cluster.until(lambda: (cluster.folder / "over").exists(), "it does not end")
    cluster.up()
    cluster.wait(job)
    assert fields(cluster, job) == ["cuda_oom"]


def test_an_error_of_the_driver_is_why_a_job_failed(cluster: Cluster) -> None:
    job = cluster.submit("-gpu", "num=1", "sleep 1000")
    index = cluster.starts(job).allocation
    assert index is not None
    (gpu,) = index.hosts[0].gpus
    cluster.run("gsched", "sim-gpu", str(gpu.index), "xid=79", "--dir", str(cluster.folder))
    cluster.wait(job)
    assert fields(cluster, job, "fail_class fail_reason") == [
        "xid",
        "a GPU of the job had an error of the driver (XID 79)",
    ]
