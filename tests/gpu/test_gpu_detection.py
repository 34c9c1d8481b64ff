"""What gsched tells of the GPUs is what nvidia-smi tells. No job uses a GPU here."""

from __future__ import annotations

from pathlib import Path

import gpu_machine
import pytest
from findings import Findings
from gpu_cluster import MIB, GpuCluster
from gpu_machine import number

pytestmark = pytest.mark.looks_only

FIELDS = (
    *("index", "uuid", "name", "memory.total", "memory.used", "pci.bus_id", "driver_version", "compute_mode"),
    *("temperature.gpu", "power.draw", "pstate"),
    *("ecc.errors.uncorrected.volatile.total", "ecc.errors.corrected.volatile.total"),
)
COUNTERS = {"Default": "ngpus_shared", "Exclusive_Thread": "ngpus_excl_t", "Exclusive_Process": "ngpus_excl_p"}
NUMBERS = {
    "TEMP": ("temperature.gpu", 5.0),
    "POWER": ("power.draw", 30.0),
    "PSTATE": ("pstate", 0.0),
    "ECC": ("ecc.errors.uncorrected.volatile.total", 0.0),
    "ECC_CORR": ("ecc.errors.corrected.volatile.total", 0.0),
}
"""Field of ghosts -> that of nvidia-smi, and how far they may be apart: both looked at different moments."""


@pytest.mark.row("counting and reserving by compute mode")
def test_gpus_are_counted_by_mode(cluster: GpuCluster, findings: Findings) -> None:
    modes = [row["compute_mode"] for row in gpu_machine.gpus("compute_mode")]
    words = cluster.run("elim.gpu", "--once").stdout.split()
    counted = dict(zip(words[1::2], words[2::2], strict=True))
    findings.expect(counted.get("ngpus") == str(len(modes)), "elim.gpu counts what nvidia-smi shows", counted)
    for mode, counter in COUNTERS.items():
        findings.expect(counted.get(counter) == str(modes.count(mode)), f"elim.gpu counts GPUs in {mode}", counted)


@pytest.mark.row("detecting GPUs, UUIDs, compute modes, memory")
def test_gpus_are_those_of_the_driver(cluster: GpuCluster, findings: Findings) -> None:
    real, told = gpu_machine.gpus(*FIELDS), cluster.records("ghosts", "-gpu", "-l")
    findings.expect(len(told) == len(real), "as many GPUs", len(told))
    for ours, theirs in zip(told, real, strict=False):
        name = f"GPU {theirs['index']}"
        findings.expect(ours["GPU_ID"] == int(theirs["index"]), f"{name}: index", ours["GPU_ID"])
        pairs = {"UUID": "uuid", "MODEL": "name", "PCI": "pci.bus_id", "DRIVER": "driver_version"}
        for key, field in {**pairs, "MODE": "compute_mode"}.items():
            is_same = str(ours[key]).lower() == theirs[field].lower()
            findings.expect(is_same, f"{name}: {key} is {theirs[field]}", ours[key])
        for key, field, slack_mib in (("MTOTAL", "memory.total", 1), ("MUSED", "memory.used", 64)):
            told_mib, real_mib = (ours[key] or 0) / MIB, number(theirs[field]) or 0.0
            findings.expect(abs(told_mib - real_mib) <= slack_mib, f"{name}: {key} is {real_mib:.0f} MiB", told_mib)
        if not gpu_machine.processes():
            findings.expect(ours["STATUS"] == "ok" and not ours["ERROR"], f"{name} is ok", ours["ERROR"])


@pytest.mark.row("processes and their jobs, power, ECC, links, MIG layout; device minors in another order than indices")
def test_readings_are_those_of_the_driver(cluster: GpuCluster, findings: Findings) -> None:
    real, told = gpu_machine.gpus(*FIELDS), cluster.records("ghosts", "-gpu", "-l")
    for ours, theirs in zip(told, real, strict=False):
        for key, (field, slack) in NUMBERS.items():
            what, known = f"GPU {theirs['index']}: {key} is {theirs[field]}", number(theirs[field])
            if known is None:
                findings.expect(ours[key] is None, what, ours[key])
            else:
                found = number(ours[key])
                findings.expect(found is not None and abs(found - known) <= slack, what, ours[key])
    minors = gpu_machine.minors()
    for ours in told:
        minor = minors.get(ours["UUID"])
        if minor is not None:
            is_there = ours["DEVICE"] == f"/dev/nvidia{minor}" and Path(ours["DEVICE"]).exists()
            findings.expect(is_there, f"the device of GPU {ours['GPU_ID']} is /dev/nvidia{minor}", ours["DEVICE"])
    if len(told) == 1:
        findings.expect(told[0]["LINKS"] == [], "one GPU has no links", told[0]["LINKS"])


@pytest.mark.row("detecting GPUs, UUIDs, compute modes, memory")
def test_the_compute_capability_can_be_selected(cluster: GpuCluster, findings: Findings) -> None:
    most = max(float(row["compute_cap"]) for row in gpu_machine.gpus("compute_cap"))
    for selection, is_there in ((f"gpu_maxfactor>={most}", True), (f"gpu_maxfactor>{most}", False)):
        told = cluster.run("ghosts", "-R", f"select[{selection}]", check=False).stdout
        findings.expect((cluster.host in told) == is_there, f"{selection} selects the host: {is_there}", told)


@pytest.mark.row("failed GPUs: lost, XIDs received as they occur, memory errors, too hot, calls about one that hang")
def test_errors_of_the_driver_are_heard(cluster: GpuCluster, findings: Findings) -> None:
    notes = cluster.flat("ghosts", "-l")
    findings.expect("are not heard" not in notes, "ghosts -l has no note that XIDs are not heard", notes[-400:])
    findings.measure("jobs are fenced", "yes" if cluster.is_fenced() else "no, see ghosts -l")
