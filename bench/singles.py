"""How many jobs a second gsched takes and runs that are submitted one by one, by as many commands, beside Slurm.

Three shells submit at the same time, each its share of the jobs with a command for each; a round lasts from the first
command to when the system's own command shows no job any more. Both are started as for peers.py: once, privately, with
64 slots and as they are fastest. Slurm takes part if it is found (root, slurm-wlm and munge). Only ratios of one run
mean anything.

    python bench/singles.py [--jobs 1000] [--rounds 3]

The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence

from peers import PORTS, SLOTS, SLURM_TUNING, Run, figures_of, gsched_cluster, rounds, text_of, until
from private_cluster import BIN, end_in_good_order, report
from private_slurm import is_there, private_slurm

SHELLS = 3
LOOP = 'i=0; n=$1; shift; while [ $i -lt "$n" ]; do "$@" >/dev/null || exit; i=$((i+1)); done'


def main() -> int:
    """Print rates, medians and ratios; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.jobs < SHELLS or options.rounds < 1:
        parser.error(f"--jobs: at least {SHELLS}; --rounds: at least 1")
    end_in_good_order()
    with contextlib.ExitStack() as stack:
        runs = {"gsched": stack.enter_context(gsched())}
        if is_there():
            runs["slurm"] = stack.enter_context(slurm())
        else:
            print("slurm: not found")
        for run in runs.values():
            run(SHELLS)
        report("singles", figures_of(rounds(runs, options.jobs, options.rounds, float("inf"))))
    return 0


def submit_all(jobs: int, words: Sequence[str], environment: dict[str, str]) -> None:
    """Each shell submits its share, one after the other. Ends the bench when a command fails."""
    shares = [jobs // SHELLS + (place < jobs % SHELLS) for place in range(SHELLS)]
    shells = [subprocess.Popen(["sh", "-c", LOOP, "sh", str(share), *words], env=environment) for share in shares]
    codes = [shell.wait() for shell in shells]
    if any(codes):
        raise SystemExit(f"{words[0]}: a job was not submitted")


@contextlib.contextmanager
def gsched() -> Iterator[Run]:
    """A private cluster."""
    with gsched_cluster() as environment:

        def run(jobs: int) -> None:
            submit_all(jobs, [str(BIN / "gsub"), "-o", "/dev/null", "/bin/true"], environment)
            until(lambda: not text_of([str(BIN / "gjobs")], environment).strip(), "gsched")

        yield run


@contextlib.contextmanager
def slurm() -> Iterator[Run]:
    """A private Slurm."""
    with private_slurm(PORTS, SLOTS, SLURM_TUNING) as environment:
        words = ["sbatch", "-Q", "-n1", "-D", "/tmp", "-o", "/dev/null", "--wrap", "exec /bin/true"]

        def run(jobs: int) -> None:
            submit_all(jobs, words, environment)
            until(lambda: not text_of(["squeue", "-h", "-o", "%i"], environment).strip(), "Slurm")

        yield run


if __name__ == "__main__":
    sys.exit(main())
