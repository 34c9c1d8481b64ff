"""torchrun by `gsub --launch torch`, with NCCL on all GPUs of this machine."""

from __future__ import annotations

from pathlib import Path

import gpu_machine
import pytest
from findings import Findings
from gpu_cluster import PROGRAMS, GpuCluster


@pytest.mark.row("`gsub --launch torch`: torchrun with NCCL")
def test_ranks_add_up_with_nccl(cluster: GpuCluster, findings: Findings, torch_python: str) -> None:
    count = len(gpu_machine.gpus("index"))
    path = f"{cluster.env['PATH']}:{Path(torch_python).parent}"
    program = (torch_python, str(PROGRAMS / "all_reduce.py"), cluster.file("ranks"))
    words = ("-gpu", gpu_machine.all_gpus(), "-o", "ranks.log", "--launch", "torch", *program)
    job = cluster.submit(*words, PATH=path)
    findings.expect(cluster.ended(job) == "DONE", "torchrun ends well", cluster.output("ranks")[-1500:])
    said = cluster.said("ranks", job)
    findings.expect(said.get("world") == count, f"there are {count} ranks", said)
    findings.expect(said.get("mean") == count, "their sum is right", said)
    findings.expect(said.get("uuid") == gpu_machine.uuid(), "rank 0 is on the first GPU", said)
    findings.measure("PyTorch, NCCL", f"{said.get('torch')}, {said.get('nccl')}")
