"""Two jobs share a GPU by NVIDIA's MPS: one daemon for both, which ends after them."""

from __future__ import annotations

import shutil
from pathlib import Path

import gpu_machine
import pytest
from findings import Findings
from gpu_cluster import GpuCluster, MakeGpuCluster, Told

pytestmark = pytest.mark.row("MPS: one daemon for the jobs of a GPU, its end, its crash")

SHARED = "num=1:mps=yes:gpack=yes:gmem=4G"
NAMES = ("one", "two")


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeGpuCluster) -> GpuCluster:
    """Two jobs may share a GPU."""
    program = shutil.which("nvidia-cuda-mps-control")
    if not program:
        pytest.skip("nvidia-cuda-mps-control is not here")
    if gpu_machine.mode() != gpu_machine.DEFAULT:
        pytest.skip("needs GPUs in compute mode Default")
    params = ("GPU_SHARED_JOBS = 1", "GPU_SHARED_JOBS = 2")
    return make_cluster(lsf=f"GSCHED_MPS_CONTROL={program}", params=params)


def test_two_jobs_share_a_daemon(cluster: GpuCluster, findings: Findings) -> None:
    options = ("--mib", "1024", "--busy", "--until", cluster.file("stop"))
    jobs = [cluster.hold(SHARED, name, *options) for name in NAMES]
    said = [cluster.said(name, job) for name, job in zip(NAMES, jobs, strict=True)]
    assert not any(each["error"] for each in said), said
    pipes = {each["CUDA_MPS_PIPE_DIRECTORY"] for each in said}
    findings.expect(len(pipes) == 1 and None not in pipes, "they share a daemon", pipes)
    folder = Path(str(pipes.pop()))
    control = int((folder / "nvidia-cuda-mps-control.pid").read_text())
    findings.expect(gpu_machine.is_alive(control), "the daemon runs")
    whose(cluster, findings, jobs, [each["pid"] for each in said])
    findings.expect("is used by processes of no job" not in cluster.flat("ghosts", "-l"), "nobody counts as foreign")
    for job in jobs:
        findings.comes(
            lambda job=job: 1000 < memory_mib(cluster, job) < 20_000,  # type: ignore[misc]
            f"the memory of job {job} is told apart",
            lambda job=job: memory_mib(cluster, job),  # type: ignore[misc]
        )
    cluster.touch("stop")
    for job in jobs:
        findings.expect(cluster.ended(job) == "DONE", f"job {job} is DONE")
    findings.comes(lambda: not gpu_machine.is_alive(control), "the daemon ends after them")
    findings.comes(lambda: not folder.exists(), "its folder is removed")


def memory_mib(cluster: GpuCluster, job: int) -> float:
    """The most that the job, which runs, had on its GPU; 0 as long as that is unknown."""
    usage = cluster.job(job).usage
    return max((use.mem_max_mib or 0.0 for use in usage.gpus), default=0.0) if usage is not None else 0.0


def whose(cluster: GpuCluster, findings: Findings, jobs: list[int], pids: list[int]) -> None:
    """The clients and the server, as ghosts lists them."""

    def listed() -> dict[int, Told]:
        found = {each["PID"]: each for each in cluster.gpu().get("PROCESSES") or ()}
        return found if set(pids) <= set(found) else {}

    found = findings.comes(listed, "ghosts lists both clients", cluster.gpu)
    types = gpu_machine.process_types()
    findings.measure("types by nvidia-smi", types)
    for job, pid in zip(jobs, pids, strict=True):
        row = found.get(pid, {})
        findings.expect(row.get("JOBID") == str(job), f"process {pid} is job {job}'s", row)
        findings.expect(row.get("TYPE") == types.get(pid, "M+C"), "its type is nvidia-smi's", row)
    servers = [row for pid, row in found.items() if pid not in pids]
    is_counted = servers and all(row["JOBID"] in map(str, jobs) for row in servers)
    findings.expect(is_counted, "the server counts for one of the jobs", servers)


def test_gmem_is_a_limit(cluster: GpuCluster, findings: Findings) -> None:
    job = cluster.hold("num=1:mps=yes:gmem=2G", "over", "--mib", "4096", "--seconds", "1")
    findings.expect(cluster.ended(job) == "EXIT", "MPS refuses 4 GiB to a job of gmem=2G", cluster.output("over"))


def test_a_job_without_mps_runs_afterwards(cluster: GpuCluster, findings: Findings) -> None:
    job = cluster.hold(gpu_machine.all_gpus(), "plain", "--seconds", "1")
    said = cluster.said("plain", job)
    findings.expect(not said["error"], "it has the GPU", said)
    findings.expect(cluster.ended(job) == "DONE", "it is DONE", cluster.output("plain"))
