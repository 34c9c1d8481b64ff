"""From the end of a job to the first instruction of the job that then fits, beside 1,000 jobs that do not fit yet.

Three hosts on this machine with four simulated GPUs each, all held by jobs that wait to be told to end. The others that
wait are of 50 classes: several GPUs of one host, gangs over hosts, compounds and alternatives. What is measured wants
one GPU, or is a gang or a compound over two hosts; it is served first, and then has the next turn as a holder. The peer
in the same run is the same cluster with nobody else waiting, so that a ratio says what the others cost; the limit is
what this machine takes to start a shell with a program. Goals: median 20 ms, p99 100 ms on an idle machine.

    python bench/promptness.py --turns 200
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from private_cluster import BIN, client_of, private_cluster, report, submission

from gsched.base.coded_text import sentence
from gsched.model.views.view import JobFilter, Submission
from gsched.wire.calls.client import Client

HOSTS, GPUS = ("a", "b", "c"), 4
CLASSES = 50
FIRST = "first"
"""Queue of what is measured; the others are in the default queue, which is served after it."""
SETTLE_S = 0.15
"""After a submission: what comes with it is over."""
PATIENCE_S = 60.0
_ONE = "rusage[ngpus_excl_p=1]"
KINDS = {
    "one_gpu": (1, _ONE),
    "gang": (2, f"span[ptile=1] {_ONE}"),
    "compound": (2, "1*{select[hname!=c] rusage[ngpus_excl_p=1]} + 1*{select[hname==c] rusage[ngpus_excl_p=1]}"),
}
"""What is measured: slots, each on a host of its own, and requirement."""


def main() -> int:
    """Print a line for each figure, then all of them; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=60, help="ends of jobs that are measured, for each kind")
    parser.add_argument("--jobs", type=int, default=1000, help="others that wait")
    asked = parser.parse_args()
    limit = spawn_ms(asked.turns)
    print(f"limit: a shell that runs a program, median {limit:.1f} ms; load of the machine {os.getloadavg()[0]:.1f}")
    figures = {"spawn_ms": limit}
    with (
        private_cluster("--hosts", ",".join(HOSTS), "--sim-gpus", f"{GPUS}:exclusive_process") as environment,
        tempfile.TemporaryDirectory() as folder,
        client_of(environment) as client,
    ):
        add_queue(environment)
        turns = Turns(client, Path(folder))
        alone = {kind: turns.measured(kind, asked.turns) for kind in KINDS}
        client.submit_many([waiting(number) for number in range(asked.jobs)])
        time.sleep(1.0)
        beside = {kind: turns.measured(kind, asked.turns) for kind in KINDS}
        left = sum(job.state == "PEND" for job in client.jobs(JobFilter(user="all")))
        assert left == asked.jobs, f"{asked.jobs - left} of the jobs that should not fit did"
        for kind in KINDS:
            figures |= told(f"{kind}_alone", alone[kind])
            figures |= told(f"{kind}_beside", beside[kind])
            ratio = statistics.median(beside[kind]) / statistics.median(alone[kind])
            print(f"{kind}: {asked.jobs} others that wait cost a factor of {ratio:.2f}")
            figures[f"{kind}_ratio"] = ratio
    everything = [each for kind in KINDS for each in beside[kind]]
    figures |= told("beside", everything)
    figures["over_spawn"] = statistics.median(everything) / limit
    report("promptness", figures)
    return 0


def told(what: str, found: Sequence[float]) -> dict[str, float]:
    """The figures of one distribution, printed."""
    cuts = statistics.quantiles(found, n=100, method="inclusive")
    median, p95, p99 = cuts[49], cuts[94], cuts[98]
    print(f"{what}: end -> start median {median:.1f} ms, p95 {p95:.1f}, p99 {p99:.1f} ({len(found)} times)")
    return {f"{what}_ms_median": median, f"{what}_ms_p95": p95, f"{what}_ms_p99": p99}


def spawn_ms(times: int) -> float:
    """What each job does at least: a shell that runs a program."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        subprocess.run(["/bin/sh", "-c", "date +%s.%N"], stdout=subprocess.DEVNULL, check=True)
        found.append((time.perf_counter() - begun) * 1000)
    return statistics.median(found)


def add_queue(environment: Mapping[str, str]) -> None:
    """The queue that is served first."""
    path = next(Path(environment["GSCHED_ENVDIR"]).rglob("lsb.queues"))
    with path.open("a") as queues:
        queues.write(f"\nBegin Queue\nQUEUE_NAME = {FIRST}\nPRIORITY = 90\nEnd Queue\n")
    subprocess.run([str(BIN / "gadmin"), "reconfig"], env=dict(environment), check=True, capture_output=True)


def waiting(number: int) -> Submission:
    """One of the others: it wants more GPUs of a host than ever are free at a time."""
    mem = 1 + number % CLASSES
    several = f"rusage[ngpus_excl_p={2 + mem % 3}:mem={mem}]"
    kinds = (
        (1, several),
        (2, f"span[ptile=1] {several}"),
        (2, f"1*{{{several}}} + 1*{{rusage[ngpus_excl_p=2:mem={mem}]}}"),
        (1, f"{{rusage[ngpus_excl_p=4:mem={mem}]}} || {{{several}}}"),
        (3, f"span[hosts=1] rusage[ngpus_excl_p=3:mem={mem}]"),
    )
    slots, requirement = kinds[mem % len(kinds)]
    plain = submission("true")
    spec = msgspec.structs.replace(plain.spec, res_req=requirement, slots=slots)
    return msgspec.structs.replace(plain, spec=spec)


class Turns:
    """Holders of all GPUs, and what follows on them."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._number = 0
        self._holders: dict[str, deque[int]] = {host: deque() for host in HOSTS}
        for host in HOSTS:
            for _ in range(GPUS):
                self._holders[host].append(self._begun(self._submitted("one_gpu", host)))

    def measured(self, kind: str, turns: int) -> list[float]:
        """Milliseconds from the end that lets it start to its first instruction, after one turn that does not count."""
        return [self._turn(kind, number) for number in range(turns + 1)][1:]

    def _turn(self, kind: str, number: int) -> float:
        hosts = {"one_gpu": (HOSTS[number % 3],), "gang": (HOSTS[number % 3], HOSTS[number % 3 - 1])}
        chosen = hosts.get(kind, (HOSTS[number % 2], "c"))
        follower = self._submitted(kind)
        time.sleep(SETTLE_S)
        ended = [self._holders[host].popleft() for host in chosen]
        for holder in ended:
            self._end(holder)
        self._begun(follower)
        last_end = max(self._stamp("end", holder) for holder in ended)
        if len(chosen) == 1:
            self._holders[chosen[0]].append(follower)
        else:
            successors = [self._submitted("one_gpu", host) for host in chosen]
            self._end(follower)
            for host, successor in zip(chosen, successors, strict=True):
                self._holders[host].append(self._begun(successor))
        return (self._stamp("start", follower) - last_end) * 1000

    def _submitted(self, kind: str, host: str = "") -> int:
        """Number of a job that notes when it starts, waits until it is told to end, and notes that."""
        self._number += 1
        number = self._number
        os.mkfifo(self._path("go", number))
        start, go, end = (self._path(name, number) for name in ("start", "go", "end"))
        # Written beside and renamed: a stamp that is there is whole.
        plain = submission(f"date +%s.%N > {start}.new; mv {start}.new {start}; read x < {go}; date +%s.%N > {end}")
        slots, requirement = KINDS[kind]
        spec = msgspec.structs.replace(
            plain.spec, res_req=requirement, slots=slots, queue=FIRST, hosts=(host,) if host else ()
        )
        self._client.submit(msgspec.structs.replace(plain, spec=spec))
        return number

    def _begun(self, number: int) -> int:
        """The job, as soon as it has started."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._path("start", number).exists():
            assert time.monotonic() < deadline, f"a job has not started: {self._reasons()}"
            time.sleep(0.005)
        return number

    def _reasons(self) -> list[str]:
        """Why those wait that are served first."""
        waiting = self._client.jobs(JobFilter(user="all", states=("PEND",)))
        first = [job for job in waiting if job.spec.queue == FIRST]
        return [str(sentence(reason.text)) for job in first for reason in job.pending_reasons]

    def _end(self, number: int) -> None:
        self._path("go", number).write_text("\n")

    def _stamp(self, name: str, number: int) -> float:
        return float(self._path(name, number).read_text())

    def _path(self, name: str, number: int) -> Path:
        return self._folder / f"{name}.{number}"


if __name__ == "__main__":
    sys.exit(main())
