"""The same jobs on gsched and on Slurm, in real time: GPU use, waits, and who starts before older jobs.

One host with 12 GPUs (simulated; for Slurm they are the processors of the node), jobs that sleep for seconds, all
submitted at once. Three workloads: small jobs with one among them that wants all GPUs; mixed sizes without run limits;
the same with a run limit of one minute, the finest that Slurm knows. Slurm runs its backfill scheduler every second,
which is as often as it can. It is started privately, on loopback, by root alone, from the packages slurm-wlm and munge;
where they are missing nothing is compared. An inversion is a pair of jobs of which the younger started though the older
one, which wants no more GPUs, waited on.

    python bench/slurm_order.py [--only one-big,mixed,mixed-limits] [--size 1.0]

The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from private_cluster import client_of, private_cluster, report, submission
from private_slurm import is_there, private_slurm

GPUS = 12
LEFT = 15
"""Jobs that wait when saturation is over."""
SAME_TIME_S = 0.5
"""Starts that are no further apart are in no order."""
PATIENCE_S = 600.0
PORTS = 26917, 26918

SLURM_TUNING = """\
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1,bf_max_job_test=1000
PriorityType=priority/basic
"""


class Sleeper(NamedTuple):
    """A job that holds GPUs for so many seconds. `limit_s`: 0 for none."""

    gpus: int
    runs_s: float
    limit_s: int = 0


class Ran(NamedTuple):
    """When it ran, seconds since the epoch."""

    gpus: int
    started: float
    ended: float


Submit = Callable[[Sleeper, str], None]
"""Hands in a job with a command line."""


def main() -> int:
    """Print a line for each system and workload; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="one-big,mixed,mixed-limits", help="workloads")
    parser.add_argument("--size", type=float, default=1.0, help="how many jobs, as a part of the usual number")
    asked = parser.parse_args()
    systems = {"gsched": on_gsched}
    if is_there():
        systems["slurm"] = on_slurm
    else:
        print("Slurm is left out: it needs root and the packages slurm-wlm and munge")
    figures: dict[str, float] = {}
    print(f"{'workload':13} {'system':7} {'jobs':>5} {'use':>6} {'mean wait':>10} {'inversions':>11} {'makespan':>9}")
    for name in asked.only.split(","):
        jobs = workload(name, asked.size)
        for system, opened in systems.items():
            found = figures_of(played(jobs, opened))
            use, wait, inversions, makespan = found
            print(f"{name:13} {system:7} {len(jobs):5} {use:6.3f} {wait:8.1f} s {inversions:11.0f} {makespan:7.1f} s")
            names = ("use", "mean_wait_s", "inversions", "makespan_s")
            figures |= {f"{name}_{system}_{what}": round(value, 4) for what, value in zip(names, found, strict=True)}
    report("slurm_order", figures)
    return 0


def workload(name: str, size: float) -> list[Sleeper]:
    """The jobs in the order in which they are submitted."""
    chance = random.Random(11)
    if name == "one-big":
        small = [Sleeper(1, 2.0 + chance.random()) for _ in range(round(60 * size))]
        return [*small, Sleeper(GPUS, 3.0), *(Sleeper(1, 2.0 + chance.random()) for _ in range(round(20 * size)))]
    limit = 60 if name == "mixed-limits" else 0
    sizes = (1, 1, 1, 2, 2, 4)
    return [Sleeper(chance.choice(sizes), chance.uniform(2.0, 10.0), limit) for _ in range(round(100 * size))]


def played(jobs: Sequence[Sleeper], opened: Callable[[], contextlib.AbstractContextManager[Submit]]) -> list[Ran]:
    """What became of the jobs, in order of submission, once all have ended."""
    with tempfile.TemporaryDirectory(prefix="slurm-order-") as folder, opened() as submit:
        os.chmod(folder, 0o777)
        for number, job in enumerate(jobs):
            start, end = (Path(folder, f"{what}.{number}") for what in ("start", "end"))
            line = f"date +%s.%N > {start}; sleep {job.runs_s:.2f}; date +%s.%N > {end}.new; mv {end}.new {end}"
            submit(job, line)
        deadline = time.monotonic() + PATIENCE_S
        while len(list(Path(folder).glob("end.*[0-9]"))) < len(jobs):
            assert time.monotonic() < deadline, "not all jobs have ended"
            time.sleep(0.5)
        stamps = [
            [float(Path(folder, f"{what}.{n}").read_text()) for what in ("start", "end")] for n in range(len(jobs))
        ]
    return [Ran(job.gpus, *stamp) for job, stamp in zip(jobs, stamps, strict=True)]


def figures_of(jobs: Sequence[Ran]) -> tuple[float, float, float, float]:
    """Use until at most LEFT jobs wait, mean wait, inversions, makespan; waits from the first start on."""
    begin = min(job.started for job in jobs)
    until = sorted(job.started for job in jobs)[max(0, len(jobs) - LEFT - 1)]
    held = sum(job.gpus * max(0.0, min(job.ended, until) - job.started) for job in jobs)
    inversions = sum(
        older.gpus <= younger.gpus and younger.started + SAME_TIME_S < older.started
        for place, older in enumerate(jobs)
        for younger in jobs[place + 1 :]
    )
    wait = sum(job.started - begin for job in jobs) / len(jobs)
    return held / (GPUS * (until - begin)), wait, float(inversions), max(job.ended for job in jobs) - begin


@contextlib.contextmanager
def on_gsched() -> Iterator[Submit]:
    """A private cluster of `gsched up`, as it is."""
    words = ("--sim-gpus", f"{GPUS}:exclusive_process")
    with private_cluster(*words) as environment, client_of(environment) as client:

        def submit(job: Sleeper, line: str) -> None:
            plain = submission(line)
            wanted = f"rusage[ngpus_excl_p={job.gpus}]"
            spec = msgspec.structs.replace(plain.spec, res_req=wanted, run_limit_s=job.limit_s or None)
            client.submit(msgspec.structs.replace(plain, spec=spec))

        yield submit


@contextlib.contextmanager
def on_slurm() -> Iterator[Submit]:
    """A private Slurm with its munge."""
    with private_slurm(PORTS, GPUS, SLURM_TUNING) as environment:

        def submit(job: Sleeper, line: str) -> None:
            limit = [f"--time=0:{job.limit_s}"] if job.limit_s else []
            words = ["sbatch", "-o", "/dev/null", "-D", "/tmp", f"--cpus-per-task={job.gpus}", *limit, "--wrap", line]
            subprocess.run(words, env=environment, check=True, capture_output=True)

        yield submit


if __name__ == "__main__":
    sys.exit(main())
