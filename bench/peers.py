"""How many trivial jobs a second gsched runs, beside Slurm, HyperQueue and task-spooler, in alternating rounds.

Each system is started once, privately, on loopback, with 64 slots and as it is fastest (no accounting, no control
groups, no delays); a round has it run so many times `/bin/true` through its own commands, as an array where it has
arrays, from the first command to when its own commands say that all have ended. Nothing is installed: a system takes
part if its programs are found (Slurm: root, slurm-wlm and munge; HyperQueue: `hq`, or its Python package, which looks
once a second; task-spooler: `tsp`). Only ratios of one run mean anything. gsched stores each event on disk before it
answers, which of the others Slurm alone does.

    python bench/peers.py [--jobs 1000] [--rounds 5] [--only slurm,hyperqueue,task-spooler]

The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from private_cluster import BIN, end_in_good_order, private_cluster, report
from private_slurm import is_there, private_slurm

SLOTS = 64
LOOK_S = 0.1
"""Between two looks at a queue, where a system has no command that waits."""
PATIENCE_S = 900.0
PORTS = 26937, 26938
LIMIT_AT_ONCE = 4
Run = Callable[[int], None]
"""Runs so many jobs to their ends."""

SLURM_TUNING = """\
SlurmctldDebug=error
SlurmdDebug=error
SchedulerParameters=defer,sched_interval=1,sched_min_interval=50000,batch_sched_delay=0,default_queue_depth=10000
MaxJobCount=200000
MaxArraySize=100001
MinJobAge=2
PropagateResourceLimits=NONE
"""


def main() -> int:
    """Print rates, medians and ratios; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(PEERS), help="peers to compare with, those that are found")
    options = parser.parse_args()
    wanted = [name for name in options.only.split(",") if name]
    unknown = [name for name in wanted if name not in PEERS]
    if unknown or min(options.jobs, options.rounds) < 1:
        parser.error(f"--only: no such peer: {', '.join(unknown)}" if unknown else "--jobs, --rounds: at least 1")
    report("peers", figures_of(measured(options.jobs, options.rounds, wanted)))
    return 0


def measured(jobs: int, times: int, wanted: Sequence[str], limit_s: float = float("inf")) -> dict[str, list[float]]:
    """Jobs a second of each system in each round; no round is begun later than `limit_s` after the first."""
    end_in_good_order()
    with contextlib.ExitStack() as stack:
        runs: dict[str, Run] = {"fork+exec": fork_and_exec, "gsched": stack.enter_context(gsched())}
        for name in wanted:
            is_found, opened = PEERS[name]
            if is_found():
                runs[name] = stack.enter_context(opened())
            else:
                print(f"{name}: not found")
        for run in runs.values():
            run(1)
        return rounds(runs, jobs, times, limit_s)


def rounds(runs: dict[str, Run], jobs: int, times: int, limit_s: float) -> dict[str, list[float]]:
    """Jobs a second of each system in each round."""
    rates: dict[str, list[float]] = {name: [] for name in runs}
    begun = time.perf_counter()
    for number in range(times):
        if number and time.perf_counter() - begun > limit_s:
            print(f"{times - number} rounds are left out: there is no time for them")
            break
        for name, run in runs.items():
            start = time.perf_counter()
            run(jobs)
            rates[name].append(jobs / (time.perf_counter() - start))
        print(f"round {number + 1}: " + ", ".join(f"{name} {rates[name][-1]:.0f}/s" for name in runs), flush=True)
    return rates


def figures_of(rates: dict[str, list[float]]) -> dict[str, float]:
    """Medians, and by how much gsched is faster; printed as well."""
    medians = {name: statistics.median(found) for name, found in rates.items()}
    figures: dict[str, float] = {}
    for name, median in medians.items():
        ratio = medians["gsched"] / median
        print(
            f"{name:<13} {median:7.1f} jobs/s, {min(rates[name]):.0f} to {max(rates[name]):.0f}; gsched {ratio:.2f} x"
        )
        key = re.sub(r"\W", "_", name)
        figures[f"{key}_jobs_per_s"] = median
        if name != "gsched":
            figures[f"gsched_to_{key}"] = ratio
    return figures


def fork_and_exec(jobs: int) -> None:
    """The limit of the machine: processes that a shell starts, a few at a time."""
    words = ["sh", "-c", 'i=0; while [ $i -lt "$1" ]; do /bin/true; i=$((i+1)); done', "sh"]
    shares = [jobs // LIMIT_AT_ONCE + (place < jobs % LIMIT_AT_ONCE) for place in range(LIMIT_AT_ONCE)]
    started = [subprocess.Popen([*words, str(share)]) for share in shares]
    for process in started:
        process.wait()


def until(is_over: Callable[[], bool], what: str) -> None:
    """Look again and again."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_over():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not all jobs have ended after {PATIENCE_S:.0f} s")
        time.sleep(LOOK_S)


def text_of(words: Sequence[str], environment: dict[str, str]) -> str:
    """What a command prints. Ends the bench when it fails."""
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout


@contextlib.contextmanager
def gsched_cluster() -> Iterator[dict[str, str]]:
    """A private cluster of one host with so many slots as the others have; its environment."""
    with private_cluster("--sim-gpus", "0") as environment:
        hosts = Path(environment["GSCHED_ENVDIR"]) / "lsb.hosts"
        text, found = re.subn(r"(?m)^(default\b[ =]*).*$", rf"\g<1>{SLOTS} ()", hosts.read_text())
        assert found == 1, "lsb.hosts has no line for `default`"
        hosts.write_text(text)
        text_of([str(BIN / "gadmin"), "reconfig"], environment)
        yield environment


@contextlib.contextmanager
def gsched() -> Iterator[Run]:
    """A private cluster; an array and `gwait`."""
    with gsched_cluster() as environment:

        def run(jobs: int) -> None:
            words = [str(BIN / "gsub"), "-J", f"a[1-{jobs}]", "-o", "/dev/null", "/bin/true"]
            number = re.search(r"<(\d+)>", text_of(words, environment))
            assert number is not None
            text_of([str(BIN / "gwait"), "-w", f"ended({number[1]})"], environment)

        yield run


@contextlib.contextmanager
def slurm() -> Iterator[Run]:
    """A private Slurm; an array, and looks at the queue."""
    with private_slurm(PORTS, SLOTS, SLURM_TUNING) as environment:

        def run(jobs: int) -> None:
            array = [
                "sbatch",
                "-Q",
                f"--array=1-{jobs}",
                "-n1",
                "-D",
                "/tmp",
                "-o",
                "/dev/null",
                "--wrap",
                "exec /bin/true",
            ]
            text_of(array, environment)
            until(lambda: not text_of(["squeue", "-h", "-o", "%i"], environment).strip(), "Slurm")

        yield run


@contextlib.contextmanager
def hyperqueue() -> Iterator[Run]:
    """A job of so many tasks, by `hq`, else by the Python package, which brings no command."""
    with (hyperqueue_by_command if shutil.which("hq") else hyperqueue_by_package)() as run:
        yield run


@contextlib.contextmanager
def hyperqueue_by_package() -> Iterator[Run]:
    """Server and worker in this process."""
    library = importlib.import_module("hyperqueue")
    worker = importlib.import_module("hyperqueue.cluster").WorkerConfig(cores=SLOTS)
    with library.LocalCluster() as cluster:
        cluster.start_worker(worker)
        client = cluster.client()

        def run(jobs: int) -> None:
            job = library.Job()
            for _ in range(jobs):
                job.program(["/bin/true"], stdout=None, stderr=None)
            client.wait_for_jobs([client.submit(job)])

        yield run


@contextlib.contextmanager
def hyperqueue_by_command() -> Iterator[Run]:
    """A server and a worker of `hq`, which waits for the job."""
    with tempfile.TemporaryDirectory(prefix="hq-bench-") as name, contextlib.ExitStack() as stack:
        environment = os.environ | {"HQ_SERVER_DIR": name}
        for words in (("server", "start"), ("worker", "start", "--cpus", str(SLOTS))):
            silent = subprocess.DEVNULL
            process = subprocess.Popen(["hq", *words], env=environment, stdin=silent, stdout=silent, stderr=silent)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            until(lambda: _answers(["hq", "job", "list"], environment), "HyperQueue's server")

        def run(jobs: int) -> None:
            streams = ("--stdout", "none", "--stderr", "none")
            text_of(["hq", "submit", "--array", f"1-{jobs}", *streams, "--wait", "/bin/true"], environment)

        yield run


def _answers(words: Sequence[str], environment: dict[str, str]) -> bool:
    return subprocess.run(words, env=environment, capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def task_spooler() -> Iterator[Run]:
    """A server of `tsp`; a command for each job, one after the other, since it has no arrays."""
    with tempfile.TemporaryDirectory(prefix="tsp-bench-") as folder:
        own = {"TS_SOCKET": f"{folder}/socket", "TS_SLOTS": str(SLOTS), "TS_MAXFINISHED": "10"}
        environment = os.environ | own
        each = ["sh", "-c", 'i=0; while [ $i -lt "$1" ]; do tsp -n /bin/true || exit; i=$((i+1)); done', "sh"]
        try:

            def run(jobs: int) -> None:
                text_of([*each, str(jobs)], environment)
                until(lambda: not re.search(r"(?m)^\d+ +(queued|running)\b", text_of(["tsp"], environment)), "tsp")

            yield run
        finally:
            subprocess.run(["tsp", "-K"], env=environment, capture_output=True, check=False)


PEERS: dict[str, tuple[Callable[[], object], Callable[[], contextlib.AbstractContextManager[Run]]]] = {
    "slurm": (is_there, slurm),
    "hyperqueue": (lambda: shutil.which("hq") or importlib.util.find_spec("hyperqueue"), hyperqueue),
    "task-spooler": (lambda: shutil.which("tsp"), task_spooler),
}
"""Name -> whether it is found, and how it is started."""


if __name__ == "__main__":
    sys.exit(main())
