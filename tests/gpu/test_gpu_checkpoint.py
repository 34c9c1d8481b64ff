"""A job that is preempted is moved off its GPU with NVIDIA's cuda-checkpoint, and back, and does not notice."""

from __future__ import annotations

import json
import os
import shutil
import time

import gpu_machine
import pytest
from findings import Findings
from gpu_cluster import TORCH, GpuCluster, MakeGpuCluster
from gpu_machine import number

pytestmark = [
    pytest.mark.row("preempted jobs moved off their GPU and back with `cuda-checkpoint`"),
    pytest.mark.limit(150),
]

URGENT = "Begin Queue\nQUEUE_NAME = urgent\nPRIORITY = 90\nPREEMPTION = PREEMPTIVE[normal]\nEnd Queue\n"
ALONE = "num=1:j_exclusive=yes"
MEMORY = ("--mib", "4096", "--busy")


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeGpuCluster) -> GpuCluster:
    program = os.environ.get("GSCHED_CUDA_CHECKPOINT") or shutil.which("cuda-checkpoint")
    if not program:
        pytest.skip("cuda-checkpoint is not here")
    if gpu_machine.mode() != gpu_machine.DEFAULT or len(gpu_machine.gpus("index")) > 1:
        pytest.skip("needs one GPU, in compute mode Default")
    return make_cluster(lsf=f"GSCHED_CUDA_CHECKPOINT={program}", lsb_queues=URGENT)


def used_mib() -> float:
    return number(gpu_machine.gpus("memory.used")[0]["memory.used"]) or 0.0


def moved_and_back(cluster: GpuCluster, findings: Findings, job: int, name: str) -> None:
    """The job that writes to NAME computes; an urgent one takes its GPU and gives it back."""
    said = cluster.said(name, job)
    assert not said["error"], (said, cluster.output(name))
    before_mib, began = used_mib(), time.time()
    stop = f"{name}.urgent.stop"
    urgent = cluster.hold(
        ALONE, f"{name}.urgent", "--mib", "2048", "--until", cluster.file(stop), gsub=("-q", "urgent")
    )
    found = cluster.said(f"{name}.urgent", urgent)
    findings.expect(not found["error"], "the urgent job gets the GPU", cluster.flat("ghist", "-l", str(job)))
    if not found["error"]:
        findings.measure(f"{name}: seconds until the urgent job has its context", f"{found['at'] - began:.2f}")
        findings.expect(cluster.state(job) == "SSUSP", "the other is suspended", cluster.state(job))
        is_off = said["pid"] not in gpu_machine.processes() and used_mib() < before_mib
        findings.expect(is_off, f"less than its {before_mib:.0f} MiB are in use", gpu_machine.processes())
        told = cluster.flat("gjobs", "-l", str(job))
        findings.expect("the GPU is given back" in told, "gjobs -l says that its GPU is given back", told[-600:])
    freed = time.monotonic()
    cluster.touch(stop)
    cluster.ended(urgent)
    findings.comes(lambda: cluster.state(job) == "RUN", "it goes on", lambda: cluster.state(job))
    findings.comes(lambda: said["pid"] in gpu_machine.processes(), "it is on its GPU again", gpu_machine.processes)
    findings.measure(f"{name}: seconds until it is on its GPU again", f"{time.monotonic() - freed:.2f}")
    time.sleep(2.0)  # it computes a little
    cluster.touch(f"{name}.stop")
    findings.expect(cluster.ended(job) == "DONE", "it is DONE", cluster.output(name))
    path = cluster.folder / f"{name}.end"
    result = json.loads(path.read_text()) if path.exists() else {}
    findings.expect(result.get("is_intact"), "its memory is what it was", result)
    told = cluster.flat("ghist", "-l", str(job))
    findings.expect("Moved off its GPU" in told, "ghist -l tells of it", told)


def test_a_cuda_program_is_moved(cluster: GpuCluster, findings: Findings) -> None:
    job = cluster.hold(ALONE, "cuda", *MEMORY, "--until", cluster.file("cuda.stop"))
    moved_and_back(cluster, findings, job, "cuda")


def test_pytorch_is_moved(cluster: GpuCluster, findings: Findings, torch_python: str) -> None:
    names = {
        f"--{word}": cluster.file(f"torch{end}") for word, end in (("say", ""), ("end", ".end"), ("until", ".stop"))
    }
    options = [word for pair in names.items() for word in pair]
    job = cluster.submit("-gpu", ALONE, "-o", "torch.log", torch_python, TORCH, *options)
    moved_and_back(cluster, findings, job, "torch")
