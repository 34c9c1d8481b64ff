"""The walk-through of `make demo` on the GPUs of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gpu_machine
import pytest
from findings import Findings

WALKTHROUGH = Path(__file__).parents[2] / "examples" / "walkthrough.py"
REAL = "no setting is changed"
"""What it says of real GPUs alone."""

pytestmark = pytest.mark.limit(120)


def played(folder: Path, findings: Findings) -> str:
    """What the walk-through prints."""
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    environment["TMPDIR"] = str(folder)
    words = (sys.executable, str(WALKTHROUGH))
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        said, _ = process.communicate()
    except BaseException:
        process.terminate()  # it ends its cluster then
        print(process.communicate()[0])
        raise
    print(said)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    wrong = [line for line in lines if "NOT SO" in line] or lines[-1:]
    findings.expect(process.returncode == 0, "the walk-through ends well", wrong)
    findings.expect(REAL in said, "it uses the real GPUs")
    return said


@pytest.mark.row("counting and reserving by compute mode")
def test_the_walk_through_with_default_gpus(folder: Path, findings: Findings) -> None:
    if gpu_machine.mode() != gpu_machine.DEFAULT:
        pytest.skip("needs GPUs in compute mode Default")
    played(folder, findings)


@pytest.mark.row("two jobs on one exclusive GPU: the second fails with error 46, exit code 134")
def test_the_walk_through_with_exclusive_gpus(folder: Path, findings: Findings) -> None:
    if gpu_machine.mode() != gpu_machine.EXCLUSIVE:
        pytest.skip("needs GPUs in compute mode Exclusive_Process")
    findings.expect("134" in played(folder, findings), "the second job fails with exit code 134")
