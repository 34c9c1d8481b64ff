"""A backlog of 100,000 pending jobs: memory for each, durable bulk submission, restart of the master after kill -9.

Beside the durable submissions stands this machine's limit: rows of the same size that plain SQLite commits per second
in batches as large. The host is closed, so that nothing starts.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import psutil
from private_cluster import BIN, client_of, private_cluster, report, submission

from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import JobFilter, Submission
from gsched.wire.calls.client import Client

JOBS = 100_000
BATCH = 1_000
CLASSES = 50


def main() -> int:
    """Print the figures; exit code 0."""
    with private_cluster("--sim-gpus", "8:exclusive_process") as environment:
        with client_of(environment) as client:
            client.host_control("close", [host.name for host in client.hosts()])
            master = master_of(environment)
            client.submit_many(batch(0))
            before = master.memory_info().rss
            rate = submit_all(client)
            per_job = (master.memory_info().rss - before) / (JOBS - BATCH)
            array_s = submit_array(client)
        restart_s = restart(environment, master)
    limit = sqlite_rows_per_s()
    print(f"{JOBS} jobs pending: {per_job:.0f} bytes each in the master")
    print(f"submitted in calls of {BATCH}: {rate:.0f} durable jobs/s ({rate / limit:.2f} of {limit:.0f} SQLite rows/s)")
    print(f"master back after kill -9 with all of them: {restart_s:.2f} s")
    print(f"an array of {JOBS} elements submitted, durable: {array_s:.3f} s")
    report(
        "backlog",
        {
            "array_submit_s": array_s,
            "bytes_per_pending_job": per_job,
            "submissions_per_s": rate,
            "ratio_to_sqlite_rows": rate / limit,
            "restart_s": restart_s,
        },
    )
    return 0


def batch(start: int) -> list[Submission]:
    """Jobs of many requirement classes."""
    return [of_class(number % CLASSES) for number in range(start, start + BATCH)]


def of_class(number: int) -> Submission:
    """A job that wants GPUs and memory like others of its class."""
    plain = submission("./train.sh --seed 17")
    spec = JobSpec(
        command=plain.spec.command,
        user="",
        queue="",
        cwd="/tmp",
        home="/tmp",
        submit_host="bench",
        res_req=f"select[mem>{1 + number // 8}] rusage[mem={1 + number // 8},ngpus_excl_p={1 + number % 8}]",
    )
    return Submission(spec=spec, environment=plain.environment)


def submit_all(client: Client) -> float:
    """Jobs per second until the last batch was acknowledged."""
    start = time.perf_counter()
    for first in range(BATCH, JOBS, BATCH):
        client.submit_many(batch(first))
    return (JOBS - BATCH) / (time.perf_counter() - start)


def submit_array(client: Client) -> float:
    """Seconds from the call for an array to its acknowledgement."""
    one = of_class(0)
    spec = msgspec.structs.replace(one.spec, name="many", indices=f"1-{JOBS}", array_limit=50)
    start = time.perf_counter()
    client.submit(Submission(spec=spec, environment=one.environment))
    return time.perf_counter() - start


def master_of(environment: dict[str, str]) -> psutil.Process:
    """The master's process of the private cluster."""
    folder = str(Path(environment["GSCHED_ENVDIR"]).parent)
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "master" in words and any(folder in word for word in [*words, *_environment(process)]):
            return process
    raise SystemExit("no master of this cluster is running")


def _environment(process: psutil.Process) -> list[str]:
    try:
        return list(process.environ().values())
    except psutil.Error:
        return []


def restart(environment: dict[str, str], master: psutil.Process) -> float:
    """Seconds from starting the master again to its first answer about the newest job."""
    os.kill(master.pid, signal.SIGKILL)
    master.wait(30)
    folder = str(Path(environment["GSCHED_ENVDIR"]).parent)
    start = time.perf_counter()
    subprocess.run([BIN / "gsched", "up", "--dir", folder], env=environment, check=True, stdout=subprocess.DEVNULL)
    with client_of(environment) as client:
        found = list(client.jobs(JobFilter(ids=(JOBS,), user="all")))
    if len(found) != 1:
        raise SystemExit(f"job {JOBS} was acknowledged and is gone")
    return time.perf_counter() - start


def sqlite_rows_per_s() -> float:
    """What the disk and SQLite allow: rows of 600 bytes, durable in batches."""
    with tempfile.TemporaryDirectory(prefix="gsched-bench-") as folder:
        connection = sqlite3.connect(Path(folder) / "limit.db", isolation_level=None)
        connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t (a INTEGER, b BLOB)")
        start = time.perf_counter()
        for first in range(0, 20 * BATCH, BATCH):
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO t VALUES (?, ?)", [(first + i, b"x" * 600) for i in range(BATCH)])
            connection.execute("COMMIT")
        rate = 20 * BATCH / (time.perf_counter() - start)
        connection.close()
    return rate


if __name__ == "__main__":
    sys.exit(main())
