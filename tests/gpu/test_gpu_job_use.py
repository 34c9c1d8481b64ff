"""What is told of a job that computes: its process, its readings, its energy; also when the agent dies meanwhile."""

from __future__ import annotations

import re
import time

import gpu_machine
import pytest
from findings import Findings
from gpu_cluster import MIB, TORCH, GpuCluster, Told
from gpu_machine import number

MEMORY_MIB = 2048
WITH_AGENT_S = 5.0
"""How long the job computes before its agent is killed, and after the next one has come."""
BUSY_PERCENT = 80

pytestmark = [
    pytest.mark.row("what jobs make of their GPUs: utilization, memory, energy"),
    pytest.mark.limit(150),
]


def run_computing(cluster: GpuCluster, python: str) -> tuple[int, Told]:
    """A job that computes with PyTorch, or with CUDA alone where there is none, until the file `stop` is there."""
    if python:
        words = [python, TORCH, "--until", cluster.file("job.stop"), "--say", cluster.file("job")]
        job = cluster.submit("-gpu", gpu_machine.all_gpus(), "-o", "job.log", *words)
    else:
        options = ("--mib", str(MEMORY_MIB), "--busy", "--until", cluster.file("job.stop"))
        job = cluster.hold(gpu_machine.all_gpus(), "job", *options)
    return job, cluster.said("job", job)


def test_the_use_of_gpus_is_what_the_driver_counted(cluster: GpuCluster, findings: Findings, any_torch: str) -> None:
    before_j, began = energy_j(), time.monotonic()
    job, said = run_computing(cluster, any_torch)
    findings.measure(f"seconds until {'PyTorch' if any_torch else 'CUDA'} computes", f"{time.monotonic() - began:.1f}")
    assert not said["error"], (said, cluster.output("job"))
    shown_while_it_runs(cluster, findings, job, said["pid"])
    most_mib = gpu_machine.processes().get(said["pid"]) or 0
    time.sleep(WITH_AGENT_S)
    cluster.kill(f"agent-{cluster.host}")
    findings.expect(gpu_machine.is_alive(said["pid"]), "the job goes on without its agent")
    cluster.up()
    time.sleep(WITH_AGENT_S)
    cluster.touch("job.stop")
    findings.expect(cluster.ended(job) == "DONE", "the job is DONE", cluster.output("job")[-600:])
    counted_j, use = energy_j() - before_j, cluster.use(job)
    totals(findings, use, most_mib)
    view = cluster.job(job)
    ran_s = view.result.run_s if view.result is not None else 0.0
    covered_s = use.get("TOTAL_EXECUTION_TIME") or 0
    findings.expect(ran_s - 10 <= covered_s <= ran_s + 2, f"the samples cover the run of {ran_s:.0f} s", covered_s)
    if counted_j > 0:
        told_j = use.get("ENERGY_CONSUMED") or 0
        is_right = use.get("ENERGY_COUNTED") and 0.5 * counted_j <= told_j <= counted_j + 30
        findings.expect(is_right, f"the energy is what the device counted, {counted_j:.0f} J at most", told_j)
        findings.measure("energy of the job, and by the device from before it until after it", f"{told_j}, {counted_j}")
    (account,) = cluster.records("gacct", "-gpu", str(job))
    is_same = abs((account["GPU_ENERGY_CONSUMED"] or 0) - (use.get("ENERGY_CONSUMED") or 0)) < 1
    findings.expect(is_same, "gacct tells the same energy", account["GPU_ENERGY_CONSUMED"])
    findings.expect("GPU use :" in (cluster.folder / "job.log").read_text(), "the job report has a line on GPU use")


def energy_j() -> float:
    """The counter of the first GPU; 0 where it has none."""
    import pynvml  # the driver's library is there now; at the top of the file it need not be

    pynvml.nvmlInit()
    try:
        return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(0)) / 1000)
    except pynvml.NVMLError:
        return 0.0
    finally:
        pynvml.nvmlShutdown()


def shown_while_it_runs(cluster: GpuCluster, findings: Findings, job: int, pid: int) -> None:
    """The process and the readings of the GPU, as nvidia-smi has them."""

    def has_all_its_memory() -> Told:
        found = cluster.process(pid)
        return found if (found.get("MUSED") or 0) >= MEMORY_MIB * MIB else {}

    listed = findings.comes(has_all_its_memory, "ghosts lists the process with its memory", cluster.gpu)
    real_mib, told_mib = gpu_machine.processes().get(pid), (listed.get("MUSED") or 0) / MIB
    findings.expect(listed.get("JOBID") == str(job) and listed.get("TYPE") == "C", "it is the job's", listed)
    if real_mib is not None:
        findings.expect(abs(told_mib - real_mib) <= 64, f"its memory is nvidia-smi's, {real_mib} MiB", told_mib)
    table = cluster.run("gjobs", "-l", "-gpu", str(job)).stdout.partition("GPU_PROCESSES:")[2]
    findings.expect(re.search(rf"\b{pid}\b.*\bC\b", table), "gjobs -l -gpu lists it", table[:400])
    findings.comes(lambda: (cluster.gpu().get("UT") or 0) >= BUSY_PERCENT, "ghosts says that the GPU is busy")
    real, told = gpu_machine.gpus("utilization.gpu", "memory.used")[0], cluster.gpu()
    used_mib, real_used_mib = (told["MUSED"] or 0) / MIB, number(real["memory.used"]) or 0.0
    findings.expect(abs(used_mib - real_used_mib) <= 64, f"{real_used_mib:.0f} MiB are in use", used_mib)
    findings.measure("under load, power in W and temperature by ghosts", f"{told['POWER']}, {told['TEMP']}")


def totals(findings: Findings, use: Told, most_mib: int) -> None:
    """What ghist tells after the end."""
    findings.expect(use.get("UUID") == gpu_machine.uuid() and use.get("GPU_ID") == 0, "ghist names the GPU", use)
    busiest = (use.get("SM_UTILIZATION") or {}).get("MAX") or 0
    findings.expect(busiest >= BUSY_PERCENT, f"utilization was {BUSY_PERCENT} % and more", use.get("SM_UTILIZATION"))
    told_mib = (use.get("MAX_GPU_MEMORY_USED") or 0) / MIB
    is_near = abs(told_mib - most_mib) <= max(64.0, 0.15 * most_mib)
    findings.expect(is_near, f"the most memory was {most_mib} MiB", told_mib)
    points = (use.get("CURVE") or {}).get("POINTS") or []
    findings.expect(any(point["SM_UTILIZATION"][2] >= BUSY_PERCENT for point in points), "so says the curve", points)
    known = ("SM_ACTIVE", "TENSOR_ACTIVE", "MEMORY_BANDWIDTH", "PCIE_SENT", "NVLINK_SENT", "THROTTLED_TIME")
    findings.measure("use by ghist", {name: use.get(name) for name in known})
    own = [each["SM_UTILIZATION"]["MAX"] for each in use.get("PROCESS_USE") or () if each.get("SM_UTILIZATION")]
    findings.measure("the most that a process of the job computed, in percent", max(own, default=None))
