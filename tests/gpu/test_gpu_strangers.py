"""Processes of no job: before a job, beside it, after it; and jobs that take more memory than they asked for."""

from __future__ import annotations

import time

import gpu_machine
import pytest
from findings import PATIENCE_S, Findings
from gpu_cluster import GpuCluster
from gpu_machine import DEFAULT, all_gpus

pytestmark = pytest.mark.row("foreign processes before jobs, leftovers after them")

MEMORY = ("--mib", "1024")


@pytest.fixture
def is_shared() -> None:
    """Two processes may be on a GPU."""
    if gpu_machine.mode() != DEFAULT:
        pytest.skip("needs GPUs in compute mode Default")


def test_a_job_waits_for_a_stranger_and_says_for_whom(cluster: GpuCluster, findings: Findings) -> None:
    stranger = cluster.stranger("before", *MEMORY)
    try:
        mark = f",{stranger.pid},"
        findings.comes(
            lambda: mark in (cluster.gpu().get("ERROR") or ""),
            "ghosts -gpu names the process for which the GPU is not offered",
            lambda: cluster.gpu().get("ERROR"),
        )
        job = cluster.hold(all_gpus(), "after", "--seconds", "1")
        told = findings.comes(lambda: mark in cluster.flat("gjobs", "-p", str(job)), "gjobs -p names it")
        real_mib = gpu_machine.processes().get(stranger.pid)
        if told and real_mib is not None:
            why = cluster.flat("gjobs", "-p", str(job))
            told_mib = int(why.partition(mark)[2].partition(")")[0])
            findings.expect(abs(told_mib - real_mib) <= 16, f"its memory is nvidia-smi's, {real_mib} MiB", why)
        findings.expect(cluster.state(job) == "PEND", "the job waits", cluster.state(job))
    finally:
        gone = time.time()
        stranger.terminate()
        stranger.wait(PATIENCE_S)
    said = cluster.said("after", job)
    if findings.expect(not said["error"], "the job starts when the stranger has gone", said):
        findings.measure("seconds from a stranger's end to the job's context", f"{said['at'] - gone:.2f}")
    findings.expect(cluster.ended(job) == "DONE", "the job is DONE", cluster.output("after"))


@pytest.mark.usefixtures("is_shared")
def test_a_stranger_beside_a_job_is_told_to_the_job(cluster: GpuCluster, findings: Findings) -> None:
    job = cluster.hold(all_gpus(), "beside", "--until", cluster.file("beside.stop"))
    findings.expect(not cluster.said("beside", job)["error"], "the job has the GPU")
    stranger = cluster.stranger("guest", *MEMORY)
    try:
        findings.comes(
            lambda: f"process {stranger.pid} " in cluster.flat("gjobs", "-l", str(job)),
            "gjobs -l of the job names the process beside it",
        )
        findings.expect(cluster.state(job) == "RUN", "the job goes on")
    finally:
        stranger.terminate()
        stranger.wait(PATIENCE_S)
    cluster.touch("beside.stop")
    findings.expect(cluster.ended(job) == "DONE", "the job is DONE", cluster.output("beside"))


def test_what_a_job_leaves_on_a_gpu_ends_before_the_next_job(cluster: GpuCluster, findings: Findings) -> None:
    job = cluster.hold(all_gpus(), "left", *MEMORY, "--leave-behind")
    following = cluster.hold(all_gpus(), "next", "--seconds", "1")
    left = cluster.said("left", job)
    is_left = not left["error"] and left["GSCHED_GPU_UUIDS"] is None
    findings.expect(is_left, "a process without the job's environment holds the GPU", left)
    findings.expect(cluster.ended(job) == "DONE", "the job is DONE", cluster.output("left"))
    said = cluster.said("next", following)
    findings.expect(not said["error"], "the next job starts", said)
    findings.expect(not gpu_machine.is_alive(left["pid"]), "what was left had ended before")
    told = cluster.flat("ghist", "-l", str(job))
    findings.expect(str(left["pid"]) in told, "ghist -l names what was still running", told)
    findings.expect(cluster.ended(following) == "DONE", "the next job is DONE", cluster.output("next"))
    findings.expect(cluster.gpu()["STATUS"] == "ok", "the GPU is ok", cluster.gpu()["ERROR"])


@pytest.mark.usefixtures("is_shared")
def test_a_job_beyond_its_memory_is_told_so(cluster: GpuCluster, findings: Findings) -> None:
    job = cluster.hold("num=1:gmem=1G", "greedy", "--mib", "3072", "--until", cluster.file("greedy.stop"))
    findings.expect(not cluster.said("greedy", job)["error"], "the job has its memory")
    findings.comes(
        lambda: "uses more memory of GPU" in cluster.flat("gjobs", "-l", str(job)),
        "gjobs -l says that it uses more memory than its gmem=",
    )
    cluster.touch("greedy.stop")
    cluster.ended(job)


def test_the_end_of_a_killed_job_is_told_when_its_gpu_is_free(cluster: GpuCluster, findings: Findings) -> None:
    job = cluster.hold(all_gpus(), "killed", "--mib", "8192", "--busy")
    said = cluster.said("killed", job)
    findings.expect(not said["error"], "the job computes", said)
    began = time.monotonic()
    cluster.run("gkill", "-s", "KILL", str(job))
    findings.expect(cluster.ended(job) == "EXIT", "the job is EXIT", cluster.state(job))
    findings.measure("seconds from gkill -s KILL to EXIT, 8 GiB on the GPU", f"{time.monotonic() - began:.2f}")
    findings.expect(said["pid"] not in gpu_machine.processes(), "its process is not on the GPU any more")
    findings.expect(cluster.gpu()["STATUS"] == "ok", "the GPU is ok", cluster.gpu()["ERROR"])
