"""The frameworks that launch profiles are for, unmodified: their own launchers start ranks that add up."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import Cluster, printed

pytestmark = [pytest.mark.system, pytest.mark.clients]

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv-launchers" / "bin"
TRAIN = ROOT / "tests" / "clients" / "train_launchers.py"
PROGRAMS = {"torch": "torchrun", "accelerate": "accelerate", "deepspeed": "deepspeed", "lightning": "python"}
PROGRAMS |= {"ray": "ray", "horovod": "horovodrun"}
LINE = re.compile(r"rank (\d) of (\d) local (\d) on \S+ first ([01]) gpus \S* sum 21")
WORDS = ("-n", "6", "-R", "span[ptile=2]", "-gpu", "num=2")


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    if not (BIN.parent / ".installed").exists():
        pytest.skip("needs the frameworks in an environment of their own: make .venv-launchers/.installed")
    return module_cluster("--hosts", "a,b,c", "--sim-gpus", "2")


def launched(cluster: Cluster, profile: str, *words: str, few: tuple[str, ...] = ()) -> int:
    """The number of a job of this profile."""
    program = PROGRAMS[profile.split()[0]]
    if not (BIN / program).exists():
        pytest.skip(f"there is no {program} in .venv-launchers")
    environment = f"all, PATH={BIN}:{cluster.env['PATH']}, OMP_NUM_THREADS=1"
    out = ("-o", str(cluster.folder / "out"), "-e", str(cluster.folder / "errors"))
    return cluster.submit(*WORDS, *few, *out, "-env", environment, "--launch", profile, *words)


@pytest.mark.parametrize("profile", PROGRAMS)
def test_its_ranks_add_up(cluster: Cluster, profile: str) -> None:
    few = ("-n", "4") if profile == "ray" else ()  # three of its nodes on one machine wait for one another too long
    (job,) = cluster.wait(launched(cluster, profile, "python", str(TRAIN), profile, few=few), timeout_s=600)
    told = (job.result, (cluster.folder / "errors").read_text())
    found = [*map(LINE.fullmatch, printed(cluster.folder / "out").splitlines())]
    ranks = sorted(tuple(int(number) for number in line.groups()) for line in found if line)
    (cluster.folder / "out").unlink()
    (cluster.folder / "errors").unlink()
    wanted = [(rank, 6, rank % 2, int(rank == 0)) for rank in range(6)]
    assert ranks == ([(0, 2, 0, 0)] if profile == "ray" else wanted), told
    assert job.state == "DONE", told


def test_accelerate_runs_a_program_on_one_gpu(cluster: Cluster) -> None:
    few = ("-n", "1", "-R", "span[hosts=1]", "-gpu", "num=1")
    (job,) = cluster.wait(launched(cluster, "accelerate", "echo", "runs", few=few), timeout_s=600)
    told = (job.result, (cluster.folder / "errors").read_text())
    assert job.state == "DONE" and "runs" in printed(cluster.folder / "out").split(), told
    (cluster.folder / "out").unlink()


def test_ranks_of_torchrun_are_started_again(cluster: Cluster) -> None:
    """All of them, when one was killed: they meet anew."""
    text = """import os, time, torch.distributed as dist
dist.init_process_group("gloo")
count = os.environ["GSCHED_RESTART_COUNT"]
if count == "0":
    open(f"pid.{dist.get_rank()}", "w").write(f"{os.getpid()}\\n")
    time.sleep(1000)
dist.barrier()
os.write(1, f"again {count}\\n".encode())
"""
    (cluster.folder / "again.py").write_text(text)
    job_id = launched(cluster, "torch --max-restarts 1", "python", "again.py")
    files = [cluster.folder / f"pid.{rank}" for rank in range(6)]
    cluster.until(lambda: all(file.exists() and file.read_text() for file in files), "not all ranks run", 600)
    os.kill(int(files[3].read_text()), signal.SIGKILL)
    (job,) = cluster.wait(job_id, timeout_s=600)
    told = (job.result, (cluster.folder / "errors").read_text())
    assert job.state == "DONE" and printed(cluster.folder / "out").split("\n").count("again 1") == 6, told


TRAINING = """import os, signal, subprocess, time, torch, torch.distributed as dist
asked = []
signal.signal(signal.SIGUSR2, lambda *_: asked.append(1))
dist.init_process_group("gloo")
step = int(open("step").read()) if os.path.exists("step") else 0
os.write(1, f"rank of {dist.get_world_size()} begins at {step}\\n".encode())
while True:
    time.sleep(0.05)
    step += 1
    state = torch.tensor([len(asked), int(os.path.exists("enough"))])
    dist.all_reduce(state)
    if state[0] and os.environ.get("GSCHED_IS_RANK0"):
        time.sleep(35)  # a state that takes long to save: torchrun itself would leave its ranks 30 seconds
        open("step", "w").write(str(step))
        subprocess.run([os.environ["GSCHED_BINDIR"] + "/gsched", "requeue-me"], check=True)
    if state.any():
        break
dist.barrier()
dist.destroy_process_group()
"""


def test_torchrun_goes_on_with_as_many_ranks_as_a_job_of_a_range_has_gpus(cluster: Cluster) -> None:
    """It saves its state in each size, and goes on from there in the next one."""
    folder = cluster.folder / "range"
    folder.mkdir()
    (folder / "train.py").write_text(TRAINING)
    errors = folder / "errors"

    def ranks() -> list[list[str]]:
        lines = (folder / "out").read_text().splitlines() if (folder / "out").exists() else []
        return [line.split() for line in lines if line.startswith("rank of ")]

    def begun(*sizes: int) -> bool:
        return [int(words[2]) for words in ranks()] == [*sizes]

    with cluster.files_as_they_are():
        cluster.configure(lsb_params="=Begin Parameters\nGPU_GROW_INTERVAL = 1\nEnd Parameters\n")
        environment = f"all, PATH={BIN}:{cluster.env['PATH']}, OMP_NUM_THREADS=1"
        words = ("-m", "a", "-cwd", str(folder), "-o", str(folder / "out"), "-e", str(errors), "-env", environment)
        words += ("-gpu", "num=1..2", "--signal", "USR2@300", "--launch", "torch", "python", "train.py")
        lender = cluster.submit(*words)
        cluster.until(lambda: begun(2, 2), "its ranks do not begin", 600)
        owner = cluster.submit("-m", "a", "-gpu", "num=1", "while [ ! -e range/go ]; do sleep 0.1; done")
        cluster.until(lambda: begun(2, 2, 1), "it does not go on with one rank", 600)
        (folder / "go").touch()
        cluster.until(lambda: begun(2, 2, 1, 2, 2), "it does not go on with two ranks", 600)
        (folder / "enough").touch()
        (job, _) = cluster.wait(lender, owner, timeout_s=600)
    assert job.state == "DONE" and job.resizes == 2, errors.read_text()
    starts = [int(words[-1]) for words in ranks()]
    assert starts == sorted(starts) and starts[0] == 0 < starts[2] < starts[3], starts
