"""Submit to start on an idle cluster: from the call returning to the first instruction. Goal: median under 50 ms."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from private_cluster import client_of, private_cluster, report, submission

from gsched.wire.calls.client import Client

TIMES = 30


def main() -> int:
    """Print the distribution and the figures; exit code 0."""
    found = measured()
    median = statistics.median(found)
    extremes = f"min {found[0]:.1f}, max {found[-1]:.1f} ({len(found)} jobs)"
    print(f"submit returned -> job runs: median {median:.1f} ms, {extremes}")
    report("latency", {"start_ms_median": median, "start_ms_min": found[0], "start_ms_max": found[-1]})
    return 0


def measured(times: int = TIMES) -> list[float]:
    """Milliseconds of so many jobs, the shortest first."""
    with (
        private_cluster("--sim-gpus", "4:exclusive_process") as environment,
        tempfile.TemporaryDirectory() as folder,
        client_of(environment) as client,
    ):
        one(client, Path(folder) / "warm-up")
        return sorted(one(client, Path(folder) / str(number)) for number in range(times))


def one(client: Client, output: Path) -> float:
    """Milliseconds from the return of submit to the first instruction of the job, by the machine's one clock."""
    job = client.submit(submission(f"date +%s.%N > '{output}.at'", str(output)))
    returned = time.time()
    client.wait([job.job_id], timeout_s=30)
    return (float(Path(f"{output}.at").read_text()) - returned) * 1000


if __name__ == "__main__":
    sys.exit(main())
