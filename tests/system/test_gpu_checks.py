"""The checks for machines with real GPUs, on stand-ins for the driver and for CUDA: they can pass, and can fail."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from live_cluster import BIN

from tests.fakenvml import build

pytestmark = [pytest.mark.system, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
FILES = ("detection", "job_use", "visibility", "strangers", "two_clusters", "checkpoint", "xid")
WATTS = 300
CHECKPOINT = """\
#!/bin/sh
# As NVIDIA's: cuda-checkpoint --get-state|--toggle --pid PID. A process that is moved off is not known to the driver.
cd "$(dirname "$0")/state.cuda" || exit 1
if [ "$1" = --get-state ]; then if [ -e "$3.off" ]; then echo checkpointed; else echo running; fi; exit 0; fi
if [ -e "$3.off" ]; then mv "$3.off" "$3"; else mv "$3" "$3.off"; fi
"""


@pytest.fixture
def state(folder: Path) -> Path:
    """The state file of a machine with one GPU that is always busy; beside it the stand-ins."""
    try:
        build.build(folder)
    except build.NoCompiler as problem:
        pytest.skip(str(problem))
    build.build_cuda(folder)
    uuid = f"GPU-{os.getpid():08x}-5555-4000-8000-000000000000"
    lines = ["count=1", "driver=570.86.10", f"since={time.time() - 1000}"]
    lines += [f"gpu.0.{each}" for each in (f"uuid={uuid}", "mem_mib=81559", "util=95", "proc_util=", "capability=90")]
    lines += [f"gpu.0.power_mw={WATTS * 1000}", f"gpu.0.energy_mj=ramp:{WATTS * 1000}:7", "gpu.0.minor=0"]
    program = folder / "cuda-checkpoint"
    program.write_text(CHECKPOINT)
    program.chmod(0o755)
    path = folder / "state"
    path.write_text("\n".join(lines) + "\n")
    return path


def checked(state: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The checks of tests/gpu, without PyTorch."""
    environment = {
        **os.environ,
        "GSCHED_FAKE_NVML": str(state),
        "LD_LIBRARY_PATH": str(state.parent),
        "PATH": f"{BIN}:{state.parent}:{ROOT / 'tests' / 'fakenvml'}:{os.environ['PATH']}",
    }
    program = (sys.executable, "-m", "pytest", "-m", "gpu", "--torch-python", "false", *words)
    return subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.nightly
def test_the_checks_pass_on_a_machine_that_is_as_it_should_be(state: Path) -> None:
    done = checked(state, *(f"tests/gpu/test_gpu_{name}.py" for name in FILES))
    assert done.returncode == 0, done.stdout
    assert "| detecting GPUs, UUIDs, compute modes, memory | passed |" in done.stdout
    assert "| two clusters on one machine avoid each other's GPUs | passed |" in done.stdout
    assert "| vGPU | not checked |" in done.stdout


def test_a_check_says_what_is_not_as_it_should_be(state: Path) -> None:
    with state.open("a") as file:
        file.write("gpu.0.no_events=1\n")
    done = checked(state, "tests/gpu/test_gpu_detection.py", "-k", "errors_of_the_driver")
    assert done.returncode == 1
    assert "not so: ghosts -l has no note that XIDs are not heard" in done.stdout
