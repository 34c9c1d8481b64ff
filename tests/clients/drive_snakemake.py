"""Snakemake and its executor for LSF or Slurm on the commands that come first on PATH. Prints OK snakemake.

A rule asks for a GPU, one fails. Most of the time is Snakemake's own: it asks after 20 or 40 seconds at first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SYSTEM = sys.argv[1]
RESOURCES = {
    "lsf": lambda queue: [f"lsf_queue={queue}", "lsf_project=snakes"],
    "slurm": lambda queue: [f"slurm_partition={queue}", "slurm_account=snakes"],
}
FAILURES = {"lsf": "LSF status is: 'EXIT'", "slurm": "SLURM status is: 'FAILED'"}
SNAKEMAKE = Path(sys.executable).parent / "snakemake"


def snakemake(target: str) -> subprocess.CompletedProcess[str]:
    queue = os.environ.get("BATCH_QUEUE", "normal")
    words = [str(SNAKEMAKE), "--executor", SYSTEM, "--jobs", "4", "--latency-wait", "5", "--config", f"system={SYSTEM}"]
    words += ["--default-resources", *RESOURCES[SYSTEM](queue), "--", target]
    # The jobs call snakemake by its name again.
    env = {**os.environ, "PATH": f"{os.environ['PATH']}:{SNAKEMAKE.parent}"}
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=600, check=False)


def main() -> None:
    shutil.copy(HERE / "Snakefile", "Snakefile")
    done = snakemake("all")
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = {path.stem: path.read_text().split() for path in Path("out").iterdir()}
    print(outputs)
    assert outputs["a"][0] == "a" and outputs["b=c"][0] == "b=c"
    assert outputs["a"][1].isdigit() and outputs["a"][1] != outputs["b=c"][1]
    assert outputs["joined"] == ["2", *outputs["a"]]
    assert outputs["gpu"][0] == "gpu" and outputs["gpu"][1].isdigit()
    failed = snakemake("out/never.txt")
    assert failed.returncode != 0, "a rule that fails was taken for good"
    assert FAILURES[SYSTEM] in failed.stderr, failed.stderr
    print("OK snakemake")


main()
