"""Compute modes per job, through real daemons: simulated GPUs, and a driver's library that is played."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import Cluster

MIB = 1024 * 1024
EXCLUSIVE = "num=1:mode=exclusive_process"


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "2:exclusive_process")


@pytest.fixture(autouse=True)
def all_free(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    for name in {"cluster", "driven"} & set(request.fixturenames):
        found: Cluster = request.getfixturevalue(name)
        found.end_jobs()


def told(cluster: Cluster, *words: str) -> str:
    """What a command prints, its broken lines put together."""
    return re.sub(r"\n +", "", cluster.run(*words).stdout)


def modes(cluster: Cluster) -> list[str]:
    listed = json.loads((cluster.folder / "gpus" / f"{cluster.host}.json").read_text())
    return [each["compute_mode"] for each in listed]


def index_of(cluster: Cluster, job: int) -> int:
    view = cluster.starts(job)
    assert view.allocation is not None
    return view.allocation.hosts[0].gpus[0].index


def counters(cluster: Cluster) -> list[tuple[float | None, float | None]]:
    """(left, reserved) of ngpus_shared and ngpus_excl_p."""
    with cluster.client() as client:
        (host,) = client.hosts()
    found = {each.name: each for each in host.externals}
    return [(found[name].total, found[name].reserved) for name in ("ngpus_shared", "ngpus_excl_p")]


def test_a_job_gets_the_mode_that_it_asks_for_and_the_administrator_gets_his_back(cluster: Cluster) -> None:
    """pains 29: `-gpu num=1` wants mode Default; these GPUs stand in Exclusive_Process."""
    job = cluster.submit("-gpu", "num=1", "sleep", "600")
    index = index_of(cluster, job)
    assert sorted(modes(cluster)) == ["default", "exclusive_process"] and modes(cluster)[index] == "default"
    cluster.until(lambda: counters(cluster) == [(0.0, 0.0), (1.0, 1.0)], "the counters follow the job's mode")
    said = f"GPU {index} is in compute mode default for its jobs, and goes back to exclusive_process"
    assert said in told(cluster, "ghosts", "-l")
    cluster.run("gkill", str(job))
    cluster.wait(job)
    assert modes(cluster) == ["exclusive_process"] * 2, "set back before the end is told"
    cluster.until(lambda: counters(cluster) == [(0.0, 0.0), (2.0, 0.0)], "the counters are not as before")


def test_several_processes_on_a_gpu_of_their_own(cluster: Cluster) -> None:
    """Seed 004: each process of a job has a context on each of its GPUs, and no other job may be there."""
    first = cluster.submit("-gpu", "num=1:mode=shared:j_exclusive=yes", "-n", "2", "sleep 600 & sleep 600")
    second = cluster.submit("-gpu", "num=1:mode=shared:j_exclusive=yes", "sleep", "600")
    assert {index_of(cluster, first), index_of(cluster, second)} == {0, 1}
    assert modes(cluster) == ["default", "default"]
    third = cluster.submit("-gpu", "num=1", "true")
    assert "ngpus_physical" in cluster.why_pending(third)
    cluster.run("gkill", str(first))
    assert cluster.wait(third)[0].state == "DONE"


def test_parts_of_a_gpu_go_together_also_while_its_mode_is_being_set(cluster: Cluster) -> None:
    jobs = [cluster.submit("-H", "-gpu", "num=1:share=0.5", "sleep", "600") for _ in range(2)]
    cluster.run("gresume", *map(str, jobs))
    assert len({index_of(cluster, job) for job in jobs}) == 1
    assert sorted(modes(cluster)) == ["default", "exclusive_process"]
    cluster.run("gkill", str(jobs[0]))
    cluster.wait(jobs[0])
    assert sorted(modes(cluster)) == ["default", "exclusive_process"]
    cluster.run("gkill", str(jobs[1]))
    cluster.wait(jobs[1])
    assert modes(cluster) == ["exclusive_process"] * 2


@pytest.mark.parametrize("ends", ["while the agent is away", "later"])
def test_an_agent_that_is_killed_sets_back_what_its_jobs_had(cluster: Cluster, ends: str) -> None:
    job = cluster.submit("-gpu", "num=2", "-o", "out", "while [ ! -e go ]; do sleep 0.05; done")
    index_of(cluster, job)
    agent = f"agent-{cluster.host}"
    cluster.kill(agent)
    assert modes(cluster) == ["default"] * 2
    if ends == "later":
        cluster.up()
        cluster.until(
            lambda: cluster.run("ghosts", "-l").stdout.count("goes back to") == 2, "nobody knows of the modes"
        )
        assert modes(cluster) == ["default"] * 2
    (cluster.folder / "go").touch()
    if ends != "later":
        cluster.up()
    assert cluster.wait(job)[0].state == "DONE"
    cluster.until(lambda: modes(cluster) == ["exclusive_process"] * 2, "the modes are not set back")
    (cluster.folder / "go").unlink()
    # The GPUs are offered as before.
    assert cluster.wait(cluster.submit("-R", "rusage[ngpus_excl_p=2]", "true"))[0].state == "DONE"


def test_a_mode_that_is_changed_under_a_job_is_in_its_history_and_stays(cluster: Cluster) -> None:
    job = cluster.submit("-gpu", "num=1:mode=shared", "sleep", "600")
    index = index_of(cluster, job)
    folder = str(cluster.folder)
    cluster.run("gsched", "sim-gpu", str(index), "compute_mode=prohibited", "--dir", folder)
    said = f"Somebody has changed the compute mode of GPU {index} ("

    def is_told() -> bool:
        history = told(cluster, "ghist", "-l", str(job))
        return said in history and "from default to prohibited while run 1 uses it" in history

    cluster.until(is_told, "the change is not in the history")
    assert cluster.state(job) == "RUN"
    cluster.run("gkill", str(job))
    cluster.wait(job)
    assert modes(cluster)[index] == "prohibited"
    # And it is used by nobody, nor changed, whatever is asked for.
    for wish in ("num=2:mode=shared", "num=2:mode=exclusive_process"):
        assert "at most" in cluster.run("gsub", "-gpu", wish, "true", check=False).stderr
    assert cluster.wait(cluster.submit("-gpu", EXCLUSIVE, "true"))[0].state == "DONE"
    assert modes(cluster)[index] == "prohibited"
    cluster.run("gsched", "sim-gpu", str(index), "compute_mode=exclusive_process", "--dir", folder)


# -- a driver that is played ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def machine(driver_folder: Path) -> Path:
    told = "gpu.{0}.uuid=GPU-{1:08x}-0004-4000-8000-{0:012d}\ngpu.{0}.mode=0\ngpu.{0}.procs="
    lines = ["count=2", *(told.format(index, os.getpid()) for index in range(2))]
    (driver_folder / "state").write_text("\n".join(lines) + "\n")
    return driver_folder / "state"


@pytest.fixture(scope="module")
def driven(module_cluster: Callable[..., Cluster], machine: Path) -> Cluster:
    return module_cluster(name="driven", LD_LIBRARY_PATH=str(machine.parent), GSCHED_FAKE_NVML=str(machine))


def tell(machine: Path, *lines: str) -> None:
    with machine.open("a") as state:
        state.write("".join(f"{line}\n" for line in lines))


def mode_of(machine: Path, index: int) -> str:
    key = f"gpu.{index}.mode="
    return [line.removeprefix(key) for line in machine.read_text().splitlines() if line.startswith(key)][-1]


@pytest.mark.needs_root
def test_the_driver_is_told_the_mode_of_a_job(driven: Cluster, machine: Path) -> None:
    job = driven.submit("-gpu", EXCLUSIVE, "sleep", "600")
    index = index_of(driven, job)
    assert (mode_of(machine, index), mode_of(machine, 1 - index)) == ("3", "0")
    driven.run("gkill", str(job))
    driven.wait(job)
    assert mode_of(machine, index) == "0"


@pytest.mark.needs_root
def test_an_agent_that_is_killed_before_the_job_starts_sets_back(driven: Cluster, machine: Path) -> None:
    tell(machine, "late_ms.nvmlDeviceSetComputeMode=600000")  # what sets it is not back before the agent is killed
    before = machine.read_text().count(".mode=3")
    job = driven.submit("-gpu", EXCLUSIVE, "true")
    driven.until(lambda: machine.read_text().count(".mode=3") > before, "the mode is not set")
    driven.kill(f"agent-{driven.host}")
    assert driven.job(job).pid is None
    driven.run("gkill", "-r", str(job))
    assert "3" in (mode_of(machine, 0), mode_of(machine, 1))
    tell(machine, "late_ms.nvmlDeviceSetComputeMode=0")
    driven.up()
    driven.until(lambda: (mode_of(machine, 0), mode_of(machine, 1)) == ("0", "0"), "the mode is not set back")


@pytest.mark.needs_root
def test_a_busy_exclusive_gpu_is_named_with_its_holder(driven: Cluster, machine: Path) -> None:
    """pains 29: "all CUDA-capable devices are busy" tells nobody who has the GPU."""
    code = "import os, sys, time\nwhile not os.path.exists('busy'): time.sleep(0.02)\nsys.exit(46)"
    job = driven.submit("-gpu", EXCLUSIVE, "python", "-c", code)
    index = index_of(driven, job)
    tell(machine, f"gpu.{index}.procs={os.getpid()}:{70 * MIB}")
    (driven.folder / "busy").touch()
    (view,) = driven.wait(job)
    (driven.folder / "busy").unlink()
    assert view.state == "EXIT"
    history = told(driven, "ghist", "-l", str(job))
    assert f"device busy: GPU {index} (" in history
    assert f"in mode exclusive_process, is held by pid {os.getpid()} of" in history
    assert "(70 MiB)" in history
    tell(machine, f"gpu.{index}.procs=")


@pytest.mark.needs_root
def test_where_the_driver_refuses_the_job_waits_and_says_why(driven: Cluster, machine: Path) -> None:
    tell(machine, "err.nvmlDeviceSetComputeMode=4")
    job = driven.submit("-gpu", EXCLUSIVE, "true")
    driven.until(lambda: "needs root" in told(driven, "ghist", "-l", str(job)), "nothing is told")
    said = "compute modes are not set for jobs: the driver does not let this agent set compute modes"
    driven.until(lambda: said in told(driven, "ghosts", "-l"), "ghosts does not tell")
    refused = driven.run("gsub", "-gpu", EXCLUSIVE, "true", check=False).stderr
    assert "no GPU is in Exclusive_Process mode, and" in refused and "does not let this agent" in refused
    driven.run("gkill", str(job))
