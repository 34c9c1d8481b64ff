"""1,000 trivial jobs submitted one by one through the API, end to end, beside this machine's fork+exec limit.

The limit is measured in the same run: processes per second that Python starts and reaps, four at a time.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from private_cluster import client_of, private_cluster, report, submission

from gsched.wire.calls.client import Client

JOBS = 1000


def main() -> int:
    """Print rates and ratios; exit code 0."""
    limit = fork_exec_rate()
    print(f"fork+exec of /bin/true, 4 at a time: {limit:7.0f}/s")
    figures = {"fork_exec_per_s": limit}
    with private_cluster("--sim-gpus", "0") as environment, client_of(environment) as client:
        client.wait([client.submit(submission("/bin/true")).job_id])
        for name, submit in (("single", one_by_one), ("bulk", all_at_once)):
            start = time.perf_counter()
            ids = submit(client)
            submitted = time.perf_counter() - start
            client.wait(ids, timeout_s=300)
            total = time.perf_counter() - start
            rate = JOBS / total
            speeds = f"submitted {JOBS / submitted:6.0f}/s, done {rate:6.0f}/s"
            print(f"{JOBS} jobs, {name}: {speeds} ({rate / limit:.2f} of the limit)")
            figures.update({f"{name}_jobs_per_s": rate, f"{name}_submits_per_s": JOBS / submitted})
            figures[f"{name}_ratio_to_limit"] = rate / limit
    report("throughput", figures)
    return 0


def one_by_one(client: Client) -> list[int]:
    """A call for each job."""
    return [client.submit(submission("/bin/true")).job_id for _ in range(JOBS)]


def all_at_once(client: Client) -> list[int]:
    """One call for all jobs."""
    return [job.job_id for job in client.submit_many([submission("/bin/true") for _ in range(JOBS)])]


def fork_exec_rate() -> float:
    """Processes per second."""
    start = time.perf_counter()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: subprocess.run(["/bin/true"], check=True), range(JOBS)))
    return JOBS / (time.perf_counter() - start)


if __name__ == "__main__":
    sys.exit(main())
