"""Which GPUs a job sees: CUDA's are those that gsched gave it, and in a fence it can open no other."""

from __future__ import annotations

import sys

import gpu_machine
import pytest
from findings import Findings
from gpu_cluster import CUDA, GpuCluster, Told


def look(cluster: GpuCluster, name: str, *words: str, gpu: str = "") -> Told:
    """What a job that only looks has seen; `words` come before its program."""
    options = ("-gpu", gpu) if gpu else ()
    program = [sys.executable, CUDA, "--look", "--say", cluster.file(name)]
    return cluster.said(name, cluster.submit(*options, "-o", f"{name}.log", *words, *program))


@pytest.mark.row("`CUDA_VISIBLE_DEVICES` means the same GPU to CUDA as to NVML")
def test_cuda_sees_the_gpus_of_the_job(cluster: GpuCluster, findings: Findings) -> None:
    count = len(gpu_machine.gpus("index"))
    for index in range(count):
        held = {"gpu": "num=1:mode=exclusive_process" if gpu_machine.mode() == gpu_machine.EXCLUSIVE else "num=1"}
        said = look(cluster, f"sees{index}", **held)
        findings.expect(said.get("uuid") == said.get("GSCHED_GPU_UUIDS"), "CUDA's device is gsched's, by UUID", said)
        findings.expect(said.get("count") == 1, "CUDA shows one device to a job of one GPU", said)
        findings.expect(said.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID", "CUDA_DEVICE_ORDER is PCI_BUS_ID", said)
    said = look(cluster, "all", gpu=gpu_machine.all_gpus())
    findings.expect(said.get("count") == count, f"a job of all GPUs sees {count}", said)
    findings.expect(said.get("uuid") == gpu_machine.uuid(), "the first of them is nvidia-smi's first", said)


@pytest.mark.row("a job cannot open GPUs that are not its own")
def test_a_job_without_a_gpu_sees_none(cluster: GpuCluster, findings: Findings) -> None:
    said = look(cluster, "none")
    findings.expect(said.get("error") and not said.get("count"), "CUDA shows no GPU to a job that has none", said)
    if not cluster.is_fenced():
        pytest.skip("no fence here: ghosts -l says why")
    if not said["devices"]:
        pytest.skip("there are no device files of GPUs here")
    is_denied = set(said["devices"].values()) == {"EPERM"}
    findings.expect(is_denied, "it cannot open any device of a GPU", said["devices"])
    unset = look(cluster, "unset", "env", "-u", "CUDA_VISIBLE_DEVICES")
    findings.expect(unset.get("error"), "nor without CUDA_VISIBLE_DEVICES", unset)
    escaped = look(cluster, "escaped", "env", "-u", "CUDA_VISIBLE_DEVICES", "setsid", "--wait")
    findings.expect(escaped.get("error"), "nor in a session of its own", escaped)
    own = look(cluster, "own", "env", "-u", "CUDA_VISIBLE_DEVICES", gpu=gpu_machine.all_gpus())
    findings.expect(own.get("uuid") == gpu_machine.uuid(), "a job with GPUs has them also without the variable", own)
