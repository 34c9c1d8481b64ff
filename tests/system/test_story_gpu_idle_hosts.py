"""A job with GPUs on two hosts, each with its own driver that plays curves: idle only while all its GPUs are."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fault_tools import settings
from live_cluster import Cluster

from gsched.model.event import JobIdleActed, JobIdleOver, JobIdleWarned, decode_event
from gsched.model.views.view import JobFilter, JobView

pytestmark = pytest.mark.system

MIB = 1 << 20
HOSTS = ("a", "b")
WAITS = "import os, time\nwhile not os.path.exists('stop'): time.sleep(0.1)"
PARAMS = "=Begin Parameters\nSBD_SLEEP_TIME = 0.2\nEnd Parameters\n"
QUEUES = """
Begin Queue
QUEUE_NAME = kill
GPU_IDLE = window=2s grace=1s action=kill
End Queue
"""


class Driver:
    """That of one host, with one GPU."""

    def __init__(self, state: Path, host: str) -> None:
        self.state = state
        uuid = f"GPU-{os.getpid():08x}-4444-4000-8000-{HOSTS.index(host):012d}"
        self.say("count=1", "driver=570.86.10", f"since={time.time() - 1000}", f"gpu.0.uuid={uuid}")
        self.say("gpu.0.mem_mib=81559", "gpu.0.power_limit_mw=300000")
        self.rests()

    def say(self, *lines: str) -> None:
        with self.state.open("a") as state:
            state.write("\n".join(lines) + "\n")

    def works(self) -> None:
        """In bursts, as training does."""
        self.say("gpu.0.util=steps:1:90,70,95", "gpu.0.mem_util=steps:1:40,30,50", "gpu.0.power_mw=250000")

    def rests(self) -> None:
        self.say("gpu.0.util=0", "gpu.0.mem_util=0", "gpu.0.power_mw=55000")

    def hold(self, pid: int | None) -> None:
        self.say(f"gpu.0.procs={pid}:{9000 * MIB}" if pid else "gpu.0.procs=", f"gpu.0.used_mib={9000 if pid else 0}")


@pytest.fixture(scope="module")
def drivers(driver_folder: Path) -> dict[str, Driver]:
    return {host: Driver(driver_folder / f"state-{host}", host) for host in HOSTS}


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], drivers: dict[str, Driver]) -> Cluster:
    """An agent for each host, with its own driver: `gsched up` starts the one that is missing with its environment."""
    library = str(drivers["a"].state.parent)
    (drivers["a"].state.parent / "none").write_text("count=0\n")
    cluster = module_cluster("--hosts", ",".join(HOSTS), LD_LIBRARY_PATH=library, GSCHED_FAKE_NVML=library + "/none")
    settings(cluster, GSCHED_GPU_USE_INTERVAL=0.2, GSCHED_HOST_LOST=120)
    cluster.configure(lsb_params=PARAMS, lsb_queues=QUEUES)
    for host in HOSTS:
        restart(cluster, drivers, host)
        cluster.until(lambda host=host: gpus_of(cluster, host) == 1, f"{host} does not tell of its GPU")
    return cluster


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster, drivers: dict[str, Driver]) -> None:
    for driver in drivers.values():
        driver.hold(None)
        driver.rests()
    cluster.end_jobs()


def restart(cluster: Cluster, drivers: dict[str, Driver], host: str) -> None:
    """kill -9 of a host's agent, and the next one."""
    cluster.kill(f"agent-{host}")
    cluster.env["GSCHED_FAKE_NVML"] = str(drivers[host].state)
    cluster.up()


def gpus_of(cluster: Cluster, host: str) -> int:
    with cluster.client() as client:
        return sum(len(view.gpus) for view in client.hosts([host]))


def history(cluster: Cluster, job: int) -> str:
    return " ".join(cluster.run("ghist", "-UF", str(job)).stdout.split())


def decided(cluster: Cluster, job: int) -> list[str]:
    """What has been done about its idle GPUs, in order."""
    with cluster.client() as client:
        (found,) = client.history(JobFilter(ids=(job,), user="all", finished=True))
    events = (decode_event(record.payload.encode()) for record in found.events)
    return [type(each).__name__ for each in events if isinstance(each, JobIdleWarned | JobIdleActed | JobIdleOver)]


def idle_s(view: JobView, host: str) -> float:
    return next((each.idle_s for each in view.idle if each.host == host), 0.0)


def wide_job(cluster: Cluster, drivers: dict[str, Driver]) -> int:
    """A job over both hosts, with a GPU on each; its own process computes on that of host a."""
    (cluster.folder / "stop").unlink(missing_ok=True)
    words = ("-n", "2", "-R", "span[ptile=1]", "-m", "a! b", "-gpu", "num=1:mode=shared:j_exclusive=yes")
    job = cluster.submit("-q", "kill", *words, "python", "-c", WAITS)
    view = cluster.starts(job)
    assert view.allocation is not None
    assert [(part.host, len(part.gpus)) for part in view.allocation.hosts] == [("a", 1), ("b", 1)]
    drivers["a"].hold(view.pid)
    drivers["a"].works()
    return job


@pytest.mark.nightly
def test_a_job_that_is_busy_on_one_of_its_hosts_is_not_idle(cluster: Cluster, drivers: dict[str, Driver]) -> None:
    """However long it leaves the other one alone; when it stops everywhere it is warned once, and ended once."""
    job = wide_job(cluster, drivers)
    # More than window and grace together, several times, though an agent and the master are killed meanwhile.
    for least, killed in ((5.0, "agent-b"), (8.0, "master"), (11.0, "agent-a"), (14.0, "")):
        cluster.until(lambda least=least: idle_s(cluster.job(job), "b") > least, "the idle GPU of host b is not seen")
        view = cluster.job(job)
        assert (view.state, view.idle_warning) == ("RUN", None)
        if killed.startswith("agent"):
            restart(cluster, drivers, killed[-1])
        elif killed:
            cluster.kill(killed)
            cluster.up()
    view = cluster.job(job)
    assert {each.host: each.kind for each in view.idle}["b"] == "no_process"
    fields = "gpu_idle_kind gpu_idle_for gpu_idle_warned"

    def shown() -> list[str]:
        (record,) = json.loads(cluster.run("gjobs", "-json", "-o", fields, str(job)).stdout)["RECORDS"]
        return [record[name] for name in ("GPU_IDLE_KIND", "GPU_IDLE_FOR", "GPU_IDLE_WARNED")]

    # Of host a, whose agent has begun anew, nothing is known before it has looked.
    cluster.until(lambda: shown() != ["", "", ""], "nobody knows how idle it is")
    assert shown() == ["", "0", ""]
    assert decided(cluster, job) == []

    drivers["a"].rests()
    (view,) = cluster.wait(job)
    assert view.result is not None and (view.state, view.result.term_reason) == ("EXIT", "TERM_GPU_IDLE")
    assert decided(cluster, job) == ["JobIdleWarned", "JobIdleActed"]
    uses = {use.host: use for use in view.result.usage.gpus}
    assert uses["a"].sm_max == 95.0 and uses["b"].sm_max == 0.0
    assert uses["b"].no_process_s == uses["b"].covered_s > 14.0


def test_work_on_any_host_takes_the_warning_back(cluster: Cluster, drivers: dict[str, Driver]) -> None:
    """Whichever host it is: the other one, too."""
    text = (cluster.conf / "lsb.queues").read_text()
    with cluster.files_as_they_are():
        cluster.configure(lsb_queues="=" + text.replace("grace=1s", "grace=1d"))
        job = wide_job(cluster, drivers)
        drivers["a"].rests()
        cluster.until(lambda: cluster.job(job).idle_warning is not None, "it is not warned")
        assert "All 2 GPU(s)" in history(cluster, job)
        drivers["b"].works()
        cluster.until(lambda: cluster.job(job).idle_warning is None, "the warning is not taken back")
        drivers["b"].rests()
        cluster.until(lambda: cluster.job(job).idle_warning is not None, "it is not warned again")
        (cluster.folder / "stop").touch()
        (view,) = cluster.wait(job)
    assert view.state == "DONE"
    assert decided(cluster, job) == ["JobIdleWarned", "JobIdleOver", "JobIdleWarned"]


def test_what_a_job_makes_of_its_gpus_on_two_hosts(cluster: Cluster, drivers: dict[str, Driver]) -> None:
    """By numbers, each GPU by its own driver, also that of a host on which no process of the job is; then the sums."""
    watts = {"a": 100, "b": 50}
    (cluster.folder / "stop").unlink(missing_ok=True)
    for host, percent in (("a", 80), ("b", 30)):
        drivers[host].say(f"gpu.0.util={percent}", f"gpu.0.energy_mj=ramp:{watts[host] * 1000}:7")
    words = ("-n", "2", "-R", "span[ptile=1]", "-m", "a! b", "-gpu", "num=1:mode=shared:j_exclusive=yes")
    job = cluster.submit(*words, "-o", "wide", "python", "-c", WAITS)
    drivers["a"].hold(cluster.starts(job).pid)

    def is_seen() -> bool:
        usage = cluster.job(job).usage
        uses = {use.host: use for use in usage.gpus} if usage is not None else {}
        return len(uses) == len(HOSTS) and uses["a"].mem_max_mib == 9000.0 and uses["b"].samples > 5

    cluster.until(is_seen, "not both of its GPUs are told of")
    drivers["a"].hold(None)
    (cluster.folder / "stop").touch()
    (view,) = cluster.wait(job)
    assert view.state == "DONE" and view.result is not None
    cluster.until(lambda: not cluster.job(job).leaving, "its part on b does not end")
    (view,) = cluster.wait(job)
    assert view.result is not None
    uses = {use.host: use for use in view.result.usage.gpus}
    assert [(uses[host].sm_min, uses[host].sm_max) for host in HOSTS] == [(80.0, 80.0), (30.0, 30.0)]
    assert (uses["a"].mem_max_mib, uses["b"].mem_max_mib) == (9000.0, 0.0)
    for host, use in uses.items():
        assert use.energy_j is not None and use.energy_counted
        assert watts[host] * use.covered_s * 0.9 <= use.energy_j <= watts[host] * (view.result.run_s + 10)
    total = sum(use.energy_j or 0.0 for use in uses.values())
    for command in ("gjobs", "ghist", "gacct"):
        said = cluster.run(command, "-l", "-gpu", str(job)).stdout
        assert all(f"{' ' * 21}HOST: {host}; CPU_TIME: -\n" in said for host in HOSTS), said
        assert f"GPU Energy Consumed: {total:.6f} Joules\n" in said
    (attempt,) = json.loads(cluster.run("ghist", "-l", "-gpu", "-json", str(job)).stdout)["RECORDS"][0]["ATTEMPTS"]
    for gpu in attempt["GPUS"]:
        percent = {"a": 80.0, "b": 30.0}[gpu["HOST"]]
        points = gpu["CURVE"]["POINTS"]
        assert points and all(point.get("SM_UTILIZATION", [percent] * 3) == [percent] * 3 for point in points)
    fields = cluster.run("gjobs", "-a", "-noheader", "-o", "gpu_util gpu_mem_peak delimiter=','", str(job)).stdout
    assert fields.strip() == "55%,8.8 Gbytes"
