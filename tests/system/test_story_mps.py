"""MPS daemons through the real commands: who shares one, when it ends, and what is told (a stand-in for MPS)."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import Cluster

from gsched.base.coded_text import sentence

pytestmark = pytest.mark.system

STAND_IN = Path(__file__).resolve().parents[1] / "fakemps"
ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)), flush=True); os.read(os.open('{}', os.O_RDONLY), 1)"
"""Prints the environment and runs until something is written to a pipe."""


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mps") / "bin"
    shutil.copytree(STAND_IN, folder)
    return folder / "nvidia-cuda-mps-control"


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], control: Path) -> Cluster:
    """Two jobs may share a GPU."""
    cluster = module_cluster("--sim-gpus", "2")
    cluster.down()
    conf, params = cluster.conf / "lsf.conf", cluster.conf / "lsb.params"
    conf.write_text(conf.read_text() + f"GSCHED_MPS_CONTROL={control}\n")
    params.write_text(params.read_text().replace("GPU_SHARED_JOBS = 1", "GPU_SHARED_JOBS = 2"))
    cluster.run("gsched", "sim-gpu", "0-1", "compute_mode=default", "--dir", str(cluster.folder))
    cluster.up()
    return cluster


def log(control: Path) -> list[str]:
    path = control.parent / "log"
    return path.read_text().splitlines() if path.exists() else []


def groups_of(pid: int) -> list[Path]:
    """Folders that are control groups which the process may be in, of the MPS daemons among them."""
    paths = [line.split(":", 2)[2] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    mounts = [row.split()[4] for row in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup" in row]
    return [Path(f"{mount}{path}") for mount in mounts for path in paths if "/mps-" in path]


def on_gpu(cluster: Cluster, uuid: str, *pids: int) -> None:
    """Let the simulated GPU have these processes."""
    (path,) = (cluster.folder / "gpus").glob("*.json")
    gpus = json.loads(path.read_text())
    for gpu in gpus:
        if gpu["uuid"] == uuid:
            gpu["processes"] = [{"pid": pid, "used_mib": 500} for pid in pids]
    new = path.with_suffix(".new")
    new.write_text(json.dumps(gpus))
    new.replace(path)


def processes(cluster: Cluster) -> list[list[str]]:
    """The rows of GPU PROCESSES of ghosts -gpu -l, without the GPU's number, the kind and the name."""
    said = cluster.run("ghosts", "-gpu", "-l").stdout
    return [line.split()[1:5] for line in said.partition("GPU PROCESSES\n")[2].splitlines()[1:]]


class Job:
    """One that tells its environment and runs until it is told to end."""

    def __init__(self, cluster: Cluster, name: str, gpu: str) -> None:
        self.pipe, self._output, self._cluster = cluster.folder / f"{name}.pipe", cluster.folder / name, cluster
        os.mkfifo(self.pipe)
        code = ENVIRONMENT.format(self.pipe)
        self.number = cluster.submit("-gpu", gpu, "-o", name, "python", "-c", code)

    def environment(self) -> dict[str, str]:
        self._cluster.starts(self.number)

        def said() -> str:
            return self._cluster.run("gpeek", str(self.number), check=False).stdout.partition("{")[2]

        self._cluster.until(lambda: said().endswith("}\n"), f"job {self.number} says nothing")
        found: dict[str, str] = json.loads("{" + said())
        return found

    def end(self) -> None:
        with self.pipe.open("w") as pipe:
            pipe.write("x")
        assert self._cluster.wait(self.number)[0].state == "DONE"


@pytest.mark.nightly
def test_pains_24_a_daemon_lives_as_long_as_its_jobs(cluster: Cluster, control: Path) -> None:
    """pains 24."""
    gpu = "num=1:mps=yes:gpack=yes"
    first = Job(cluster, "first", gpu)
    told = first.environment()
    uuid, pipes = told["GSCHED_GPU_UUIDS"], Path(told["CUDA_MPS_PIPE_DIRECTORY"])
    assert told["CUDA_VISIBLE_DEVICES"] == "0" and log(control) == [f"start {uuid}"]
    # A daemon on the GPU is no stranger there, which would keep others away.
    daemon = int((pipes / "nvidia-cuda-mps-control.pid").read_text())
    on_gpu(cluster, uuid, daemon)
    groups = groups_of(daemon)
    assert any(path.is_dir() for path in groups) == cluster.is_fenced(), "it does not end with the agent's service"
    row = [str(daemon), "-", "500M", str(first.number)]
    cluster.until(lambda: row in processes(cluster), "the daemon is not known")
    second = Job(cluster, "second", gpu)
    assert second.environment()["CUDA_MPS_PIPE_DIRECTORY"] == str(pipes)
    other = Job(cluster, "other", "num=1:mps=yes,nocvd")
    elsewhere = other.environment()
    assert "CUDA_VISIBLE_DEVICES" not in elsewhere and elsewhere["CUDA_MPS_PIPE_DIRECTORY"] != str(pipes)
    # The first one to leave leaves it running, and so does an agent that is killed.
    cluster.kill(f"agent-{cluster.host}")
    cluster.up()
    first.end()
    started = [f"start {uuid}", f"start {elsewhere['GSCHED_GPU_UUIDS']}"]
    assert log(control) == started
    # A crash is told to the job that uses it, and to no other.
    on_gpu(cluster, uuid)
    os.kill(daemon, signal.SIGKILL)
    said = "Run 1: the MPS control daemon on GPU "
    cluster.until(
        lambda: any(note.startswith(said) for note in map(sentence, cluster.job(second.number).notes)), "nobody is told"
    )
    assert cluster.job(other.number).notes == () and said in cluster.run("ghist", "-l", str(second.number)).stdout
    third = Job(cluster, "third", "num=1:mps=yes:gmem=1G:gpack=yes")
    assert third.environment()["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=1024M"
    assert log(control) == [*started, f"start {third.environment()['GSCHED_GPU_UUIDS']}"]
    for job in (second, third, other):
        job.end()
    assert sorted(log(control)[3:]) == sorted(line.replace("start", "quit") for line in started)
    assert not pipes.parent.exists()
    assert not any(path.is_dir() for path in groups), "its control groups are gone"
    assert "of which nothing is known" not in cluster.logs()


def test_without_mps_the_job_waits_and_says_why(cluster: Cluster, control: Path) -> None:
    hidden = control.with_name("hidden")
    control.rename(hidden)
    job = cluster.submit("-gpu", "num=1:mps=yes", "true")
    said = f"MPS cannot be had: there is no {control} on this host"
    cluster.until(
        lambda: said in cluster.run("ghist", "-l", str(job)).stdout.replace("\n                     ", ""), said
    )
    hidden.rename(control)
    assert cluster.wait(job)[0].state == "DONE"
