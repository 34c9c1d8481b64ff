"""What a job uses of its host, by numbers: a program of which everything is known, through real daemons to who asks.

The program reads from the kernel what it has used itself and writes it down: what gsched says is compared with that,
never with how fast the machine is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_cluster import Cluster

from gsched.model.jobs.job import Usage

pytestmark = pytest.mark.system

MIB = 1 << 20
HELD_MIB = 300
KEPT_MIB = 50
WRITTEN_MIB = 24
READ_MIB = 16
CPU_S = 1.5
"""Of each of two processes."""
PROGRAM = f"""
import json, os, time

def told(name, **values):
    io = dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())
    rss = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS"))
    times = os.times()
    found = dict(io=io, rss_mib=int(rss) / 1024, cpu_s=times.user + times.system, **values)
    with open(name + ".new", "w") as file:
        json.dump(found, file)
    os.rename(name + ".new", name)

def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.05)

def touched(mib):
    found = bytearray(mib << 20)
    for place in range(0, len(found), 4096):
        found[place] = 1
    return found

def spin():
    while sum(os.times()[:2]) < {CPU_S}:
        pass

children = []
for _ in range(2):
    pid = os.fork()
    if not pid:
        spin()
        os._exit(0)
    children.append(pid)
wait_for("reap")
for pid in children:
    os.waitpid(pid, 0)
times = os.times()
held = touched({HELD_MIB})
told("high", children_s=times.children_user + times.children_system)
wait_for("free")
del held
kept = touched({KEPT_MIB})
with open("data", "wb") as file:
    for _ in range({WRITTEN_MIB}):
        file.write(b"y" * {MIB})
    file.flush()
    os.fsync(file.fileno())
with open("data", "rb", buffering=0) as file:
    for _ in range({READ_MIB}):
        file.read({MIB})
told("low")
wait_for("stop")
told("last", children_s=times.children_user + times.children_system)
"""


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    cluster = module_cluster()
    params = "Begin Parameters\nSBD_SLEEP_TIME = 0.2\nCPU_PEAK_SAMPLE_DURATION = 1\nEnd Parameters\n"
    hosts = "Begin Host\nHOST_NAME MXJ\ndefault 8\nEnd Host\n"
    cluster.configure(lsb_params="=" + params, lsb_hosts="=" + hosts)
    return cluster


class KnownJob:
    """The program as a job, step by step."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        (cluster.folder / "known.py").write_text(PROGRAM)
        self.number = cluster.submit("-n", "2", "-o", "out", "python", "known.py")
        cluster.starts(self.number)

    def goes_on(self, word: str, told: str) -> dict[str, Any]:
        """Let it do its next step; what it says when it has."""
        (self.cluster.folder / word).touch()
        path: Path = self.cluster.folder / told
        self.cluster.until(path.exists, f"the job does not write {told}")
        said: dict[str, Any] = json.loads(path.read_text())
        return said

    @property
    def usage(self) -> Usage:
        """As its host has told last."""
        view = self.cluster.job(self.number)
        found = view.usage if view.result is None else view.result.usage
        return found or Usage()

    def until(self, is_so: Callable[[Usage], object], complaint: str) -> Usage:
        seen: list[Usage] = []

        def look() -> bool:
            seen.append(self.usage)
            return bool(is_so(seen[-1]))

        self.cluster.until(look, complaint)
        return seen[-1]


def own_io_mib(said: dict[str, Any], name: str) -> float:
    return int(said["io"][name]) / MIB


def test_processors_memory_and_files_of_a_job_of_which_all_is_known(cluster: Cluster) -> None:
    began = time.monotonic()
    job = KnownJob(cluster)
    high = job.goes_on("reap", "high")  # without a control group what its children used is seen from now on
    job.until(lambda use: use.cpu_s >= 2 * CPU_S, "the CPU time of its children is not seen")
    assert high["children_s"] >= 2 * CPU_S and high["rss_mib"] >= HELD_MIB
    peak = job.until(lambda use: (use.max_mem_mib or 0.0) >= HELD_MIB, "its peak of memory is not seen")
    assert peak.mem_mib == pytest.approx(high["rss_mib"], abs=40)  # the shell that runs the job counts, too
    low = job.goes_on("free", "low")
    assert KEPT_MIB <= low["rss_mib"] < HELD_MIB / 2
    after = job.until(lambda use: KEPT_MIB <= (use.mem_mib or 0.0) < HELD_MIB / 2, "memory given back is not seen")
    assert HELD_MIB <= (after.max_mem_mib or 0.0) <= high["rss_mib"] + 40
    assert (after.mem_mib or 0.0) <= low["rss_mib"] + 40
    job.until(
        lambda use: KEPT_MIB / 2 < (use.avg_mem_mib or 0.0) < (use.max_mem_mib or 0.0), "its mean of memory is not told"
    )
    last = job.goes_on("stop", "last")
    (view,) = cluster.wait(job.number)
    passed_s = time.monotonic() - began
    assert view.result is not None
    final = view.result.usage
    cpu_s = last["cpu_s"] + last["children_s"]
    assert final.cpu_s == pytest.approx(cpu_s, abs=0.5 + cpu_s / 10)  # the interpreter's end, and the shell
    assert final.cpu_peak is not None and final.cpu_peak_s is not None
    assert 0.9 * final.cpu_s / passed_s <= final.cpu_peak <= 3.0
    assert final.max_mem_mib == pytest.approx(after.max_mem_mib, abs=4)  # the supervisor looks at moments of its own
    for said, told in ((final.read_mib, "rchar"), (final.written_mib, "wchar")):
        assert said is not None and own_io_mib(last, told) <= said <= own_io_mib(last, told) + 4
    assert final.written_mib is not None and WRITTEN_MIB <= final.written_mib <= WRITTEN_MIB + 1
    assert final.disk_written_mib == pytest.approx(own_io_mib(last, "write_bytes"), abs=0.5)
    shown(cluster, job.number, final)


def shown(cluster: Cluster, job: int, usage: Usage) -> None:
    """The same numbers for those who ask; they outlive the master."""
    cluster.kill("master")
    cluster.up()
    names = "cpu_used max_mem io_written average_cpu_efficiency idle_factor"
    record = json.loads(cluster.run("gjobs", "-a", "-json", "-o", names, str(job)).stdout)["RECORDS"][0]
    assert float(record["CPU_USED"].split()[0]) == pytest.approx(usage.cpu_s, abs=0.6)
    assert float(record["MAX_MEM"].split()[0]) == pytest.approx(usage.max_mem_mib or 0.0, abs=1)
    assert float(record["IO_WRITTEN"].split()[0]) == pytest.approx(WRITTEN_MIB, abs=1)
    efficiency = float(record["AVERAGE_CPU_EFFICIENCY"].rstrip("%"))
    cores = record["IDLE_FACTOR"]
    assert 0.0 < efficiency <= 110.0 and float(cores) == pytest.approx(2 * efficiency / 100, abs=0.01)
    for command in (("gjobs", "-l"), ("ghist", "-l")):
        said = cluster.run(*command, str(job)).stdout
        assert all(title in said for title in ("MEMORY USAGE", "CPU USAGE", "I/O USAGE"))
        assert f"CPU AVERAGE: {cores} ;  CPU TIME: {usage.cpu_s:.1f} second(s)\n" in said
