"""A driver that plays curves (steps, sawtooth, bursts), hangs, tells nonsense and keeps accounts: by numbers, through
real daemons.

Of a mean over time only bounds are known here, for a busy machine looks when it can; minima, maxima, counters and what
is told of single processes are exact.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_cluster import Cluster

from gsched.model.gpus.gpu_curve import MOST_POINTS
from gsched.model.gpus.gpu_use import GpuUsage

pytestmark = pytest.mark.system

MIB = 1 << 20
WATTS = 200
WAITS = "import os, time\nwhile not os.path.exists('stop'): time.sleep(0.05)"
PARAMS = "=Begin Parameters\nSBD_SLEEP_TIME = 0.2\nEnd Parameters\n"


class Machine:
    """One GPU that keeps accounts, of a driver of today."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.since = time.time() - 1000
        self.say("count=1", "driver=570.86.10", f"since={self.since}", "gpu.0.capability=90", "gpu.0.mem_mib=81559")
        self.say(f"gpu.0.uuid=GPU-{os.getpid():08x}-5555-4000-8000-000000000000")
        self.rests()

    def say(self, *lines: str) -> None:
        with self.state.open("a") as state:
            state.write("\n".join(lines) + "\n")

    def rests(self) -> None:
        self.say("gpu.0.util=0", "gpu.0.mem_util=0", "gpu.0.procs=", "gpu.0.used_mib=0", "gpu.0.delay_ms=0")
        self.say(f"gpu.0.power_mw={WATTS * 1000}", f"gpu.0.energy_mj=ramp:{WATTS * 1000}:7", "gpu.0.accounting=0")
        self.say("gpu.0.proc_util=-")

    def plays(self) -> None:
        self.say("gpu.0.util=steps:1:0,60,100", "gpu.0.mem_util=bursts:2:1:44")
        self.say("gpu.0.power_mw=saw:1:100000:300000", f"gpu.0.energy_mj=ramp:{WATTS * 1000}:7")


@pytest.fixture(scope="module")
def machine(driver_folder: Path) -> Machine:
    return Machine(driver_folder / "state")


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], machine: Machine) -> Cluster:
    cluster = module_cluster(LD_LIBRARY_PATH=str(machine.state.parent), GSCHED_FAKE_NVML=str(machine.state))
    cluster.configure(lsf_conf="GSCHED_GPU_USE_INTERVAL=0.2\n", lsb_params=PARAMS)
    cluster.run("gadmin", "reconfig", "-f")
    return cluster


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster, machine: Machine) -> None:
    cluster.end_jobs()
    machine.rests()
    (cluster.folder / "stop").unlink(missing_ok=True)


def use_of(cluster: Cluster, job: int) -> GpuUsage:
    view = cluster.job(job)
    usage = view.usage if view.result is None else view.result.usage
    return usage.gpus[0] if usage is not None and usage.gpus else GpuUsage()


def looked(cluster: Cluster, job: int, more: int) -> None:
    """Wait for so many samples from now on."""
    before = use_of(cluster, job).samples
    cluster.until(lambda: use_of(cluster, job).samples >= before + more, "nobody looks at its GPU")


def ends(cluster: Cluster, machine: Machine, job: int) -> tuple[GpuUsage, float]:
    """What it has made of its GPU in the end, and how long it ran."""
    machine.say("gpu.0.procs=", "gpu.0.used_mib=0")
    (cluster.folder / "stop").touch()
    (view,) = cluster.wait(job)
    assert view.state == "DONE" and view.result is not None
    return view.result.usage.gpus[0], view.result.run_s


def curve_of(cluster: Cluster, job: int) -> dict[str, Any]:
    answer = json.loads(cluster.run("ghist", "-l", "-gpu", "-json", str(job)).stdout)
    curve: dict[str, Any] = answer["RECORDS"][0]["ATTEMPTS"][0]["GPUS"][0]["CURVE"]
    return curve


def has_seen_all(use: GpuUsage) -> bool:
    """Whether somebody has looked at all steps of the curves of `plays`."""
    ends = (use.sm_min, use.sm_max, use.traffic_min, use.traffic_max)
    return ends == (0.0, 100.0, 0.0, 44.0) and use.samples >= 20


def test_steps_sawtooth_bursts_and_a_hang_in_between(cluster: Cluster, machine: Machine) -> None:
    machine.plays()
    job = cluster.submit("-gpu", "num=1", "python", "-c", WAITS)
    machine.say(f"gpu.0.procs={cluster.starts(job).pid}:{700 * MIB}", "gpu.0.used_mib=700")
    cluster.until(lambda: has_seen_all(use_of(cluster, job)), "not all of the curves is seen")
    machine.say("gpu.0.delay_ms=6000")  # a call hangs for so long
    hangs_from = time.time()
    cluster.until(lambda: time.time() > hangs_from + 4, "time stands still")
    told = use_of(cluster, job).samples
    machine.say("gpu.0.delay_ms=0")
    hangs_until = time.time()
    cluster.until(lambda: use_of(cluster, job).samples >= told + 10, "nobody looks after the hang")
    use, run_s = ends(cluster, machine, job)
    assert (use.sm_min, use.sm_max) == (0.0, 100.0) and 20 < (use.sm_mean or 0) < 90
    assert use.sm_median in (0.0, 60.0, 100.0) and use.sm_p95 == 100.0
    assert (use.traffic_min, use.traffic_max) == (0.0, 44.0) and 5 < (use.traffic_mean or 0) < 40
    assert use.power_mean_w is not None and 110 < use.power_mean_w < 290
    assert use.mem_max_mib == 700.0 and 0 < (use.idle_s or 0) < use.covered_s
    # The counter tells of the hang as well; the samples do not stand for it.
    assert use.energy_counted and use.energy_j == pytest.approx(WATTS * run_s, rel=0.3)
    assert use.covered_s < run_s - 3
    times = [point["TIME"] for point in curve_of(cluster, job)["POINTS"]]
    assert [at for at in times if hangs_from + 1 < at < hangs_until - 1] == []
    assert min(times) < hangs_from and max(times) > hangs_until - 1


def test_a_driver_that_tells_nonsense_makes_no_nonsense(cluster: Cluster, machine: Machine) -> None:
    """Negative energy and power, more than all of the time, a counter that falls, clocks that run backwards."""
    machine.plays()
    job = cluster.submit("-gpu", "num=1", "python", "-c", WAITS)
    pid = cluster.starts(job).pid
    machine.say(f"gpu.0.procs={pid}:{700 * MIB}", "gpu.0.used_mib=700", f"gpu.0.proc_util={pid}:30:5")
    machine.say("gpu.0.accounting=1", f"gpu.0.accounts={pid}:250:250:18446744073709551614:0:{1 << 63}")
    looked(cluster, job, 5)
    for lines in (
        ("gpu.0.energy_mj=-5", "gpu.0.power_mw=-1", "gpu.0.util=250", "gpu.0.mem_util=-7"),
        (f"gpu.0.energy_mj=ramp:{WATTS * 1000}:-900000", "gpu.0.used_mib=999999", "gpu.0.power_mw=150000"),
        (f"gpu.0.energy_mj={1 << 61}", f"since={machine.since + 5000}"),  # a leap, and an earlier time
        (f"gpu.0.energy_mj=ramp:{WATTS * 1000}:7", f"since={machine.since}", "gpu.0.used_mib=700"),
    ):
        machine.say(*lines)
        looked(cluster, job, 5)
    machine.plays()
    looked(cluster, job, 5)
    use, run_s = ends(cluster, machine, job)
    assert {use.sm_min, use.sm_max} <= {0.0, 60.0, 100.0} and use.mem_max_mib == 700.0
    assert use.power_mean_w is not None and 100 <= use.power_mean_w <= 300
    assert use.energy_j is not None and 0 < use.energy_j < 300 * (run_s + 5) and not use.energy_counted
    assert 0 <= (use.idle_s or 0) <= use.covered_s <= run_s + 5
    (told,) = use.processes
    assert (told.sm_mean, told.sm_max, told.mem_max_mib, told.is_accounted) == (30.0, 30.0, 700.0, False)
    for point in curve_of(cluster, job)["POINTS"]:
        for quantity in ("SM_UTILIZATION", "MEMORY_UTILIZATION", "POWER"):
            assert all(0 <= value <= 300 for value in point.get(quantity, []))


@pytest.mark.nightly
def test_who_used_how_much_of_a_gpu_that_two_jobs_share(cluster: Cluster, machine: Machine) -> None:
    """Each job is told of its own processes: by the driver's accounts, also of what ended between two looks."""
    words = ("-n", "1", "-gpu", "num=1:mode=shared:share=0.5", "python", "-c", WAITS)
    jobs = [cluster.submit(*words) for _ in range(2)]
    one, two = (cluster.starts(job).pid for job in jobs)
    since_us = int(time.time() * 1e6)
    machine.say("gpu.0.util=90", f"gpu.0.procs={one}:{700 * MIB},{two}:{300 * MIB}", "gpu.0.used_mib=1000")
    machine.say("gpu.0.accounting=1")
    machine.say(f"gpu.0.accounts={one}:55:9:{900 * MIB}:0:{since_us},{two}:20:9:{300 * MIB}:0:{since_us}")
    for job, pid, name in ((jobs[0], one, 900), (jobs[1], two, 300)):
        cluster.until(
            lambda job=job, pid=pid, mib=name: (
                [(each.pid, each.mem_max_mib, each.is_accounted) for each in use_of(cluster, job).processes]
                == [(pid, mib, True)]
            ),
            f"job {job} is not told of its process",
        )
    lines = cluster.run("gjobs", "-l", "-gpu", str(jobs[0])).stdout
    assert f"Process {one} " in lines and f"Process {two} " not in lines and "Avg 55, Max -" in lines
    # The driver tells no use by process here, as samples; its accounts say it all the same.
    cluster.until(lambda: use_of(cluster, jobs[0]).sm_mean, "its mean use is not told")
    assert use_of(cluster, jobs[0]).sm_max is None
    # The first one ends: its account is complete, and neither a killed master nor a killed agent forgets it.
    machine.say(f"gpu.0.procs={two}:{300 * MIB}")
    machine.say(f"gpu.0.accounts={one}:65:9:{950 * MIB}:7500:{since_us},{two}:20:9:{300 * MIB}:0:{since_us}")
    cluster.until(lambda: use_of(cluster, jobs[0]).processes[0].has_ended, "its end is not seen")
    cluster.kill(f"agent-{cluster.host}")
    cluster.kill("master")
    cluster.up()
    for job, pid, percent, mib in ((jobs[0], one, 65.0, 950.0), (jobs[1], two, 20.0, 300.0)):
        use, _ = ends(cluster, machine, job)
        (told,) = use.processes
        assert (told.pid, told.sm_mean, told.mem_max_mib) == (pid, percent, mib) and told.has_ended
        assert told.name.endswith("python") or "python" in told.name
    first = use_of(cluster, jobs[0])
    assert first.processes[0].seconds == 7.5
    record = json.loads(cluster.run("gacct", "-l", "-gpu", "-json", str(jobs[0])).stdout)["RECORDS"][0]
    (shown,) = record["GPUS"][0]["PROCESS_USE"]
    assert shown["PID"] == one and shown["SM_UTILIZATION"] == {"AVG": 65.0, "MAX": None} and shown["ACCOUNTED"]
    assert shown["MAX_GPU_MEMORY_USED"] == 950 * MIB and shown["TIME"] == 7.5
    assert f"Process {one} " in cluster.run("ghist", "-l", "-gpu", str(jobs[0])).stdout


def has_many(use: GpuUsage) -> bool:
    """More samples, and over a longer time, than so many points tell of."""
    return use.samples > MOST_POINTS + 20 and use.covered_s > 0.05 * MOST_POINTS + 5


@pytest.mark.nightly
@pytest.mark.slow
def test_a_curve_becomes_coarser_and_no_longer(cluster: Cluster, machine: Machine) -> None:
    """More samples than points: two points become one, and none of the extremes is lost."""
    machine.plays()
    before = time.time()
    with cluster.files_as_they_are():
        text = (cluster.conf / "lsf.conf").read_text()
        cluster.configure(lsf_conf="=" + text.replace("USE_INTERVAL=0.2\n", "USE_INTERVAL=0.05\n"))
        job = cluster.submit("-gpu", "num=1", "python", "-c", WAITS)
        machine.say(f"gpu.0.procs={cluster.starts(job).pid}:{700 * MIB}", "gpu.0.used_mib=700")
        cluster.until(lambda: has_many(use_of(cluster, job)), "nobody looks so often")
        use, _ = ends(cluster, machine, job)
    curve = curve_of(cluster, job)
    assert len(curve["POINTS"]) <= MOST_POINTS < use.samples and curve["STEP"] > 0.05
    values = [point["SM_UTILIZATION"] for point in curve["POINTS"]]
    assert (min(value[0] for value in values), max(value[2] for value in values)) == (use.sm_min, use.sm_max)
    assert all(low <= mean <= high for low, mean, high in values)
    assert before <= curve["SINCE"] <= curve["POINTS"][-1]["TIME"] <= time.time()
