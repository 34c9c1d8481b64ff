"""A job that is preempted by suspension is moved off its GPU by `cuda-checkpoint` (a stand-in), and back."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from counting_job import PREEMPTING
from live_cluster import Cluster

pytestmark = pytest.mark.system

MIB = 1 << 20
PROGRAM = """\
#!/bin/sh
# As NVIDIA's: cuda-checkpoint --get-state|--toggle --pid PID. `state` is what the driver's stand-in reads.
cd "$(dirname "$0")" || exit 1
if [ "$1" = --get-state ]; then cat "state.$3" 2>/dev/null || echo running; exit 0; fi
echo "$1 $3" >> toggles
if [ -e refuses ]; then echo "cuda-checkpoint: UVM memory is not supported"; exit 1; fi
if [ -e "state.$3" ]; then rm "state.$3"; echo "gpu.0.procs=$3:@BYTES@" >> state
else echo checkpointed > "state.$3"; echo "gpu.0.procs=" >> state; fi
"""


@pytest.fixture(scope="module")
def machine(driver_folder: Path) -> Path:
    """The folder of the driver's library, its state, and the program."""
    uuid = f"GPU-{os.getpid():08x}-3333-4000-8000-000000000000"
    lines = ["count=1", "driver=570.86.10", f"gpu.0.uuid={uuid}", "gpu.0.minor=0", "gpu.0.mode=3"]
    (driver_folder / "state").write_text("\n".join([*lines, "gpu.0.mem_mib=81559"]) + "\n")
    program = driver_folder / "cuda-checkpoint"
    program.write_text(PROGRAM.replace("@BYTES@", str(500 * MIB)))
    program.chmod(0o755)
    return driver_folder


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], machine: Path) -> Cluster:
    path = ":".join((str(machine), str(Path(sys.executable).parent), os.environ["PATH"]))
    cluster = module_cluster(LD_LIBRARY_PATH=str(machine), GSCHED_FAKE_NVML=str(machine / "state"), PATH=path)
    cluster.configure(lsb_queues=PREEMPTING)
    return cluster


def on_gpu(machine: Path) -> str:
    """What the driver says who is on the GPU."""
    lines = [line for line in (machine / "state").read_text().splitlines() if line.startswith("gpu.0.procs=")]
    return lines[-1].partition("=")[2]


def computing(cluster: Cluster, machine: Path, name: str, *options: str) -> int:
    """A job that is on its GPU until there is a file."""
    script = f'echo "gpu.0.procs=$$:{500 * MIB}" >> {machine}/state; touch {name}.began; '
    script += f'until [ -e {name}.go ]; do sleep 0.1; done; echo "gpu.0.procs=" >> {machine}/state'
    return cluster.submit("-R", "rusage[ngpus_excl_p=1]", *options, script)


def begins(cluster: Cluster, name: str) -> None:
    cluster.until((cluster.folder / f"{name}.began").exists, "it does not begin")


def test_the_gpu_goes_to_the_other_job_and_back(cluster: Cluster, machine: Path) -> None:
    low = computing(cluster, machine, "low")
    begins(cluster, "low")
    pid = on_gpu(machine).partition(":")[0]
    high = computing(cluster, machine, "high", "-q", "urgent")
    begins(cluster, "high")
    assert cluster.state(low) == "SSUSP" and not on_gpu(machine).startswith(f"{pid}:")
    shown = cluster.run("gjobs", "-UF", str(low)).stdout
    assert "KEPT WHILE SUSPENDED" in shown and "the GPU is given back" in shown
    for daemon in (f"agent-{cluster.host}", "master"):
        cluster.kill(daemon)
    cluster.up()
    (cluster.folder / "high.go").touch()
    cluster.wait(high)
    cluster.until(lambda: on_gpu(machine).startswith(f"{pid}:"), "it does not get its GPU again")
    assert cluster.becomes(low, "RUN")
    (cluster.folder / "low.go").touch()
    (view,) = cluster.wait(low)
    assert view.state == "DONE" and (machine / "toggles").read_text() == f"--toggle {pid}\n" * 2
    assert "Moved off its GPU, which is given back" in cluster.run("ghist", "-UF", str(low)).stdout


def test_what_the_program_refuses_keeps_its_gpu_and_is_told_why(cluster: Cluster, machine: Path) -> None:
    (machine / "refuses").touch()
    low = computing(cluster, machine, "stays")
    begins(cluster, "stays")
    high = computing(cluster, machine, "waits", "-q", "urgent")
    told = "It keeps its GPU: cuda-checkpoint of process"
    cluster.until(lambda: told in cluster.run("ghist", "-UF", str(low)).stdout, "it is not said")
    assert "UVM memory is not supported" in cluster.run("ghist", "-UF", str(low)).stdout
    cluster.becomes(low, "RUN")
    assert cluster.state(high) == "PEND"
    (cluster.folder / "stays.go").touch()
    begins(cluster, "waits")
    (cluster.folder / "waits.go").touch()
    assert [view.state for view in cluster.wait(low, high)] == ["DONE", "DONE"]
