"""The site's health program on GPUs that have been idle for long, run by a real agent with a short interval."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import Cluster

from gsched.base.coded_text import sentence

pytestmark = pytest.mark.system

TWO = range(2)
ONE = ("-R", "rusage[ngpus_excl_p=1]")
OFTEN_H = 0.0001
"""0.36 seconds."""
NEVER_H = 0
CHECK = """#!/bin/sh
cd {folder}
echo begin $GSCHED_GPU_INDEX $GSCHED_GPU_CHECK >> log
while [ -e hold ]; do sleep 0.02; done
echo end $GSCHED_GPU_INDEX >> log
[ ! -e bad.$GSCHED_GPU_INDEX ] || {{ echo looking; cat bad.$GSCHED_GPU_INDEX; exit 3; }}
"""


class Site:
    """Two GPUs of a driver that a stand-in plays, and a program that says of each what a test wants."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "site"
        self.folder.mkdir()
        self.state = folder / "state"
        lines = ["count=2", *(f"gpu.{index}.mode=3" for index in TWO)]
        lines += [f"gpu.{index}.uuid={self.uuid(index)}" for index in TWO]
        self.state.write_text("\n".join(lines) + "\n")
        self.program = self.folder / "check"
        self.program.write_text(CHECK.format(folder=self.folder))
        self.program.chmod(0o755)

    def uuid(self, index: int) -> str:
        """Of this run alone: the locks on GPUs are the whole machine's."""
        return f"GPU-{os.getpid():08x}-9999-4000-8000-{index:012d}"

    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def begun(self, index: int) -> int:
        """So often a run has begun for the GPU."""
        return self.log().count(f"begin {index} idle")

    def bad(self, index: int, why: str) -> None:
        (self.folder / f"bad.{index}").write_text(f"{why}\n")

    def good(self) -> None:
        for path in self.folder.glob("bad.*"):
            path.unlink()

    @property
    def hold(self) -> Path:
        """As long as it is there no run ends."""
        return self.folder / "hold"


@pytest.fixture(scope="module")
def site(driver_folder: Path) -> Site:
    return Site(driver_folder)


@pytest.fixture(scope="module")
def shared(module_cluster: Callable[..., Cluster], site: Site) -> Cluster:
    cluster = module_cluster(LD_LIBRARY_PATH=str(site.state.parent), GSCHED_FAKE_NVML=str(site.state))
    text = (cluster.conf / "lsf.conf").read_text()
    assert "GSCHED_GPU_INTERVAL=1\n" in text
    cluster.configure(lsf_conf="=" + text.replace("GSCHED_GPU_INTERVAL=1\n", "GSCHED_GPU_INTERVAL=0.1\n"))
    return cluster


@pytest.fixture
def cluster(shared: Cluster, site: Site) -> Iterator[Cluster]:
    checks_every(shared, site, OFTEN_H)
    yield shared
    site.hold.unlink(missing_ok=True)
    site.good()
    shared.end_jobs()
    shared.until(lambda: not problems(shared), "a GPU stays closed")


def checks_every(cluster: Cluster, site: Site, hours: float) -> None:
    lines = [f"GPU_HEALTH_CHECK = {site.program}", f"GPU_HEALTH_INTERVAL = {hours:f}", "JOB_TERMINATE_INTERVAL = 0.2"]
    cluster.configure(lsb_params="=Begin Parameters\n" + "\n".join(lines) + "\nEnd Parameters\n")


def problems(cluster: Cluster) -> dict[int, str]:
    """Index -> why it is not offered, as people are told."""
    with cluster.client() as client:
        gpus = [each.gpu for host in client.hosts() for each in host.gpus]
    return {gpu.index: sentence(gpu.problem) for gpu in gpus if gpu.problem}


def index_of(cluster: Cluster, job: int) -> int:
    allocation = cluster.job(job).allocation
    assert allocation is not None
    return allocation.hosts[0].gpus[0].index


def verdict(why: str) -> str:
    return f"check, which checks its health, ended with exit code 3: {why}"


def is_closed(cluster: Cluster, index: int, why: str) -> bool:
    """Whether that one is closed so; the other one may be looked at at the moment."""
    return problems(cluster).get(index) == verdict(why)


def test_a_bad_one_is_closed_until_a_later_run_is_well(cluster: Cluster, site: Site) -> None:
    site.bad(1, "row 9 is bad")
    cluster.until(lambda: is_closed(cluster, 1, "row 9 is bad"), "it is not closed")
    assert not is_closed(cluster, 0, "row 9 is bad")
    shown = cluster.run("ghosts", "-gpu", "-l").stdout
    assert f"ERROR of GPU 1: {verdict('row 9 is bad')}\n" in shown
    rows = json.loads(cluster.run("ghosts", "-gpu", "-l", "-json").stdout)["RECORDS"]
    assert [(row["STATUS"], row["ERROR"]) for row in rows if row["GPU_ID"] == 1] == [("error", verdict("row 9 is bad"))]
    assert verdict("row 9 is bad").replace(" ", "") in "".join(cluster.run("ghosts", "-l").stdout.split())
    # No job gets it, and the one that waits is told why.
    first, second = (cluster.submit(*ONE, "sleep", "600") for _ in range(2))
    cluster.starts(first)
    assert index_of(cluster, first) == 0
    cluster.until(lambda: "row 9 is bad" in cluster.why_pending(second), "the reason does not say why")
    # Another agent knows it, and looks again.
    cluster.kill(f"agent-{cluster.host}")
    cluster.up()
    before = site.begun(1)
    cluster.until(lambda: site.begun(1) > before, "it is not looked at again")
    assert cluster.state(second) == "PEND"
    # It names what the last run said, and opens after one that is well.
    site.bad(1, "row 7 is bad")
    cluster.until(lambda: is_closed(cluster, 1, "row 7 is bad"), "the newest reason is not told")
    site.good()
    cluster.starts(second)
    assert index_of(cluster, second) == 1
    cluster.until(lambda: not problems(cluster), "it is still closed")


def test_it_never_runs_below_a_job(cluster: Cluster, site: Site) -> None:
    job = cluster.submit(*ONE, "sleep", "600")
    cluster.starts(job)
    held = index_of(cluster, job)
    before, other = site.begun(held), site.begun(1 - held)
    cluster.until(lambda: site.begun(1 - held) >= other + 5, "the other one is not looked at")
    assert site.begun(held) == before
    # From its end on the time counts anew.
    cluster.run("gkill", str(job))
    cluster.wait(job)
    cluster.until(lambda: site.begun(held) > before, "it is not looked at after its job")


def test_no_job_starts_during_a_run(cluster: Cluster, site: Site) -> None:
    site.hold.touch()
    held = "its health is to be checked by check first"
    cluster.until(lambda: problems(cluster) == dict.fromkeys(TWO, held), "they are offered during a run")
    jobs = [cluster.submit(*ONE, f"echo job $GSCHED_GPU_UUIDS >> {site.folder}/log; sleep 600") for _ in range(2)]
    for job in jobs:
        cluster.until(lambda job=job: held in cluster.why_pending(job), "the reason does not say that it is looked at")
    assert not any(line.startswith("job") for line in site.log())
    site.hold.unlink()
    cluster.until(lambda: sum(line.startswith("job") for line in site.log()) == len(jobs), "they do not run")
    for index in TWO:
        mine = [line.split()[0] for line in site.log() if line.split()[1] in (str(index), site.uuid(index))]
        assert mine[-1] == "job" and mine[-2] == "end", "a run that had begun has ended, and none has begun since"


@pytest.mark.nightly
def test_an_administrator_opens_it(cluster: Cluster, site: Site) -> None:
    site.bad(0, "a fan stands still")
    cluster.until(lambda: is_closed(cluster, 0, "a fan stands still"), "it is not closed")
    checks_every(cluster, site, NEVER_H)
    cluster.until(lambda: problems(cluster).keys() == {0}, "the other one stays closed")
    opened = cluster.run("gadmin", "gpuopen", f"{cluster.host}:0").stderr
    assert opened == f"Open <{cluster.host}:0> ...... done\n"
    cluster.until(lambda: not problems(cluster), "it stays closed")
    told = cluster.run("gadmin", "hhist").stdout
    assert f"GPU <0> ({site.uuid(0)}) of host <{cluster.host}> opened by administrator" in told
    jobs = [cluster.submit(*ONE, "sleep", "600") for _ in range(2)]
    for job in jobs:
        cluster.starts(job)
    assert sorted(index_of(cluster, job) for job in jobs) == [*TWO]
    cluster.end_jobs()
    # What was opened is looked at again when its time has come.
    checks_every(cluster, site, OFTEN_H)
    cluster.until(lambda: is_closed(cluster, 0, "a fan stands still"), "it is never looked at again")
