"""A GPU that vanishes while the use of jobs is sampled: what was seen of it stays, and nothing is made up.

Its neighbour is sampled as before. Through real daemons, with a driver that a stand-in plays.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_cluster import Cluster

from gsched.model.gpus.gpu_use import GpuUsage

pytestmark = pytest.mark.system

MIB = 1 << 20
TWO = range(2)
WATTS = 200
LOST = 15
"""NVML's error."""
PERCENT = (80.0, 40.0)
USED_MIB = (700.0, 300.0)
WAITS = "import os, time\nwhile not os.path.exists('stop'): time.sleep(0.05)"


class Machine:
    """Two GPUs that compute."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.say("count=2", "driver=570.86.10", f"since={time.time() - 1000}")
        for index in TWO:
            self.say(f"gpu.{index}.uuid=GPU-{os.getpid():08x}-aaaa-4000-8000-{index:012d}", f"gpu.{index}.mode=3")
            self.say(f"gpu.{index}.util={PERCENT[index]:.0f}", f"gpu.{index}.mem_mib=81559")
            self.say(f"gpu.{index}.power_mw={WATTS * 1000}", f"gpu.{index}.energy_mj=ramp:{WATTS * 1000}:7")

    def say(self, *lines: str) -> None:
        with self.state.open("a") as state:
            state.write("\n".join(lines) + "\n")

    def vanishes(self, index: int) -> None:
        self.say(f"gpu.{index}.err={LOST}")

    def is_back(self, index: int) -> None:
        self.say(f"gpu.{index}.err=0")


@pytest.fixture(scope="module")
def machine(driver_folder: Path) -> Machine:
    return Machine(driver_folder / "state")


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], machine: Machine) -> Cluster:
    cluster = module_cluster(LD_LIBRARY_PATH=str(machine.state.parent), GSCHED_FAKE_NVML=str(machine.state))
    params = "Begin Parameters\nSBD_SLEEP_TIME = 0.2\nJOB_TERMINATE_INTERVAL = 0.2\nEnd Parameters\n"
    cluster.configure(lsf_conf="GSCHED_GPU_USE_INTERVAL=0.2\n", lsb_params="=" + params)
    return cluster


def probed_every(cluster: Cluster, seconds: float) -> None:
    """How often somebody looks whether the GPUs are well."""
    text = (cluster.conf / "lsf.conf").read_text()
    cluster.configure(lsf_conf="=" + re.sub(r"GSCHED_GPU_INTERVAL=.*", f"GSCHED_GPU_INTERVAL={seconds:g}", text))


def use_of(cluster: Cluster, job: int) -> GpuUsage:
    view = cluster.job(job)
    usage = view.usage if view.result is None else view.result.usage
    return usage.gpus[0] if usage is not None and usage.gpus else GpuUsage()


def looked(cluster: Cluster, job: int) -> None:
    """Wait until somebody has looked some more times from now on."""
    before = use_of(cluster, job).samples
    cluster.until(lambda: use_of(cluster, job).samples >= before + 3, "nobody looks at its GPU")


def started(cluster: Cluster, machine: Machine) -> list[int]:
    """A job on each GPU, by index, of which somebody has seen that it computes."""
    found = {}
    for _ in TWO:
        job = cluster.submit("-gpu", "num=1:mode=exclusive_process", "python", "-c", WAITS)
        view = cluster.starts(job)
        assert view.allocation is not None
        index = view.allocation.hosts[0].gpus[0].index
        mib = USED_MIB[index]
        machine.say(f"gpu.{index}.procs={view.pid}:{mib * MIB:.0f}", f"gpu.{index}.used_mib={mib:.0f}")
        found[index] = job
    for index, job in found.items():
        cluster.until(lambda job=job, mib=USED_MIB[index]: use_of(cluster, job).mem_max_mib == mib, "it is not seen")
    return [found[index] for index in TWO]


def curve(cluster: Cluster, job: int) -> list[dict[str, Any]]:
    answer = json.loads(cluster.run("ghist", "-l", "-gpu", "-json", str(job)).stdout)
    points: list[dict[str, Any]] = answer["RECORDS"][0]["ATTEMPTS"][0]["GPUS"][0]["CURVE"]["POINTS"]
    return points


def nothing_is_made_up(cluster: Cluster, job: int, index: int) -> GpuUsage:
    use, result = use_of(cluster, job), cluster.job(job).result
    assert result is not None
    assert (use.sm_min, use.sm_median, use.sm_max) == (PERCENT[index],) * 3
    assert (use.mem_max_mib, use.idle_s, use.power_mean_w) == (USED_MIB[index], 0.0, WATTS)
    assert use.energy_j is not None and 0.0 < use.energy_j <= WATTS * (result.run_s + 5)
    for point in curve(cluster, job):
        assert point.get("SM_UTILIZATION", [PERCENT[index]] * 3) == [PERCENT[index]] * 3
        assert point.get("POWER", [WATTS] * 3) == [WATTS] * 3
    return use


@pytest.mark.nightly
def test_one_that_comes_back_leaves_holes(cluster: Cluster, machine: Machine) -> None:
    """Nobody else looks meanwhile: its job runs on."""
    probed_every(cluster, 3600)
    job, other = started(cluster, machine)
    machine.say("gpu.0.delay_ms=4")  # a look takes so long that it vanishes in the midst of one, too
    for _ in range(5):
        machine.vanishes(0)
        looked(cluster, other)
        machine.is_back(0)
        looked(cluster, job)
    # Looks that saw half of it count as time in which nobody knows how busy it was: of most of it somebody must.
    cluster.until(lambda: use_of(cluster, job).sm_min is not None, "too little of its time was seen")
    machine.say(*(f"gpu.{index}.{what}=0" for index in TWO for what in ("delay_ms", "used_mib")))
    machine.say(*(f"gpu.{index}.procs=" for index in TWO))
    (cluster.folder / "stop").touch()
    assert [view.state for view in cluster.wait(job, other)] == ["DONE"] * 2
    first, second = nothing_is_made_up(cluster, job, 0), nothing_is_made_up(cluster, other, 1)
    assert second.samples > first.samples and second.energy_counted
    (cluster.folder / "stop").unlink()


def test_what_was_seen_of_one_that_stays_away_is_kept(cluster: Cluster, machine: Machine) -> None:
    probed_every(cluster, 0.3)
    job, other = started(cluster, machine)
    machine.vanishes(0)
    (view,) = cluster.wait(job)
    assert view.result is not None and (view.state, view.result.term_reason) == ("EXIT", "TERM_GPU")
    nothing_is_made_up(cluster, job, 0)
    said = cluster.run("ghist", "-l", "-gpu", str(job)).stdout
    assert "SM Utilization (%): Avg 80, Max 80, Min 80\n" in said
    looked(cluster, other)
    assert cluster.state(other) == "RUN"
