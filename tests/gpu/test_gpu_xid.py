"""A job's program makes an error that the driver reports as an XID: the job is told, and the GPU stays in use."""

from __future__ import annotations

import gpu_machine
import pytest
from findings import Findings
from gpu_cluster import GpuCluster

ILLEGAL_ADDRESS = (700, 716, 717, 718, 719)
"""CUDA_ERROR_ILLEGAL_ADDRESS and others that the driver tells of such a write."""


@pytest.mark.row("failed GPUs: lost, XIDs received as they occur, memory errors, too hot, calls about one that hang")
def test_a_write_to_a_wild_address_is_told(cluster: GpuCluster, findings: Findings) -> None:
    job = cluster.hold(gpu_machine.all_gpus(), "wild", "--wild")
    said = cluster.said("wild", job)
    findings.expect(said.get("code") in ILLEGAL_ADDRESS, "the driver tells the program", said)
    findings.expect(cluster.ended(job) == "EXIT", "the job is EXIT", cluster.state(job))
    findings.comes(
        lambda: "had XID" in cluster.flat("gjobs", "-a", "-l", str(job)),
        "gjobs -l tells of the XID",
        lambda: cluster.flat("gjobs", "-a", "-l", str(job))[-900:],
    )
    findings.expect("had XID" in cluster.flat("ghist", "-l", str(job)), "so does ghist -l")
    findings.expect(cluster.gpu()["STATUS"] == "ok", "the GPU stays open", cluster.gpu()["ERROR"])
    following = cluster.hold(gpu_machine.all_gpus(), "following", "--mib", "1024", "--busy", "--seconds", "1")
    said = cluster.said("following", following)
    findings.expect(not said["error"], "the next job computes on it", said)
    findings.expect(cluster.ended(following) == "DONE", "and is DONE", cluster.output("following"))
