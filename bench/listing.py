"""How soon `gjobs` prints its first line when 50,000 jobs wait, and its last. Goal: the first in under 1 s.

The host is closed, so that nothing starts. The jobs are of 50 kinds and no array.

    python bench/listing.py [--jobs 50000]

The last line is JSON.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

import msgspec
from private_cluster import BIN, client_of, private_cluster, report, submission

from gsched.model.views.view import Submission
from gsched.wire.calls.client import Client

BATCH = 1_000
KINDS = 50
TIMES = 5
LISTINGS = (("gjobs",), ("gjobs", "-w"), ("gjobs", "-p"), ("gjobs", "-noheader", "-o", "jobid stat queue exec_host"))


def main() -> int:
    """Print the figures; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=50_000)
    jobs = parser.parse_args().jobs
    figures: dict[str, float] = {}
    with private_cluster("--sim-gpus", "8:exclusive_process") as environment:
        with client_of(environment) as client:
            fill(client, jobs)
            worst = worst_answer_s(client, environment)
        one = median_s(["gid"], environment)[1]
        print(f"{jobs} pending jobs; gid takes {one * 1000:.0f} ms")
        for words in LISTINGS:
            first, last = median_s(words, environment)
            name = "_".join(words[:2]).replace("-", "")
            figures |= {f"{name}_first_line_s": first, f"{name}_s": last}
            shown = " ".join(words)
            print(f"{shown:<46} first line {first:6.3f} s ({first / one:5.1f} x gid), all {last:6.2f} s")
        print(f"the longest that a short question took while gjobs was answered: {worst * 1000:.0f} ms")
        figures["worst_answer_meanwhile_s"] = worst
    report("listing", figures)
    return 0


def fill(client: Client, jobs: int) -> None:
    """Let so many jobs wait."""
    client.host_control("close", [host.name for host in client.hosts()])
    for start in range(0, jobs, BATCH):
        client.submit_many([waiting(number) for number in range(start, min(start + BATCH, jobs))])


def waiting(number: int) -> Submission:
    """A job with a name of its own and one of 50 requirements."""
    plain, kind = submission(f"./train.sh --seed {number}"), number % KINDS
    requirement = f"select[mem>{1 + kind // 8}] rusage[mem={1 + kind // 8},ngpus_excl_p={1 + kind % 8}]"
    spec = msgspec.structs.replace(plain.spec, name=f"sweep-{number}", res_req=requirement)
    return Submission(spec=spec, environment=plain.environment)


def worst_answer_s(client: Client, environment: dict[str, str]) -> float:
    """The longest that the master took for a short question while it answered gjobs: what orders to agents wait too."""
    worst = 0.0
    with subprocess.Popen([str(BIN / "gjobs")], env=environment, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            start = time.perf_counter()
            client.cluster()
            worst = max(worst, time.perf_counter() - start)
            time.sleep(0.002)
    return worst


def median_s(words: Sequence[str], environment: dict[str, str], times: int = TIMES) -> tuple[float, float]:
    """Seconds until the first line of the command's output, and until its end."""
    firsts, lasts = [], []
    for _ in range(times):
        start = time.perf_counter()
        with subprocess.Popen([str(BIN / words[0]), *words[1:]], env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            firsts.append(time.perf_counter() - start)
            while process.stdout.read(1 << 20):
                pass
        lasts.append(time.perf_counter() - start)
    return statistics.median(firsts), statistics.median(lasts)


if __name__ == "__main__":
    sys.exit(main())
