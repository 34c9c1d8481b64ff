"""Wall time of gsub, gjobs and others beside `python -I -S -c pass` in the same run. Goal: under 2 times.

Where a Slurm is installed and answers (SLURM_CONF says which), its sbatch and squeue are timed in the same run too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial

from private_cluster import BIN, client_of, private_cluster, report, wall_ms

from gsched.model.views.view import JobFilter
from gsched.wire.calls.client import Client

TIMES = 30


def main() -> int:
    """Print a table and the figures; exit code 0."""
    with private_cluster("--sim-gpus", "4:exclusive_process") as environment, client_of(environment) as client:
        base = wall_ms([sys.executable, "-I", "-S", "-c", "pass"], environment, TIMES)
        print(f"{'python -I -S -c pass':<28} {base:7.1f} ms  1.00")
        figures = {"python_ms": base}
        for words in (["gsub", "true"], ["gjobs"], ["gjobs", "-a"], ["ghosts", "-l"], ["gid"]):
            settle = partial(wait_for_all, client)
            found = wall_ms([str(BIN / words[0]), *words[1:]], environment, TIMES, settle)
            print(f"{' '.join(words):<28} {found:7.1f} ms  {found / base:4.2f}")
            name = "_".join(word.strip("-") for word in words if word != "true")
            figures[f"{name}_ms"] = found
            figures[f"{name}_ratio"] = found / base
        alone = wall_ms([str(BIN / "gjobs")], {**environment, "GSCHED_DOOR": "off"}, 5)
        print(f"{'gjobs without the door':<28} {alone:7.1f} ms  {alone / base:4.2f}")
        figures["gjobs_without_door_ms"] = alone
        figures |= beside_slurm(figures)
    report("commands", figures)
    return 0


def beside_slurm(ours: dict[str, float]) -> dict[str, float]:
    """Wall time of sbatch and squeue in milliseconds, and ours as a part of it; nothing where no Slurm answers."""
    if not all(shutil.which(name) for name in ("sbatch", "squeue")):
        return {}
    environment = dict(os.environ)
    if subprocess.run(["timeout", "5", "squeue"], env=environment, capture_output=True, check=False).returncode:
        print("sbatch and squeue are installed, but no Slurm answers them")
        return {}
    figures: dict[str, float] = {}
    for words, name in ((["sbatch", "-Q", "-o", "/dev/null", "--wrap", "true"], "gsub"), (["squeue"], "gjobs")):
        found = wall_ms(words, environment, TIMES, _queue_is_empty)
        ratio = ours[f"{name}_ms"] / found
        print(f"{words[0]:<28} {found:7.1f} ms; {name} takes {ratio:4.2f} of it")
        figures |= {f"{words[0]}_ms": found, f"{name}_to_{words[0]}": ratio}
    return figures


def _queue_is_empty() -> None:
    """Let every job of Slurm end: the job of one sbatch must not run beside the next."""
    while subprocess.run(["squeue", "-h"], capture_output=True, check=True).stdout:
        pass


def wait_for_all(client: Client) -> None:
    """Let every job end."""
    client.wait([job.job_id for job in client.jobs(JobFilter(user="all"))], timeout_s=30)


if __name__ == "__main__":
    sys.exit(main())
