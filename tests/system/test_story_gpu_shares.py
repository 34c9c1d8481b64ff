"""Who used how much of one GPU, by numbers: jobs on its parts by MIG, and jobs that are clients of MPS there.

A driver that plays curves, through real daemons to everybody who asks. What it does not tell of one of them is unknown,
never 0.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_cluster import Cluster

from gsched.model.gpus.gpu_use import GpuUsage

pytestmark = pytest.mark.system

MIB = 1 << 20
BIG, SMALL, SPLIT, SHARED = 0, 1, 0, 1
"""Parts of the GPU that is split; its index, and that of the other one."""
WAITS = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.05)"
PARAMS = "Begin Parameters\nSBD_SLEEP_TIME = 0.2\nGPU_SHARED_JOBS = 2\nEnd Parameters\n"
HOSTS = "Begin Host\nHOST_NAME MXJ\ndefault 8\nEnd Host\n"
STAND_IN = Path(__file__).resolve().parents[1] / "fakemps"


class Machine:
    """Two GPUs: the first one is split in two, the second one is whole."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.say("count=2", "driver=570.86.10", f"since={time.time() - 1000}")
        for index in (SPLIT, SHARED):
            self.say(f"gpu.{index}.uuid={self.uuid(index)}", f"gpu.{index}.minor={index}", f"gpu.{index}.mode=0")
            self.say(f"gpu.{index}.name=NVIDIA H100 80GB HBM3", f"gpu.{index}.mem_mib=81559")
            self.say(f"gpu.{index}.util=90", f"gpu.{index}.power_mw=300000", f"gpu.{index}.energy_mj=ramp:300000:7")
        self.say(f"gpu.{SPLIT}.mig_mode=1", f"gpu.{SPLIT}.gpm=1", f"gpu.{SPLIT}.gpm.1=90")
        for place, profile in ((BIG, "3g.40gb"), (SMALL, "1g.10gb")):
            self.part(place, f"uuid={self.part_uuid(place)}", f"gi={place + 1}", "ci=0", "mem_mib=9856")
            self.part(place, f"name=NVIDIA H100 80GB HBM3 MIG {profile}")
        self.part(BIG, "gpm.1=steps:1:20,60", "gpm.5=12")

    def say(self, *lines: str) -> None:
        with self.state.open("a") as state:
            state.write("\n".join(lines) + "\n")

    def part(self, place: int, *lines: str) -> None:
        self.say(*(f"gpu.{SPLIT}.mig.{place}.{line}" for line in lines))

    def uuid(self, index: int) -> str:
        """Of this run alone: the locks on GPUs are the whole machine's."""
        return f"GPU-{os.getpid():08x}-8888-4000-8000-{index:012d}"

    def part_uuid(self, place: int) -> str:
        return f"MIG-{os.getpid():08x}-8888-{place}"


@pytest.fixture(scope="module")
def machine(driver_folder: Path) -> Machine:
    return Machine(driver_folder / "state")


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in for MPS, with a server."""
    folder = tmp_path_factory.mktemp("mps") / "bin"
    shutil.copytree(STAND_IN, folder)
    (folder / "server").touch()
    return folder


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], machine: Machine, tools: Path) -> Cluster:
    cluster = module_cluster(LD_LIBRARY_PATH=str(machine.state.parent), GSCHED_FAKE_NVML=str(machine.state))
    settings = f"GSCHED_GPU_USE_INTERVAL=0.2\nGSCHED_MPS_CONTROL={tools / 'nvidia-cuda-mps-control'}\n"
    cluster.configure(lsf_conf=settings, lsb_params="=" + PARAMS, lsb_hosts="=" + HOSTS)
    cluster.kill(f"agent-{cluster.host}")
    cluster.up()
    return cluster


def use_of(cluster: Cluster, job: int) -> GpuUsage:
    view = cluster.job(job)
    usage = view.usage if view.result is None else view.result.usage
    return usage.gpus[0] if usage is not None and usage.gpus else GpuUsage()


def looked(cluster: Cluster, *jobs: int) -> None:
    """Wait until somebody has looked some more times from now on."""
    for job in jobs:
        before = use_of(cluster, job).samples
        cluster.until(lambda job=job, before=before: use_of(cluster, job).samples >= before + 5, "nobody looks at it")


def ends(cluster: Cluster, machine: Machine, *jobs: int) -> list[GpuUsage]:
    """What they have made of it in the end."""
    for place in (BIG, SMALL):
        machine.part(place, "procs=", "used_mib=0")
    machine.say(*(f"gpu.{index}.{what}=" for index in (SPLIT, SHARED) for what in ("procs", "mps")))
    # The last of them is alone on it for a moment: then what the driver says of the whole device counts.
    machine.say(f"gpu.{SHARED}.used_mib=0", f"gpu.{SHARED}.util=0", f"gpu.{SHARED}.proc_util=")
    for job in jobs:
        (cluster.folder / f"stop{job}").touch()
    views = cluster.wait(*jobs)
    assert [view.state for view in views] == ["DONE"] * len(jobs)
    return [use_of(cluster, job) for job in jobs]


def submit(cluster: Cluster, gpu: str) -> tuple[int, int]:
    """A job that waits for its file, and the number of its process."""
    job = cluster.submit("-n", "1", "-gpu", gpu, f'exec python -c "{WAITS}" stop$LSB_JOBID')
    pid = cluster.starts(job).pid
    assert pid is not None
    return job, pid


def told(cluster: Cluster, job: int, *lines: str) -> None:
    """The same lines wherever people look; and none that says 0 for what is unknown."""
    for command in ("gjobs", "ghist", "gacct"):
        text = cluster.run(command, "-l", "-gpu", str(job)).stdout
        for line in lines:
            assert f"\n{' ' * 28}{line}\n" in text, text


def record(cluster: Cluster, job: int) -> dict[str, Any]:
    """What programs are told of its GPU: the same by gjobs and gacct, and by ghist with a curve."""
    (first,) = json.loads(cluster.run("gjobs", "-gpu", "-json", str(job)).stdout)["RECORDS"]
    (second,) = json.loads(cluster.run("gacct", "-l", "-gpu", "-json", str(job)).stdout)["RECORDS"]
    (third,) = json.loads(cluster.run("ghist", "-l", "-gpu", "-json", str(job)).stdout)["RECORDS"][0]["ATTEMPTS"]
    (found,), (same,), (past,) = first["GPUS"], second["GPUS"], third["GPUS"]
    assert all(past[name] == same[name] == found[name] for name in past if name != "CURVE")
    return {**found, "CURVE": past["CURVE"]}


def fields(cluster: Cluster, job: int) -> list[str]:
    names = "gpu_util gpu_mem_peak gpu_energy gpu_idle delimiter=','"
    return cluster.run("gjobs", "-a", "-noheader", "-o", names, str(job)).stdout.strip().split(",")


def test_two_jobs_on_two_parts_of_one_gpu(cluster: Cluster, machine: Machine) -> None:
    """The driver tells of the work of one part (GPM), and not of that of the other."""
    (big, one), (small, two) = submit(cluster, "num=1:mig=3"), submit(cluster, "num=1:mig=1")
    machine.say(f"gpu.{SPLIT}.procs={one}:{500 * MIB},{two}:{70 * MIB}")
    machine.part(BIG, "used_mib=600", f"procs={one}:{500 * MIB}")
    machine.part(SMALL, "used_mib=90", f"procs={two}:{70 * MIB}")
    cluster.until(lambda: (use_of(cluster, big).sm_min, use_of(cluster, big).sm_max) == (20.0, 60.0), "no steps")
    looked(cluster, big, small)
    machine.part(BIG, "used_mib=1000", f"procs={one}:{900 * MIB}")
    looked(cluster, big)
    machine.part(BIG, "used_mib=600", f"procs={one}:{500 * MIB}")
    looked(cluster, big)
    first, second = ends(cluster, machine, big, small)
    assert (first.uuid, second.uuid) == (machine.part_uuid(BIG), machine.part_uuid(SMALL))
    assert (first.sm_min, first.sm_max, first.tensor_mean) == (20.0, 60.0, 12.0)
    assert first.sm_mean is not None and 20.0 < first.sm_mean < 60.0 and first.idle_s == 0.0
    assert first.mem_max_mib == 900.0 and 0.0 < (first.mem_mean_mib or 0.0) < 900.0
    assert [each.pid for each in first.processes] == [one] and [each.pid for each in second.processes] == [two]
    assert second.mem_max_mib == 70.0 and 0.0 < (second.mem_mean_mib or 0.0) <= 70.0
    for use in (first, second):
        assert (use.power_mean_w, use.energy_j, use.traffic_mean, use.throttled_s) == (None,) * 4
    unknown = (second.sm_mean, second.sm_median, second.sm_p95, second.sm_max, second.idle_s, second.tensor_mean)
    assert unknown == (None,) * 6
    for job, place in ((big, BIG), (small, SMALL)):
        header = f"{' ' * 24}GPU ID: {SPLIT}; MIG DEVICE: {machine.part_uuid(place)}\n"
        assert header in cluster.run("gjobs", "-l", "-gpu", str(job)).stdout
        assert f" GPU {cluster.host}:{SPLIT} (MIG)" in cluster.run("geff", str(job)).stdout
    told(cluster, big, f"Max GPU Memory Used: {900 * MIB} bytes", "Tensor Active (%): Avg 12", "Energy Consumed: -")
    told(cluster, small, "SM Utilization (%): Avg -, Max -, Min -", f"Max GPU Memory Used: {70 * MIB} bytes")
    told(cluster, small, "Idle Time: -", "Median SM Utilization (%): -", "P95 SM Utilization (%): -", "Avg Power: -")
    told_big, told_small = record(cluster, big), record(cluster, small)
    assert (told_big["UUID"], told_big["MAX_GPU_MEMORY_USED"]) == (machine.part_uuid(BIG), 900 * MIB)
    assert told_big["SM_UTILIZATION"]["MAX"] == 60.0 and told_big["ENERGY_CONSUMED"] is None
    assert set(told_small["SM_UTILIZATION"].values()) == {None} and told_small["IDLE_TIME"] is None
    (process,) = told_small["PROCESS_USE"]
    assert process["SM_UTILIZATION"] == {"AVG": None, "MAX": None}
    assert process["MAX_GPU_MEMORY_USED"] == 70 * MIB
    points = told_small["CURVE"]["POINTS"]
    assert max(point["GPU_MEMORY_USED"][2] for point in points) == 70 * MIB
    assert not any("SM_UTILIZATION" in point or "POWER" in point for point in points)
    assert all(20.0 <= value <= 60.0 for point in told_big["CURVE"]["POINTS"] for value in point["SM_UTILIZATION"])
    assert fields(cluster, small) == ["-", "70 Mbytes", "-", "-"]
    assert fields(cluster, big)[1] == "900 Mbytes" and fields(cluster, big)[0].endswith("%")


def test_two_jobs_as_clients_of_mps_on_one_gpu(cluster: Cluster, machine: Machine, tools: Path) -> None:
    gpu = "num=1:mps=yes:gpack=yes"
    (first, one), (second, two) = submit(cluster, gpu), submit(cluster, gpu)
    server = int((tools / "server").read_text())
    machine.say(f"gpu.{SHARED}.procs={server}:{27 * MIB}", f"gpu.{SHARED}.mps={one}:{700 * MIB},{two}:{300 * MIB}")
    machine.say(f"gpu.{SHARED}.proc_util={one}:55:9,{two}:20:3", f"gpu.{SHARED}.used_mib=1027")
    looked(cluster, first, second)
    machine.say(f"gpu.{SHARED}.mps={one}:{700 * MIB},{two}:{450 * MIB}", f"gpu.{SHARED}.used_mib=1177")
    machine.say(f"gpu.{SHARED}.proc_util={one}:35:9,{two}:40:3")
    looked(cluster, first, second)
    uses = ends(cluster, machine, first, second)
    assert [each.uuid for each in uses] == [machine.uuid(SHARED)] * 2
    for use, pid, low, high in zip(uses, (one, two), (35.0, 20.0), (55.0, 40.0), strict=True):
        share = next(each for each in use.processes if each.pid == pid)
        assert share.sm_mean is not None and low < share.sm_mean < high and share.sm_max == high
        assert use.sm_max == high and 0.0 < (use.sm_mean or 0.0) <= high
        # Of the device as a whole nobody can say whose it was, but while one of them was there alone.
        assert use.energy_j is None or use.energy_j < 300.0 * use.covered_s / 2
        assert (use.power_mean_w is None) == (use.energy_j is None)
    assert [use.mem_max_mib for use in uses] == [727.0, 450.0], "the server's memory counts for one of them"
    assert {each.pid for each in uses[0].processes} == {one, server}
    for job, pid, peak in ((first, one, 700), (second, two, 450)):
        shares = {each["PID"]: each for each in record(cluster, job)["PROCESS_USE"]}
        assert shares[pid]["MAX_GPU_MEMORY_USED"] == peak * MIB and shares[pid]["ENDED"]
        text = cluster.run("ghist", "-l", "-gpu", str(job)).stdout
        assert f"Process {pid} " in text and f"Process {one + two - pid} " not in text
    told(cluster, second, f"Max GPU Memory Used: {450 * MIB} bytes", "Energy Consumed: -", "Avg Power: -")
    assert fields(cluster, second)[1:3] == ["450 Mbytes", "-"]


def test_clients_of_mps_of_which_the_driver_does_not_tell_are_unknown(
    cluster: Cluster, machine: Machine, tools: Path
) -> None:
    """What they do it lays at the door of their server; or it tells of no process at all."""
    gpu = "num=1:mps=yes:gpack=yes"
    for said in ("{server}:60:9", "-"):
        (first, one), (second, two) = submit(cluster, gpu), submit(cluster, gpu)
        server = int((tools / "server").read_text())
        machine.say(f"gpu.{SHARED}.procs={server}:{27 * MIB}", f"gpu.{SHARED}.mps={one}:{700 * MIB},{two}:{300 * MIB}")
        machine.say(f"gpu.{SHARED}.proc_util={said.format(server=server)}")
        looked(cluster, first, second)
        for job, use in zip((first, second), ends(cluster, machine, first, second), strict=True):
            assert (use.sm_mean, use.sm_max, use.sm_median, use.idle_s) == (None,) * 4, said
            told(cluster, job, "SM Utilization (%): Avg -, Max -, Min -", "Idle Time: -")
            assert set(record(cluster, job)["SM_UTILIZATION"].values()) == {None}
            assert fields(cluster, job)[0] == "-"
