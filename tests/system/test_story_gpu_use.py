"""What a job makes of its GPUs: from a driver that plays curves, through real daemons, to who asks for it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import Cluster

from gsched.model.gpus.gpu_curve import MOST_POINTS

MIB = 1 << 20
WATTS = 200
MIB_PER_S = 50


@pytest.fixture(scope="module")
def machine(driver_folder: Path) -> Path:
    """The state of a machine with two GPUs: the first one computes, the second one never does."""
    lines = ["count=2", "driver=570.86.10", f"since={time.time() - 1000}"]
    for index in range(2):
        lines += [f"gpu.{index}.uuid=GPU-{os.getpid():08x}-2222-4000-8000-{index:012d}", f"gpu.{index}.mem_mib=81559"]
        lines += [f"gpu.{index}.power_mw={WATTS * 1000}", f"gpu.{index}.energy_mj=ramp:{WATTS * 1000}:7"]
    lines += ["gpu.0.util=80", "gpu.0.mem_util=30", "gpu.0.throttle=4", "gpu.0.ecc_corrected=3"]
    lines += [f"gpu.0.pcie_tx_bytes=ramp:{MIB_PER_S * MIB}:7", "gpu.0.gpm=1", "gpu.0.gpm.5=20"]
    lines.append(f"gpu.0.nvlink_rx_kib=ramp:{MIB_PER_S * 1024}:7")
    (driver_folder / "state").write_text("\n".join(lines) + "\n")
    return driver_folder / "state"


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], machine: Path) -> Cluster:
    cluster = module_cluster(LD_LIBRARY_PATH=str(machine.parent), GSCHED_FAKE_NVML=str(machine))
    cluster.configure(lsf_conf="GSCHED_GPU_USE_INTERVAL=0.2\n")
    cluster.run("gadmin", "reconfig", "-f")
    return cluster


def fields(cluster: Cluster, job: int, names: str) -> list[str]:
    said = cluster.run("gjobs", "-noheader", "-o", f"{names} delimiter=','", str(job)).stdout
    return said.strip().split(",")


def is_listed(cluster: Cluster, job: int, pid: int | None) -> bool:
    """Whether gjobs tells of the process on its GPU, as nvidia-smi does."""
    table = cluster.run("gjobs", "-l", "-gpu", str(job)).stdout.partition("\n GPU_PROCESSES:\n")[2]
    rows = [line.split() for line in table.splitlines()]
    return [cluster.host, "0", str(pid), "C", rows[1][4], "1234MiB"] in rows if len(rows) > 1 else False


def samples(cluster: Cluster, job: int) -> int:
    usage = cluster.job(job).usage
    return sum(use.samples for use in usage.gpus) if usage is not None else 0


def test_what_a_job_makes_of_its_gpus_is_told_while_it_runs_and_for_ever(cluster: Cluster, machine: Path) -> None:
    code = "import os, time\nwhile not os.path.exists('stop'): time.sleep(0.1)"
    job = cluster.submit("-gpu", "num=2:mode=shared:j_exclusive=yes", "-o", "out", "python", "-c", code)
    view = cluster.starts(job)
    with machine.open("a") as state:
        state.write(f"gpu.0.procs={view.pid}:{1234 * MIB}\ngpu.0.used_mib=1234\n")
    cluster.until(lambda: samples(cluster, job) >= 8, "nothing is told of its GPUs")
    assert fields(cluster, job, "gpu_util gpu_mem_peak") == ["40%", "1.2 Gbytes"]
    cluster.until(lambda: is_listed(cluster, job, view.pid), "its process is not listed")
    # The agent is killed: the next one goes on from what was kept.
    with machine.open("a") as state:
        state.write("gpu.0.ecc_corrected=10\n")
    before = samples(cluster, job)
    cluster.kill(f"agent-{cluster.host}")
    cluster.up()
    cluster.until(lambda: samples(cluster, job) > before, "the next agent does not go on with it")
    (cluster.folder / "stop").touch()
    with machine.open("a") as state:
        state.write("gpu.0.procs=\ngpu.0.used_mib=0\n")
    (view,) = cluster.wait(job)
    assert view.state == "DONE" and view.result is not None
    busy, idle = sorted(view.result.usage.gpus, key=lambda use: use.index)
    assert busy.samples > before / 2
    assert (busy.host, busy.sm_min, busy.sm_mean, busy.sm_median, busy.sm_p95, busy.sm_max) == (
        cluster.host,
        *([80.0] * 5),
    )
    assert (busy.mem_max_mib, busy.traffic_mean, busy.power_mean_w, busy.idle_s) == (1234.0, 30.0, WATTS, 0.0)
    assert (idle.sm_max, idle.mem_max_mib) == (0.0, 0.0) and idle.idle_s == idle.covered_s == idle.no_process_s
    assert (busy.throttled_s, busy.throttled_power_s, busy.throttled_heat_s) == (busy.covered_s, busy.covered_s, 0.0)
    assert (busy.ecc_corrected, busy.ecc_errors, busy.tensor_mean, idle.tensor_mean) == (7.0, 0.0, 20.0, None)
    assert busy.pcie_tx_mib is not None and busy.pcie_rx_mib is None and idle.throttled_s is None
    assert busy.nvlink_rx_mib is not None and (busy.nvlink_tx_mib, idle.nvlink_rx_mib) == (None, None)
    for sent_mib in (busy.pcie_tx_mib, busy.nvlink_rx_mib):
        assert MIB_PER_S * busy.covered_s * 0.9 <= sent_mib <= MIB_PER_S * (view.result.run_s + 5)
    # The counter tells of the time without an agent, too: what the job took, and no more.
    assert busy.energy_j is not None and busy.energy_counted
    assert WATTS * busy.covered_s * 0.9 <= busy.energy_j <= WATTS * (view.result.run_s + 5)
    shown(cluster, job, [busy.energy_j, idle.energy_j or 0.0])
    cluster.kill("master")
    cluster.up()
    curves_are_kept(cluster, job, view.submitted_at)


def curves_are_kept(cluster: Cluster, job: int, submitted_at: float) -> None:
    answer = json.loads(cluster.run("ghist", "-l", "-gpu", "-json", str(job)).stdout)
    (attempt,) = answer["RECORDS"][0]["ATTEMPTS"]
    busy, idle = (gpu["CURVE"] for gpu in sorted(attempt["GPUS"], key=lambda gpu: gpu["GPU_ID"]))
    for curve, percent in ((busy, 80.0), (idle, 0.0)):
        assert 0 < len(curve["POINTS"]) <= MOST_POINTS
        for point in curve["POINTS"]:
            assert point["SM_UTILIZATION"] == [percent] * 3 and point["POWER"] == [WATTS] * 3
            assert submitted_at <= point["TIME"] <= time.time()
    assert max(point["GPU_MEMORY_USED"][2] for point in busy["POINTS"]) == 1234 * MIB


def shown(cluster: Cluster, job: int, energies_j: list[float]) -> None:
    """The same numbers, wherever they are told."""
    total = f"{sum(energies_j):.6f}"
    for command in (("gjobs", "-l", "-gpu"), ("ghist", "-l", "-gpu"), ("gacct", "-l", "-gpu")):
        said = cluster.run(*command, str(job)).stdout
        assert f"\n{' ' * 24}GPU ID: 0\n" in said
        assert f"\n{' ' * 28}Energy Consumed: {energies_j[0]:.0f} Joules\n" in said
        assert f"\n{' ' * 28}SM Utilization (%): Avg 80, Max 80, Min 80\n" in said
        assert f"\n{' ' * 28}Max GPU Memory Used: {1234 * MIB} bytes\n" in said
        assert f"\n\n\nGPU Energy Consumed: {total} Joules\n\n\n" in said
    for command in ("ghist", "gacct"):
        assert "GPU ID" not in cluster.run(command, "-l", str(job)).stdout
    assert f" Total GPU energy consumed: {sum(energies_j):.1f} Joules, in 1 job(s)\n" in (
        cluster.run("gacct", "-gpu", str(job)).stdout
    )
    for words in (("gjobs", "-gpu"), ("gacct", "-l", "-gpu")):
        (record,) = json.loads(cluster.run(*words, "-json", str(job)).stdout)["RECORDS"]
        assert [gpu["ENERGY_CONSUMED"] for gpu in record["GPUS"]] == pytest.approx(energies_j, abs=0.001)
    assert f"{energies_j[0]:.0f}J" in cluster.run("gjobs", "-gpu", str(job)).stdout.splitlines()[1].split()
    assert "\n GPU_ALLOCATION:\n" in cluster.run("ghist", "-l", "-gpu", str(job)).stdout
    answer = json.loads(cluster.run("gjobs", "-json", "-o", "gpu_util gpu_energy gpu_idle", str(job)).stdout)
    (record,) = answer["RECORDS"]
    assert (record["GPU_UTIL"], record["GPU_ENERGY"]) == ("40%", f"{sum(energies_j):.0f} J")
    line = next(line for line in (cluster.folder / "out").read_text().splitlines() if "GPU use :" in line)
    told = f"GPU use : 40 % of 2, Max Memory 1234 MB, Energy {sum(energies_j):.0f} J, Idle "
    assert " ".join(line.split()).startswith(told)


def test_of_a_job_without_gpus_nothing_is_told(cluster: Cluster) -> None:
    job = cluster.submit("true")
    (view,) = cluster.wait(job)
    assert view.result is not None and view.result.usage.gpus == ()
    assert fields(cluster, job, "gpu_util gpu_mem gpu_mem_peak gpu_energy gpu_idle") == ["-"] * 5
